"""A stream with landed rows in a real table, whose typed tables are real as well; no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml
from deltalake import DeltaTable, write_deltalake

from tests.fake_decoder import FakeDecoder
from tests.fake_registry import FakeRegistry
from tests.simulation.store import MemoryStore, StoreState
from tests.table_worlds import Rows
from tests.unit.build import ID, head, position
from tideline.decoding.verifying import typed_against_raw
from tideline.landing.context import RunContext, TypedTables
from tideline.ledger.ledger import Ledger
from tideline.model.decoding import DecodeRecord, Redriven
from tideline.model.offsets import CoordinateRange, Coverage, OffsetRange, PartitionIdentity
from tideline.model.request import RunRequest
from tideline.operations.redrive import redrive
from tideline.pipeline.run_batch import decode_batch
from tideline.rules.audit import TypedAudit
from tideline.stream.files import read_stream
from tideline.table.delta_table import TargetTable
from tideline.table.schema import QUARANTINE_COLUMNS, TYPED_COORDINATES


class DecodedLake:
    """One partition, whose raw rows are landed by `lands`.

    Args:
        folder: For the tables.
        options: delta-rs options of the typed tables, where they are in an object store.
        decode: Keys of the stream file's section `decode`, beside a value in Avro and two tables.
    """

    def __init__(
        self, folder: Path, options: Mapping[str, str] | None = None, **decode: object
    ) -> None:
        self.folder, self.store = folder, StoreState()
        self.options = dict(options or {})
        self.registry, self.spark = FakeRegistry(), FakeDecoder()
        self.decode: dict[str, object] = {
            "value": {"format": "avro", "subject": "orders-value"},
            "table": {"uri": str(folder / "typed")},
            "quarantine": {"uri": str(folder / "bad"), "max_share": 1.0},
            **decode,
        }
        self.maintenance: dict[str, object] = {}
        self.name, self.landed = "orders", 0
        self.topic_id, self.generation = ID, 0
        self.before: tuple[Coverage, ...] = ()
        self.raw = TargetTable(str(folder / "raw"))

    @property
    def ledger(self) -> Ledger:
        """The stream's ledger, as another process would open it."""
        return Ledger(MemoryStore(self.store), self.name)

    def register(self, *fields: tuple[str, object], subject: str = "orders-value") -> int:
        """An Avro schema with fields of these names and types; its id."""
        named = [{"name": n, "type": t} for n, t in fields]
        schema = {"type": "record", "name": "Order", "fields": named}
        return self.registry.register(subject, json.dumps(schema))

    def lands(self, *values: bytes | None) -> None:
        """Rows that are landed and verified, one per value."""
        for value in values:
            self.lands_rows([value])

    def lands_rows(self, values: Iterable[bytes | None]) -> None:
        """The same in as few commits as values."""
        state = self.ledger.update(lambda s: s.with_next_token())
        self.raw.create(self.name, state.control.ledger_id, [])
        for value in values:
            log = (self.topic_id, self.generation, 0)
            at = CoordinateRange("orders", *log, self.landed, self.landed + 1)
            write_deltalake(self.raw.uri, Rows(at, value=value).table, mode="append")
            self.landed += 1
        self.covers(self.landed)

    def covers(self, end: int) -> None:
        """The landing's head covers `[0, end)`: fewer after a rewind."""
        table = DeltaTable(self.raw.uri)
        log = PartitionIdentity(self.topic_id, self.generation, 0)
        now = head(
            position(end, topic_id=self.topic_id, generation=self.generation),
            coverage=(*self.before, Coverage(log, (OffsetRange(0, end),))),
            table_id=str(table.metadata().id),
            table_version=table.version(),
        )
        self.ledger.update(lambda s: s.with_head(now))

    def begins_anew(self, topic_id: str = ID) -> None:
        """The log was truncated, or the topic was created anew, and somebody decided to go on."""
        self.before = self.ledger.read().head.coverage
        self.generation = self.generation + 1 if topic_id == self.topic_id else 0
        self.topic_id, self.landed = topic_id, 0

    def run(self, run_id: str) -> RunContext:
        """A run's context."""
        file = self.folder / "orders.yaml"
        sections = {
            "stream": self.name,
            "kafka": {"connection": "kafka_default", "topics": ["orders"]},
            "table": {"uri": self.raw.uri},
            "registry": {"connection": "registry_default"},
            "decode": self.decode,
            "maintenance": self.maintenance,
        }
        file.write_text(yaml.safe_dump(sections))
        stream = read_stream(file)
        assert stream.decode is not None
        return RunContext(
            stream=stream,
            run_id=run_id,
            request=RunRequest(),
            ledger=self.ledger,
            connect=lambda: None,  # type: ignore[arg-type, return-value]
            table=self.raw,
            spark=self.spark,
            typed=TypedTables(
                TargetTable(stream.decode.table.uri, self.options, TYPED_COORDINATES),
                TargetTable(stream.decode.quarantine.uri, self.options, QUARANTINE_COLUMNS),
            ),
            connect_registry=lambda: self.registry,
        )

    def decodes(self, run_id: str) -> DecodeRecord | None:
        """What `tideline decode` does."""
        run = self.run(run_id)
        decode_batch(run)
        return run.decoded

    def redrives(self, run_id: str) -> Redriven:
        """What `tideline redrive` does."""
        return redrive(self.run(run_id))

    def audits(self) -> TypedAudit:
        """What `tideline audit` finds in the typed tables."""
        found = typed_against_raw(self.run("audit"))
        assert found is not None
        return found

    def typed(self, table: str = "table") -> list[int]:
        """Offsets in the typed table, each as often as it stands there."""
        found = self._open(table).to_pyarrow_table(columns=["offset"])["offset"].to_pylist()
        return sorted(found)

    def bad(self) -> list[tuple[int, str]]:
        """Offsets in quarantine with their error classes."""
        found = self._open("quarantine").to_pyarrow_table(columns=["offset", "error_class"])
        return sorted(zip(*found.to_pydict().values(), strict=True))

    def versions(self) -> dict[str, int]:
        """The newest version of each typed table, by the last part of its address."""
        found = map(self._open, ("table", "quarantine"))
        return {table.table_uri.rstrip("/").rpartition("/")[2]: table.version() for table in found}

    def _open(self, table: str) -> DeltaTable:
        typed = self.run("look").typed
        uri = (typed.decoded if table == "table" else typed.quarantine).uri
        return DeltaTable(uri, storage_options=self.options)
