"""What asset events and XCom carry, built from the model's objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tideline.contract.parts import build_rewind, run_facts
from tideline.contract.shapes import PlannedRange, RangeWithRows, Shape, fields_of
from tideline.model.request import Lane
from tideline.model.rewind import Rewind
from tideline.model.run import RunRecord

if TYPE_CHECKING:  # whoever publishes an event must not load what an audit needs
    from tideline.rules.audit import Audit


class LandedEvent(Shape):
    """Event of the asset `tideline/<stream>`, and the return value of `advance_offsets`."""

    plan_id: str
    lane: Lane
    rows: int
    table_version: int
    ranges: tuple[RangeWithRows, ...]


class AuditedEvent(Shape):
    """Event of the asset `tideline/<stream>/audited`, and the return value of the audit task."""

    rows: int
    table_version: int | None


class TableCommit(Shape):
    """The return value of `ingest_ranges`: one commit to the table."""

    table_id: str
    version: int
    token: int
    rows: int
    bytes: int


class UndoneRows(Shape):
    """Rows that a rewind removed for good; `expired` means that the log only starts later."""

    planned: PlannedRange
    rows: int
    expired: bool
    reason: str


class RewindReport(Shape):
    """The return value of `rewind_stream` after a rewind."""

    rewind_id: str
    to_run: str
    removed_rows: int
    table_version: int | None
    undone_runs: tuple[str, ...]
    lost: tuple[UndoneRows, ...]


class NoRewindReport(Shape):
    """The return value of `rewind_stream` where there was nothing to do."""

    rewind_id: None = None
    to_run: str
    removed_rows: Literal[0] = 0


def build_landed_event(record: RunRecord) -> LandedEvent:
    """What a closed run with a commit tells those who wait for its table."""
    assert record.plan is not None
    assert record.table_commit is not None
    facts = run_facts(record)
    return LandedEvent(**{name: facts[name] for name in LandedEvent.model_fields})


def build_audited_event(audit: Audit) -> AuditedEvent:
    """What a clean audit tells those who wait for it."""
    return AuditedEvent.model_validate(audit)


def build_rewind_report(to_run: str, rewind: Rewind | None) -> RewindReport | NoRewindReport:
    """What the rewind task returns; `rewind` is None where there was nothing to do."""
    if rewind is None:
        return NoRewindReport(to_run=to_run)
    facts = fields_of(build_rewind(rewind), RewindReport)
    return RewindReport(**{**facts, "lost": [item for item in rewind.lost if item.rows]})
