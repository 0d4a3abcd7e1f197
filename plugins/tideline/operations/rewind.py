"""Put table and ledger back together to the state after a run.

The intent goes into the ledger first and keeps everybody else out. Then the rows go, then head and
records move in one compare-and-swap. Whatever ends in between, the same command goes on from there.
What is taken away that Kafka can no longer give back is told before (`losses`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tideline.errors import BadInput, ReplayUnavailable, ServiceAway, StreamBusy
from tideline.failpoints import reach
from tideline.landing.attempts import begin_attempt
from tideline.landing.closing import commit_group_offsets
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import open_and_halt
from tideline.landing.proof import foreign_changes, obstacles_to
from tideline.landing.table_commit import remove
from tideline.ledger import leases
from tideline.ledger.state import LedgerState
from tideline.model.head import KnownCommit
from tideline.model.offsets import ReadRange
from tideline.model.plan import ClusterRanges
from tideline.model.request import utc_text
from tideline.model.run import Closing, Lost, Rewind
from tideline.model.wording import first_few, how_many, reason_problem, shown
from tideline.pipeline.decisions import take_decided_table
from tideline.rules.replay import Obstacle
from tideline.rules.rewound import (
    amended_later,
    observable_groups,
    rewound_head,
    trimmed_record,
    undone_incidents,
    undone_ranges,
    undone_record,
)
from tideline.table.schema import removal_id

_PUT_BACK = "the ledger was put back while the rewind was at work; run it again"


def with_losses(
    run: RunContext, rewind: Rewind, ranges: dict[str, tuple[ReadRange, ...]], version: int
) -> Rewind:
    """How many rows go, and which of them Kafka can no longer serve, by the plans' own epochs.

    Args:
        rewind: What is meant.
        ranges: Whose rows go, by the cluster that served them.
        version: Of the table.
    """
    rows, lost = 0, []
    for cluster_id, group in ranges.items():
        for some in observable_groups(group):
            landed = run.table.landed(some, version)
            rows += sum(part.rows for part in landed.values())
            there = ClusterRanges(cluster_id, tuple(r for r in some if r.identity in landed))
            for obstacle in _obstacles(run, there) if there.ranges else ():
                counts = run.table.landed(obstacle.lost, version)
                lost += [
                    Lost(
                        planned=gone,
                        rows=counts[gone.identity].rows if gone.identity in counts else 0,
                        expired=obstacle.expired,
                        reason=obstacle.text,
                    )
                    for gone in obstacle.lost
                ]
    return replace(rewind, rows=rows, lost=tuple(lost))


def _obstacles(run: RunContext, asked: ClusterRanges) -> tuple[Obstacle, ...]:
    """What is gone for good, or may be: nothing tells what compaction has taken."""
    gone = obstacles_to(run, asked)
    known = {r.identity for obstacle in gone for r in obstacle.lost}
    rest = tuple(r for r in asked.ranges if r.identity not in known)
    try:
        compacted = run.kafka.compacted({r.topic for r in rest}) if rest else set()
    except ServiceAway as error:  # a missing right to read settings must not forbid a rewind
        log.warning("whether the topics are compacted is unknown: %s", error)
        return gone
    maybe = tuple(r for r in rest if r.topic in compacted)
    text = "the topic is compacted, which may have taken any of them"
    return (*gone, Obstacle("gone", text, maybe)) if maybe else gone


def unavailable(rewind: Rewind) -> ReplayUnavailable:
    """The refusal, naming partition, offsets and rows that would be lost for good."""
    gone = [item for item in rewind.lost if item.rows]
    return ReplayUnavailable(
        f"replay_unavailable: rewinding to run {rewind.to_run} would remove"
        f" {how_many(rewind.rows, 'row')}, {rewind.lost_rows} of which Kafka can no longer give"
        " back:"
        f" {first_few(gone, 10, '; ')}. Nothing has moved. Choose a later run, or"
        " accept that these rows are lost for good (--accept-loss)",
        lost=gone,
        rows=rewind.rows,
    )


@dataclass(frozen=True, slots=True)
class RewindRequest:
    """What a person asked for.

    Args:
        to_run: The run whose state is wanted.
        reason, by: For the ledger.
        accept_loss: Go on although Kafka can no longer serve what is taken away.
        asked_in: Airflow's Dag and run that asks; None for a command. It has one rewind: cleared
            when that is finished, it must not undo what has landed since.
    """

    to_run: str
    reason: str
    by: str
    accept_loss: bool = False
    asked_in: str | None = None


def rewind_stream(run: RunContext, asked: RewindRequest) -> Rewind | None:
    """Undo everything after a run; None if nothing is to be undone.

    An unfinished rewind is finished first.

    Raises:
        BadInput: No reason, or a run that cannot be gone back to; says which can.
        StreamBusy: Somebody is at work.
        ReplayUnavailable: Rows would be lost for good, and that was not accepted; nothing moved.
        ResetDetected: The table is not the one that the ledger knows.
        ServiceAway: Kafka, Spark or a store is away; the same command goes on later.
    """
    if problem := reason_problem(asked.reason, "why you rewind, in words"):
        raise BadInput(f"--reason: {problem}")
    finished = _rewind(run, asked)
    if finished is not None:
        _remove_typed(run, finished)
    return finished


def _rewind(run: RunContext, asked: RewindRequest) -> Rewind | None:
    ledger = run.ledger
    with ledger.lease("live", rewinding=True), ledger.lease("writer", rewinding=True):
        state = ledger.read()
        leases.refuse_held(state, ledger.holder)
        if state.control.rewind is not None:
            log.warning("%s was left unfinished: going on with it", state.control.rewind.rewind_id)
            finished = _finish(run, state.control.rewind)
            if finished.to_run == asked.to_run:
                return finished
        if (known := _finished_before(run, asked)) is not None:
            log.warning(
                "%s was finished at %s, for this very run, which was cleared: nothing is done. To"
                " rewind once more, trigger a new run",
                known.rewind_id,
                utc_text(known.finished_at or known.begun_at),
            )
            return known
        begun = _begin(run, asked)
        return None if begun is None else _finish(run, begun)


def _finished_before(run: RunContext, asked: RewindRequest) -> Rewind | None:
    """The rewind that the same run of Airflow's has asked for before; none is under way."""
    if asked.asked_in is None:
        return None
    return next((r for r in run.ledger.rewinds() if r.asked_in == asked.asked_in), None)


def _remove_typed(run: RunContext, rewind: Rewind) -> None:
    """Take what is undone out of the typed tables; if that is cut off, the next run does it."""
    if run.typed is not None:
        # Imported here: most streams have no typed tables.
        from tideline.decoding.decode_steps import decode_rows, verify_decoded

        undoing = replace(run, run_id=rewind.rewind_id)
        if decode_rows(undoing, only_removals=True) is not None:
            verify_decoded(undoing)


def _begin(run: RunContext, asked: RewindRequest) -> Rewind | None:
    """Find out what would be undone, refuse what would be lost, and record the intent."""
    state = take_decided_table(run, run.ledger.read())
    table, foreign = foreign_changes(run, state)
    if foreign:
        open_and_halt(run, state, foreign)
    closings = run.ledger.closings()
    target = _target(run, closings, asked.to_run)
    then = run.ledger.kept_head(str(target.first.head_key))
    if then.coverage - state.head.coverage:
        raise BadInput(
            f"--to-run: got {shown(asked.to_run)}: rows that it left are in the table no more: the"
            " ledger was older than the table, and has taken that over; allowed: a run that closed"
            " before those rows were landed, or any once a run has read them again"
        )
    earlier = run.ledger.rewinds()
    undone = [
        *(c.newest for c in closings if c.version > target.version),
        *(r for r in state.runs.values() if r.is_open),
    ]
    undone = [r for r in undone if not r.is_undone]
    names = {p.topic_id: p.topic for p in (*state.head.positions, *state.head.retired)}
    stays = (c.newest for c in closings if c.version <= target.version)
    amended = [later for r in stays if (later := amended_later(r, then)) is not None]
    ranges = undone_ranges(state.head, then, [*amended, *undone], names)
    rewind = Rewind(
        rewind_id=f"rewind-{state.control.rewinds + 1}",
        to_run=asked.to_run,
        reason=asked.reason,
        by=asked.by,
        begun_at=now(),
        head_key=str(target.first.head_key),
        undone_runs=tuple(dict.fromkeys(r.run_id for r in undone)),
        removes=tuple(planned for group in ranges.values() for planned in group),
        asked_in=asked.asked_in,
    )
    if not undone and not ranges:
        same = state.head.digest == rewound_head(state.head, then, rewind, None).digest
        if same or (earlier and earlier[-1].to_run == asked.to_run):
            return None
    rewind = replace(rewind, known_version=table.version)
    if table.version is not None:
        rewind = with_losses(run, rewind, ranges, table.version)
    if rewind.lost_rows and not asked.accept_loss:
        raise unavailable(rewind)
    _record(run, state, rewind)
    reach("rewind:begun")
    return rewind


def _target(run: RunContext, closings: list[Closing], to_run: str) -> Closing:
    undone = {i: r.rewind_id for r in run.ledger.rewinds() for i in r.undone_runs}
    possible = [c for c in closings if c.first.head_key and not c.newest.is_undone]
    for closing in reversed(possible):  # a run that was planned anew has closed again
        if closing.first.run_id == to_run:
            return closing
    why = "no such run"
    if to_run in undone:
        why = f"{undone[to_run]} has undone it"
    elif to_run in run.ledger.read().runs:
        why = "it is not closed yet"
    elif any(c.first.run_id == to_run for c in closings):
        why = "it closed before the ledger kept heads to go back to"
    newest = first_few((c.first.run_id for c in reversed(possible)), 10)
    raise BadInput(
        f"--to-run: got {shown(to_run)}: {why}; allowed, newest first: {newest or 'none yet'}"
    )


def _record(run: RunContext, seen: LedgerState, rewind: Rewind) -> None:
    def begin(state: LedgerState) -> LedgerState:
        leases.refuse_held(state, run.ledger.holder)
        if state.head != seen.head or state.runs != seen.runs:
            raise StreamBusy("the ledger moved while the rewind was planned; nothing moved")
        return state.with_rewind_begun(rewind, run.ledger.holder)

    run.ledger.update(begin)
    rows = how_many(rewind.rows, "row")
    log.warning("%s: to run %s: removing %s", rewind.rewind_id, rewind.to_run, rows)


def _finish(run: RunContext, rewind: Rewind) -> Rewind:
    """Remove the rows, then move head, records and incidents in one swap."""
    removed = _remove(run, rewind)
    version = None if removed is None else removed.version
    reach("rewind:removed")
    state = run.ledger.read()
    head = state.head
    _, foreign = foreign_changes(run, state)
    # What somebody else did meanwhile is for the next run to find: it must stay unknown.
    known = head.table_version if foreign or version is None else version
    done = replace(rewind, removed_in_version=version, finished_at=now())
    then = run.ledger.kept_head(rewind.head_key)
    closings = {c.first.run_id: c for c in run.ledger.closings()}
    if not {rewind.to_run, *(set(rewind.undone_runs) - state.runs.keys())} <= closings.keys():
        raise StreamBusy(_PUT_BACK)
    since = closings[rewind.to_run].first.updated_at
    takes_time_back = state.folding.order == "time" and not _was_by_time(run, since)

    def swap(state: LedgerState) -> LedgerState:
        if state.control.rewind is None:
            return state
        today = state.head if removed is None else state.head.with_commits(removed)
        after = state.with_rewind_finished(done, rewound_head(today, then, done, known))
        for run_id in done.undone_runs:
            record = state.runs.get(run_id)
            if record is None or not record.is_open:  # a proposal has no plan to undo
                record = closings[run_id].newest
            after = after.with_run(undone_record(record, done, now()))
        for run_id in closings.keys() - set(done.undone_runs):
            record = closings[run_id].newest
            if (trimmed := trimmed_record(record, then)) is not record:
                after = after.with_run(trimmed)
        if takes_time_back:
            after = replace(after, folding=after.folding.not_by_time())
        ended = undone_incidents(state.open_incidents, done, since, version)
        return after.with_incidents_closed(ended)

    state = run.ledger.update(swap)
    undone = how_many(len(done.undone_runs), "run")
    log.warning("%s is finished: %s undone", done.rewind_id, undone)
    reach("rewind:finished")
    commit_group_offsets(run)
    return done


def _was_by_time(run: RunContext, at: datetime) -> bool:
    """Whether the current table was ordered by times then (inclusive, UTC-aware)."""
    folds = run.ledger.fold_closings()
    orders = [f.plan.order for f in folds if f.closed_at is not None and f.closed_at <= at]
    return orders[-1:] == ["time"]


def _remove(run: RunContext, rewind: Rewind) -> KnownCommit | None:
    """Remove the rows behind a fresh token; None where there is no table.

    It is done also where no row stands now: the fence keeps an older attempt from adding some.
    A table that is gone, or another one, is decided about here: nobody else may, until this ends.
    """
    if not rewind.removes:
        return None
    state = take_decided_table(run, run.ledger.read())
    table, foreign = foreign_changes(run, state)
    if foreign and table.table_id != state.head.table_id:
        open_and_halt(run, state, foreign)
    if table.version is None:
        return None
    commit_id = removal_id(rewind.rewind_id)
    made = run.table.find_commit(commit_id, after_version=rewind.known_version)
    if made is not None:
        return KnownCommit.of(made.version, made.token, commit_id, run.run_id, rewind.removes)
    attempt = begin_attempt(run, state.control.ledger_id)
    if attempt.state.control.rewind != rewind:  # from here on the token would tell it
        raise StreamBusy(_PUT_BACK)
    change = attempt.change(removal_id(rewind.rewind_id), rewind.removes)
    # of an older copy the version may be below those that the rewind has seen
    return remove(run, change, after_version=table.version)
