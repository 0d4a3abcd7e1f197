"""What asset events and XCom carry, built from the model's objects."""

from __future__ import annotations

from typing import Literal

from tideline.contract.building import build_decoded, build_folded, build_rewind, build_run
from tideline.contract.parts import DecodedRange, RangeWithRows, Shape
from tideline.model.current import Folding, FoldRecord
from tideline.model.decoding import DecodeRecord
from tideline.model.request import Lane
from tideline.model.run import Lost, Rewind, RunRecord


class LandedEvent(Shape):
    """Event of the asset `tideline/<stream>`, and the return value of `advance_offsets`."""

    plan_id: str
    lane: Lane
    rows: int
    table_version: int
    ranges: tuple[RangeWithRows, ...]


class DecodedEvent(Shape):
    """Event of the asset `tideline/<stream>/decoded`, and the return value of `verify_decoded`."""

    plan_id: str
    decoded: int
    quarantined: int
    tombstones: int
    classes: dict[str, int]
    expectations: dict[str, int]
    table_version: int | None
    quarantine_version: int | None
    ranges: tuple[DecodedRange, ...]


class FoldedEvent(Shape):
    """Event of the asset `tideline/<stream>/current`, and the return value of `verify_current`.

    `rows` are those of keys that are there, `deleted` those of keys that are gone.
    """

    plan_id: str
    changes: int
    keyless: int
    rows: int
    deleted: int
    table_version: int | None


class FoldCommit(Shape):
    """The return value of `fold_changes`: one commit to the current table."""

    plan_id: str
    table_version: int | None


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


class DecodeCommits(Shape):
    """The return value of `decode_rows`: one commit to each table."""

    plan_id: str
    table_version: int | None
    quarantine_version: int | None


class LandedShard(Shape):
    """The return value of `land_shard`, of one shard of a fleet: how many streams, and a line."""

    streams: int
    summary: str


class RewindReport(Shape):
    """The return value of `rewind_stream` after a rewind."""

    rewind_id: str
    to_run: str
    removed_rows: int
    table_version: int | None
    undone_runs: tuple[str, ...]
    lost: tuple[Lost, ...]


class NoRewindReport(Shape):
    """The return value of `rewind_stream` where there was nothing to do."""

    rewind_id: None = None
    to_run: str
    removed_rows: Literal[0] = 0


def build_landed_event(record: RunRecord) -> LandedEvent:
    """What a closed run with a commit tells those who wait for its table."""
    assert record.plan is not None
    assert record.table_commit is not None
    return LandedEvent.of(build_run(record))


def build_decoded_event(record: DecodeRecord, event_type: str = "") -> DecodedEvent:
    """What a verified decoding tells those who wait for a typed table.

    Args:
        event_type: Whose table it is, where there are several: rows and version are its own.
    """
    event = DecodedEvent.of(build_decoded(record.plan.run_id, record))
    own = next((t for t in record.by_type if t.name == event_type), None)
    if not event_type:
        return event
    rows, version = (0, None) if own is None else (own.rows, own.table_version)
    return DecodedEvent.of(event, decoded=rows, table_version=version)


def build_folded_event(record: FoldRecord, folding: Folding) -> FoldedEvent:
    """What a verified fold tells those who wait for the current table."""
    return FoldedEvent.of(build_folded(record.plan.run_id, record, folding))


def build_rewind_report(to_run: str, rewind: Rewind | None) -> RewindReport | NoRewindReport:
    """What the rewind task returns; `rewind` is None where there was nothing to do."""
    if rewind is None:
        return NoRewindReport(to_run=to_run)
    return RewindReport.of(build_rewind(rewind), lost=[item for item in rewind.lost if item.rows])
