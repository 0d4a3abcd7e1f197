"""What every step is given: the stream, the run, its services, and the lease of its lane."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from tideline.catalog.catalog_port import CatalogPort
from tideline.errors import Halted, RequestConflict, ResetDetected
from tideline.kafka.kafka_port import KafkaPort
from tideline.launch.job import SparkPort
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.current import FoldRecord
from tideline.model.decoding import DecodeRecord
from tideline.model.fold_job import FoldJob, FoldResult
from tideline.model.maintenance import TableRole, role_of
from tideline.model.plan import BatchPlan
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord
from tideline.registry.registry_port import RegistryPort
from tideline.rules.foreign_changes import table_findings
from tideline.stream.stream import Stream
from tideline.table.table_port import MaintainedTablePort, TablePort

log = logging.getLogger("tideline")


@dataclass(frozen=True, slots=True)
class TypedTables:
    """Where decoded records go.

    Args:
        by_type: The typed tables, by event type; a stream with one of them has it under "".
        quarantine: The table of what cannot be decoded.
    """

    by_type: Mapping[str, TablePort]
    quarantine: TablePort

    @property
    def tables(self) -> tuple[TablePort, ...]:
        """All of them, in the order in which they are committed."""
        return (*self.by_type.values(), self.quarantine)


@dataclass
class RunContext:
    """One run of one stream.

    Args:
        run_id: The run's id; the same id again replays its plan.
        connect: Gives the stream's cluster; called at most once, when a step first asks it.
        kafka_options: Options of Spark's Kafka source; secret.
        store_options: Properties of the object store for Spark's file system; not secret.
        typed: The typed table and the quarantine; None where the stream file has no `decode`.
        current: The table with one row a key; None where the stream file has no `current`.
        recovered: An earlier run whose open plan this one found in the table and closed.
        settled: Plans of other runs, to decode or to fold, that this one has finished and closed.
        decoded: What this run has decoded and verified; None if it had nothing to decode.
        folded: What this run has folded and verified; None if it had nothing to fold.
        can_ask: Whether somebody can be asked in a form, as in Airflow.
        warnings: What is not safe about the stream's Kafka connection; planning says it.
        connect_registry: Gives the stream's schema registry; called at most once, when a step first
            asks it. None for a stream that names none.
        connect_catalog: Gives the catalog that knows the stream's tables by name. None for a stream
            that names none.
        open_table: Opens a table that the stream file no longer names, to erase from it; None where
            nobody erases.
        former: Where such tables are, once the whole history was read for it.
        fold: Folds changes into files of the current table; None where nobody does.
        first_pause_seconds: Before what contradicts the ledger is looked at once more.
    """

    stream: Stream
    run_id: str
    request: RunRequest
    ledger: Ledger
    connect: Callable[[], KafkaPort]
    table: TablePort
    spark: SparkPort
    kafka_options: dict[str, str] = field(default_factory=dict, repr=False)
    store_options: dict[str, str] = field(default_factory=dict)
    typed: TypedTables | None = None
    current: TablePort | None = None
    recovered: RunRecord | None = None
    settled: list[DecodeRecord | FoldRecord] = field(default_factory=list)
    decoded: DecodeRecord | None = None
    folded: FoldRecord | None = None
    can_ask: bool = False
    connect_registry: Callable[[], RegistryPort] | None = None
    warnings: tuple[str, ...] = ()
    connect_catalog: Callable[[], CatalogPort] | None = None
    open_table: Callable[[TableRole, str], MaintainedTablePort] | None = None
    former: tuple[tuple[TableRole, str], ...] | None = None
    first_pause_seconds: float = 1.0
    fold: Callable[[FoldJob], FoldResult] | None = None

    @property
    def lane_lease(self) -> str:
        """What a run's task holds: the live lane, or its own run in the backfill lane."""
        lane = self.request.lane
        return lane if lane == "live" else f"{lane}:{self.run_id}"

    @cached_property
    def kafka(self) -> KafkaPort:
        """The stream's cluster."""
        return self.connect()

    @cached_property
    def registry(self) -> RegistryPort | None:
        """The stream's schema registry; None for a stream that names none."""
        return None if self.connect_registry is None else self.connect_registry()

    @property
    def tables(self) -> dict[TableRole, TablePort]:
        """Every table of the stream file, by its role; as `tables_of` has the addresses."""
        found: dict[TableRole, TablePort] = {"raw": self.table}
        if self.typed is not None:
            found |= {role_of(name): table for name, table in self.typed.by_type.items()}
            found["quarantine"] = self.typed.quarantine
        if self.current is not None:
            found["current"] = self.current
        return found

    @property
    def source(self) -> TablePort:
        """The typed table that the current table is folded from."""
        assert self.typed is not None
        current = self.stream.current
        return self.typed.by_type[current.type or "" if current is not None else ""]

    def warn(self) -> None:
        """Say what is not safe; for the one step that begins a run."""
        for warning in self.warnings:
            log.warning("%s", warning)

    def snapshot(self) -> tuple[LedgerState, RunRecord | None]:
        """The ledger now, and what it knows about this run id: where every step begins."""
        state = self.ledger.read()
        return state, self.record_in(state)

    def record_in(self, state: LedgerState) -> RunRecord | None:
        """This run's record, open in a state or closed in the history; None if there is none.

        Raises:
            RequestConflict: The run id was used for another request.
        """
        record = self.ledger.find_run(self.run_id, state)
        if record is not None and record.request_digest != self.request.digest:
            raise RequestConflict(
                f"run id {self.run_id} belongs to another request already (lane {record.lane});"
                " give the new request another run id",
                run_id=self.run_id,
            )
        return record

    def frozen(self) -> tuple[LedgerState, RunRecord, BatchPlan | None]:
        """The ledger, this run's record and its plan, once detection has passed.

        The plan is None where there is nothing to execute: nothing new, or superseded by a run that
        takes over.

        Raises:
            Halted: There is no plan: it was closed and nobody takes over, or the run was cleared
                from a later step on before it had one; run from the first step on.
        """
        state, record = self.snapshot()
        if record is None or record.status == "proposed":
            raise self._without_plan("the run has no plan: none is frozen, or it was closed")
        if record.is_to_replan:
            raise self._without_plan(f"the run's plan was closed: {record.superseded_by}")
        if record.status == "superseded":
            log.info("run %s was superseded by %s", self.run_id, record.superseded_by)
        return state, record, record.plan if record.is_to_execute else None

    def _without_plan(self, why: str) -> Halted:
        return Halted(
            f"run {self.run_id}: {why}. Nothing was landed here. Next: clear the run from"
            " plan_offset_ranges on, or repeat the same"
            f" tideline run --run-id {self.run_id}: the run makes a new plan",
            run_id=self.run_id,
        )


def now() -> datetime:
    """The time, UTC-aware."""
    return datetime.now(UTC)


@contextmanager
def hold_lane(run: RunContext) -> Iterator[None]:
    """Hold the lease of the run's lane for the length of a block.

    Taking it is the first write to a new ledger. So before that a ledger that is empty while the
    table is another ledger's is refused: one that was moved or is not mounted has to find its
    place empty when it comes back.

    Raises:
        ResetDetected: The table belongs to another ledger, stream or nobody of ours.
    """
    with run.ledger.lease(run.lane_lease, before_first=lambda state: _refuse_missing(run, state)):
        yield


def _refuse_missing(run: RunContext, state: LedgerState) -> None:
    table = run.table.observe()
    if not table.exists:
        return
    for finding in table_findings(None, table, run.stream.stream, state.control.ledger_id):
        raise ResetDetected(
            f"ledger {run.ledger.store.location} is empty, table {run.stream.table.uri} is not:"
            f" {finding} Nothing was created. If the ledger was moved or is not mounted, bring"
            " the ledger back or correct ledger_uri; if this is a new stream, give it another"
            " table",
            incidents=(),
        )
