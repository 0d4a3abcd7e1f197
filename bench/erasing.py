"""`make bench-erase`: a thousand keys out of twenty million rows, and one key.

Raw and typed rows are made here, in files as compaction leaves them; the erasure is the product's.
The keys lie everywhere in the files (`scattered`), or next to each other (`sorted`), where
statistics of row groups exclude most of a file. Writes its table into docs/how-to/erase.md, between
the two comments that name this module.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from deltalake import write_deltalake

from bench.processor import used
from bench.report import write_between
from bench.tables import Table
from tideline.errors import ServiceAway
from tideline.landing.context import RunContext, TypedTables
from tideline.model.head import PartitionPosition
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.request import RunRequest
from tideline.operations.erase_finding import AskedKeys
from tideline.operations.erasing import EraseRequest, erase
from tideline.stream.stream import Stream
from tideline.table.delta_table import TargetTable
from tideline.table.schema import QUARANTINE_COLUMNS, TYPED_COORDINATES, delta_fields
from tideline.wiring import open_ledger, open_tables

_PAGE = Path("docs/how-to/erase.md")
_ID = "6a0b0c5e-0000-4000-8000-000000000001"
_A_KEY = 20
"""Records of each key."""
_FILE = 1_000_000
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_MB = 1_000_000
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def erasures(folder: Path, records: int) -> Table:
    """Seconds, memory and rewritten bytes of erasures.

    Args:
        folder: Empty.
        records: In the raw table, and as many typed rows.
    """
    table = Table(
        "Erasures",
        f"{records:,} records of 100 bytes in files of {_FILE:,}, {_A_KEY} of each key; raw and"
        " typed rows, found by a column, taken out of both and vacuumed at once; one process, no"
        " Spark. `scattered`: a key's records lie in all files; `sorted`: next to each other.",
        ("keys", "layout", "records", "seconds", "of the processor", "peak MB", "rewritten MB"),
    )
    for layout in ("scattered", "sorted"):
        for keys in (1, 1000):
            place = folder / f"{layout}-{keys}"
            run, stream = _made(place, records, layout)
            each = max(1, records // _A_KEY // keys)
            asked = tuple({"id": str(number * each)} for number in range(keys))
            request = EraseRequest(AskedKeys(asked), "measured", "bench", is_now=True)
            own = [psutil.Process()]
            began, before = time.monotonic(), used(own)
            with _peak() as peak:
                done = erase(run, open_tables(stream), request).erasure
            seconds, spent = time.monotonic() - began, used(own) - before
            assert done is not None
            assert done.records == keys * _A_KEY, done.records
            size = sum(t.bytes for t in done.tables)
            table.rows.append(
                (
                    f"{keys:,}",
                    layout,
                    f"{done.records:,}",
                    f"{seconds:.1f}",
                    f"{spent:.1f}",
                    f"{peak[0] / _MB:,.0f}",
                    f"{size / _MB:,.0f}",
                )
            )
            print(*table.rows[-1], sep="\t", flush=True)
            shutil.rmtree(place)
    return table


@contextmanager
def _peak() -> Iterator[list[int]]:
    """The most memory that this process has had, in bytes, looked at every 50 ms."""
    found, ended = [0], threading.Event()

    def watch() -> None:
        own = psutil.Process()
        while not ended.wait(0.05):
            found[0] = max(found[0], own.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


class _NoCluster:
    """Nobody answers: what Kafka still has is not asked here."""

    def __getattr__(self, name: str) -> Any:
        raise ServiceAway("no broker here")


def _made(folder: Path, records: int, layout: str) -> tuple[RunContext, Stream]:
    """A stream whose ledger says that all of this was landed and decoded."""
    stream = Stream.model_validate(
        {
            "stream": "orders",
            "kafka": {"topics": ["orders"]},
            "table": {"uri": str(folder / "orders")},
            "decode": {"value": {"format": "json"}},
        }
    )
    ledger = open_ledger(stream)
    assert stream.decode is not None
    position = PartitionPosition("orders", _ID, 0, 0, records)
    log = PartitionIdentity(_ID, 0, 0)
    coverage = Places({log: (OffsetRange(0, records),)})
    state = ledger.update(
        lambda s: s.with_head(replace(s.head, positions=(position,), coverage=coverage))
    )
    ledger_id = state.control.ledger_id
    raw = TargetTable(stream.table.uri)
    decoded = TargetTable(stream.decode.table.uri, columns=TYPED_COORDINATES)
    quarantine = TargetTable(stream.decode.quarantine.uri, columns=QUARANTINE_COLUMNS)
    raw.create("orders", ledger_id, ["topic_id"])
    fields = delta_fields({**TYPED_COORDINATES, "id": "BIGINT", "note": "STRING"})
    decoded.create("orders", ledger_id, ["topic_id"], fields)
    quarantine.create("orders", ledger_id, ["topic_id"], delta_fields(QUARANTINE_COLUMNS))
    for start in range(0, records, _FILE):
        _write(raw.uri, decoded.uri, start, min(records, start + _FILE), records, layout)
    ids = tuple(str(t.observe().table_id) for t in (decoded, quarantine))
    ledger.update(
        lambda s: replace(s, decoding=replace(s.decoding, coverage=coverage, table_ids=ids))
    )
    typed = TypedTables({"": decoded}, quarantine)
    run = RunContext(
        stream,
        "bench",
        RunRequest(),
        ledger,
        _NoCluster,
        raw,
        None,
        typed=typed,  # type: ignore[arg-type]
    )
    return run, stream


def _write(raw: str, decoded: str, start: int, end: int, records: int, layout: str) -> None:
    offsets = np.arange(start, end)
    many = records // _A_KEY
    ids = offsets // _A_KEY if layout == "sorted" else offsets % many
    common = {
        "topic_id": pa.array([_ID] * len(offsets)),
        "generation": pa.array(np.zeros(len(offsets), np.int32)),
        "topic": pa.array(["orders"] * len(offsets)),
        "partition": pa.array(np.zeros(len(offsets), np.int32)),
        "offset": pa.array(offsets),
    }
    notes = [os.urandom(40).hex() for _ in range(1000)]
    values = pa.array([f'{{"id":{i},"note":"{notes[i % 1000]}"}}'.encode() for i in ids.tolist()])
    rows = {
        **common,
        "timestamp": pa.array([_AT] * len(offsets), pa.timestamp("us", "UTC")),
        "timestamp_type": pa.array(np.zeros(len(offsets), np.int32)),
        "key": pa.array([b"%d" % i for i in ids.tolist()]),
        "value": values,
        "headers": pa.nulls(len(offsets), _HEADERS),
        "plan_id": pa.array(["plan"] * len(offsets)),
    }
    write_deltalake(raw, pa.table(rows), mode="append")
    own = {name: column for name, column in common.items() if name in TYPED_COORDINATES}
    typed = {**own, "id": pa.array(ids), "note": pa.array([notes[i % 1000] for i in ids.tolist()])}
    write_deltalake(decoded, pa.table(typed), mode="append")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="bench.erasing")
    parser.add_argument("--records", type=int, default=20_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        table = erasures(Path(folder), options.records)
    write_between(_PAGE, "bench.erasing", table)


if __name__ == "__main__":
    main()
