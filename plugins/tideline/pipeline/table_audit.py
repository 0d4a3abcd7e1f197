"""The ledger held against every row's coordinates in the table."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from tideline.errors import StreamBusy, VerificationFailed
from tideline.model.coverage import Coverage, intersect, union
from tideline.model.head import Head
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.wording import first_few
from tideline.pipeline.context import RunContext
from tideline.rules.audit import Audit, audit

_TRIES = 5


def ledger_against_table(run: RunContext) -> Audit:
    """Every closed run's coverage against every row's coordinates.

    Raises:
        StreamBusy: Runs closed faster than the table could be read.
    """
    for _ in range(_TRIES):
        state, version = run.ledger.read(), run.table.observe().version
        result = audit(
            state.head,
            run.ledger.closed_runs(),
            [r for r in state.runs.values() if r.is_open],
            run.table.stored(),
        )
        after = run.ledger.read()
        # A run that closed meanwhile is in the one and not yet in the other.
        basis = (state.head.coverage, state.runs, version)
        if basis == (after.head.coverage, after.runs, run.table.observe().version):
            return replace(result, table_version=version)
    raise StreamBusy("runs close faster than the table can be read; audit again")


def rows_removed_by_others(
    run: RunContext, head: Head, version: int | None
) -> tuple[Coverage, ...]:
    """Verified offsets that a changed table does not hold, in the version that was observed.

    A later version is not looked at: what somebody removed there is nobody's decision yet.

    Args:
        run: This run.
        head: Read before that observation.
        version: The table's version then; None if the table is gone.

    Raises:
        VerificationFailed: A data file cannot be read: nobody approved the loss of its rows.
    """
    stored = () if version is None else run.table.stored(version)
    result = audit(head, run.ledger.closed_runs(), (), stored)
    if result.damaged:
        raise VerificationFailed(
            f"table {run.stream.table.uri}, version {version}: data files cannot be read:"
            f" {first_few(result.damaged)}. Nothing was approved. Restore them; or take them out of"
            " the table (delete them, then DeltaTable.repair() of deltalake): that is a finding of"
            " its own",
            damaged=[file.path for file in result.damaged],
        )
    covered = head.covered
    gone: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
    for flaw in result.missing:
        identity = PartitionIdentity(flaw.topic_id, flaw.generation, flaw.partition)
        flawed = [OffsetRange(flaw.start_offset, flaw.end_offset)]
        gone[identity] += intersect(flawed, covered.get(identity, ()))
    return tuple(Coverage(i, union(ranges)) for i, ranges in gone.items() if ranges)
