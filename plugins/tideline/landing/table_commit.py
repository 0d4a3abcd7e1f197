"""The one way in which rows get into a table and out of it: look, check, commit (R2, R4, R5, R13).

A landing, a replay, a removal and a rewind differ in what they check before the commit, and in
nothing else. Each try looks at the table's newest version, and its commit is valid for the version
right after that one only. If somebody else was first, everything is checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tideline.delta.delta_properties import kept_for
from tideline.errors import (
    AttemptFenced,
    CommitConflict,
    ReplayUnavailable,
    ServiceAway,
    VerificationFailed,
)
from tideline.failpoints import reach
from tideline.landing.attempts import begin_attempt
from tideline.landing.closing import can_be_given_up, give_up_backfill
from tideline.landing.context import RunContext, log
from tideline.landing.halting import open_and_halt
from tideline.landing.proof import foreign_changes, obstacles_to, rows_to_keep
from tideline.ledger.state import LedgerState
from tideline.model.head import KnownCommit
from tideline.model.incident import Finding
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import BatchPlan, LandedRange, WrittenRows, places_of
from tideline.model.run import RunRecord, TableCommit
from tideline.model.wording import how_many
from tideline.rules.replay import shorter_than_landed, unread, what_stays
from tideline.table.schema import TableChange, fence_id
from tideline.table.table_port import TablePort

_TRIES = 10
"""How many times another program may commit between a look at the table and our commit."""

Check = Callable[[int], TableChange]
"""Raises, or gives what is to be committed on a version of the table."""
Seen = tuple[TableObservation, tuple[Finding, ...]]
"""The table, and what others did to it."""


class Watch(NamedTuple):
    """Who asks what others did to a table.

    Args:
        look: Gives the table as it is now, and what others did to it.
        halt: Halts where others have done something; called when it is sure that the attempt has
            not committed yet.
    """

    look: Callable[[], Seen]
    halt: Callable[[tuple[Finding, ...]], None]


def commit_checked(
    table: TablePort,
    change: TableChange,
    files: Sequence[str] = (),
    *,
    after_version: int,
    check: Check | None = None,
    watch: Watch | None = None,
) -> TableCommit:
    """Look, check, commit; again if another commit came first, and at most `_TRIES` times.

    Args:
        table: What is written to.
        change: What the commit says, unless `check` gives another one for a version.
        files: Data files that come in, as `TablePort.written` gives them.
        after_version: The table's version before the attempt.
        check: Asked before each try.
        watch: What others did halts the attempt; None where a follower or a removal does not ask.

    Raises:
        AttemptFenced: A newer attempt has written.
        ServiceAway: A service is away, or others committed first every time.
    """
    for _ in range(_TRIES):
        seen, findings = watch.look() if watch is not None else (table.observe(), ())
        # Asked after the look: a newer token is in the version that we build on, or above it.
        if made := _made(table, change, after_version, seen.version):
            return made
        _refuse_fenced(table, change, seen.version)
        if watch is not None:
            watch.halt(findings)
        if seen.version is None:
            raise _away(table, "it is gone")
        checked = change if check is None else check(seen.version)
        reach("table:committing")
        try:
            table.commit(checked, files, seen.version)
        except CommitConflict as conflict:
            log.info("%s", conflict)
        except ServiceAway:
            if made := _made(table, change, after_version):  # only the answer was lost
                return made
            raise
    if made := _made(table, change, after_version):
        return made
    raise _away(table, f"other programs have committed first, {_TRIES} times")


def _away(table: TablePort, why: str) -> ServiceAway:
    return ServiceAway(f"table {table.uri}: {why}; nothing was committed, run again later")


def _made(
    table: TablePort, change: TableChange, after_version: int, at: int | None = None
) -> TableCommit | None:
    """The change's commit, if the table shows it; at a version that was just looked at, if any."""
    made = table.find_commit(change.commit_id, after_version, at)
    if made is None or made.token != change.token:
        return None
    rows = f"{how_many(made.rows, 'row')}, " if made.rows else ""  # what it wrote, not took out
    facts = (change.commit_id, rows, table.uri, made.version)
    log.info("committed %s: %stable %s version %d", *facts)
    return made


def _refuse_fenced(table: TablePort, change: TableChange, at: int | None) -> None:
    newest = table.newest_token(change.app_id, at)
    if newest is not None and newest >= change.token:
        raise AttemptFenced(
            f"{change.commit_id}: attempt {change.token} has committed nothing: a newer attempt,"
            f" {newest}, has written to the table; run again, the ledger knows what is done",
            commit_id=change.commit_id,
            token=change.token,
        )


def create_table(run: RunContext, ledger_id: str) -> None:
    """Create the run's table, empty; one that is there stays as it is, whoever made it."""
    kept = kept_for(run.stream.maintenance.vacuum_hours)
    run.table.create(run.stream.stream, ledger_id, run.stream.table.partition_by, properties=kept)
    reach("table:created")


@dataclass(frozen=True, slots=True)
class Landing:
    """What an attempt has read, ready to be put into the table.

    Args:
        state: The ledger under the writer's lease.
        record: Of the run that executes the plan.
        written: Its data files and what they hold.
        left_out: What Spark was told not to read, since it cannot.
        erased: What it has left out since it was erased: rows that stand there go.
    """

    state: LedgerState
    record: RunRecord
    plan: BatchPlan
    change: TableChange
    written: WrittenRows
    left_out: Sequence[CoordinateRange] = ()
    erased: Sequence[CoordinateRange] = ()


def land(run: RunContext, landing: Landing, *, after_version: int) -> TableCommit:
    """Put an attempt's files where the plan's rows stand, or where nothing stands yet.

    Args:
        run: This run; holds the writer's lease.
        landing: What was read.
        after_version: The table's version before the attempt.

    Raises:
        VerificationFailed: An offset was read twice.
        ReplayUnavailable: An offset that stands there was not read, or the log has changed.
        ServiceAway: A service is away, or others committed first every time.
    """
    record, plan = landing.record, landing.plan
    _refuse_copies(landing.change, landing.written.landed)

    def check(version: int) -> TableChange:
        run.ledger.refuse_lost()  # whoever took over may have found no table to fence this in (R5)
        landed = run.table.landed(plan.ranges, version)
        if not landed and not _is_verified(landing):
            return landing.change
        refuse_unserved(run, record, plan, landed)  # reading took its time (R4)
        missing = unread(plan.ranges, landing.written.landed, landed) - Places.of(landing.erased)
        if not missing:
            return landing.change
        kept = rows_to_keep(run, plan, missing, landing.left_out) if record.is_open else NOWHERE
        if kept != missing:
            shorter = shorter_than_landed(plan.ranges, landing.written.landed, landed)
            raise _unavailable(plan, shorter, landed)
        return replace(landing.change, ranges=kept.rest(landing.change.ranges))

    def look() -> Seen:
        seen = foreign_changes(run, landing.state, plan)
        # Time has passed since the ledger was read: it may know of a change by now.
        return foreign_changes(run, run.ledger.read(), plan) if seen[1] else seen

    def halt(findings: tuple[Finding, ...]) -> None:
        if findings:
            open_and_halt(run, run.ledger.read(), findings)

    _note_late_rows(run, landing)
    made = commit_checked(
        run.table,
        landing.change,
        landing.written.files,
        after_version=after_version,
        check=check,
        watch=Watch(look, halt),
    )
    _note_late_rows(run, landing)  # a decoding may have looked in between
    return made


def _note_late_rows(run: RunContext, landing: Landing) -> None:
    """Have rows decoded that come where a loss was accepted, also if nobody closes the plan again.

    A person may clear `ingest_ranges` of a closed run alone, or it dies after its commit.
    """
    late = places_of(landing.written.landed) & landing.state.head.accepted_loss
    if late:
        ranges = late.ranges(landing.state.head.topic_names)
        run.ledger.update(lambda state: state.with_undecoded(ranges))


def _is_verified(landing: Landing) -> bool:
    """Whether a part of the plan is: also where no row stands, none may come of another log."""
    return bool(landing.state.head.coverage.cut(landing.plan.ranges))


def remove(run: RunContext, change: TableChange, *, after_version: int) -> KnownCommit:
    """Remove the rows at the change's coordinates.

    The commit is made also where no row stands there: its token keeps older attempts out. What
    others did to the table is not looked at: a removal has to end, and the next run looks.

    Args:
        run: This run; holds the writer's lease.
        after_version: The table's version before the attempt.

    Returns:
        The commit as the head has to note it.

    Raises:
        ServiceAway: A service is away, or others committed first every time.
    """
    made = commit_checked(run.table, change, after_version=after_version)
    return KnownCommit.of(made.version, made.token, change.commit_id, change.run_id, change.ranges)


def fence_older_attempts(run: RunContext, plan: BatchPlan) -> dict[PartitionIdentity, LandedRange]:
    """Commit a newer token where an attempt may still stand before its commit (R5); no row goes.

    Asked before a plan is closed without its rows: such an attempt may have read them. Where there
    never was a table, it cannot commit: it asks the ledger first whether it still holds the lease.
    One that is gone may be back when it has asked already, and so may one in whose place another
    is, which is not to be written to: a person decides about that first.

    Args:
        run: This run; holds the writer's lease.
        plan: Will be closed.

    Returns:
        What the table holds at the plan's coordinates, now that nobody else lands it any more.

    Raises:
        ServiceAway: Table or ledger cannot be asked, or others committed first every time.
    """
    state = run.ledger.read()
    table, findings = foreign_changes(run, state, plan)
    is_known = table.version is not None and table.table_id in (state.head.table_id, plan.table_id)
    if findings and not is_known:
        open_and_halt(run, state, findings)
    if table.version is None:
        return {}
    version, control = table.version, state.control
    if (table.token or 0) != control.token:  # a token was given out that has not committed
        attempt = begin_attempt(run, control.ledger_id)
        fence = attempt.change(fence_id(plan.plan_id))
        version = remove(run, fence, after_version=version).version
    return run.table.landed(plan.ranges, version)


def _refuse_copies(change: TableChange, read: Mapping[PartitionIdentity, LandedRange]) -> None:
    copied = [held for held in read.values() if held.duplicates]
    if copied:
        raise VerificationFailed(
            f"{change.commit_id}: Spark has written"
            f" {how_many(sum(h.duplicates for h in copied), 'row')} too many, the first in"
            f" partition {copied[0].identity.partition}; nothing was committed,"
            " clear the task or run again",
            commit_id=change.commit_id,
        )


def refuse_unserved(
    run: RunContext,
    record: RunRecord,
    plan: BatchPlan,
    landed: Mapping[PartitionIdentity, LandedRange],
) -> None:
    """Make sure that Kafka can serve the plan as it was frozen (R4).

    Raises:
        ReplayUnavailable: It cannot, for good.
        StreamBusy: Another attempt has taken over meanwhile; its decisions count.
    """
    gone = [str(o) for o in obstacles_to(run, plan.on_cluster)]
    if gone:
        run.ledger.refuse_lost()  # who took over may have superseded the plan
        closed = False
        if can_be_given_up(run, record, landed):
            landed = fence_older_attempts(run, plan)
            closed = can_be_given_up(run, record, landed)
        if closed:
            give_up_backfill(run, record, gone)
        raise _unavailable(plan, gone, landed, closed=closed)


def _unavailable(
    plan: BatchPlan,
    reasons: list[str],
    landed: Mapping[PartitionIdentity, LandedRange],
    *,
    closed: bool = False,
) -> ReplayUnavailable:
    return ReplayUnavailable(
        f"replay_unavailable: plan {plan.plan_id} of run {plan.run_id} cannot be read as it was"
        f" frozen: {'; '.join(reasons)}. {what_stays(plan.lane, landed, closed=closed)}",
        plan_id=plan.plan_id,
        reasons=reasons,
    )
