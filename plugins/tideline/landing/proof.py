"""A frozen plan held against table and log: what is landed, what can still be read, what must stay.

Rows of records that nobody can read any more stay where a plan is landed again (R4, R12).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from tideline.errors import Halted, ServiceAway
from tideline.landing.context import RunContext, log
from tideline.landing.observing import Item, observe_until_stable
from tideline.ledger.state import LedgerState
from tideline.model.erasures import Erasing
from tideline.model.head import Head
from tideline.model.incident import Finding, Incident, incident_key
from tideline.model.observation import Observation, TableObservation
from tideline.model.offsets import (
    CoordinateRange,
    Intervals,
    PlannedRange,
    TopicPartition,
    union,
)
from tideline.model.places import Places
from tideline.model.plan import BatchPlan, ClusterRanges, Mismatch, VerifiedRange, places_of
from tideline.model.run import PartitionEvidence, RunRecord, TableCommit
from tideline.model.spark_job import Unreadable
from tideline.model.verdicts import GAP_CLASSES
from tideline.rules.foreign_changes import table_findings
from tideline.rules.positions import is_followed
from tideline.rules.replay import (
    Known,
    Obstacle,
    known_evidence,
    obstacles,
    of_this_log,
    only_copies,
    stored_evidence,
    unverified_rows_stand,
)
from tideline.rules.reset_detection import find_resets_after_read
from tideline.rules.unreadable import without_rows
from tideline.rules.verification import (
    assign,
    compare_ranges,
    gap_findings,
    missing_offsets,
    unexplained_by,
)


@dataclass(frozen=True, slots=True)
class CountedRanges:
    """Planned ranges held against the table.

    Args:
        version: The table version that was counted.
        verified: Ranges whose every offset has a row or an admitted reason for having none.
        mismatches: The others.
        evidence: What the log has shown at missing offsets by now, worth keeping.
    """

    version: int
    verified: tuple[VerifiedRange, ...]
    mismatches: tuple[Mismatch, ...] = ()
    evidence: tuple[PartitionEvidence, ...] = ()


def find_plan_commit(run: RunContext, record: RunRecord, head: Head) -> TableCommit | None:
    """The newest commit that carries the plan's id.

    Commits before the plan, or before its known commit, are not read; unless the table is another
    one by now, whose versions begin anew, or an older copy of it was put back.

    Args:
        head: Knows the version of a copy that was approved.
    """
    return look_for_commit(run, record, head)[0]


def look_for_commit(
    run: RunContext, record: RunRecord, head: Head
) -> tuple[TableCommit | None, TableObservation]:
    """The newest commit that carries the plan's id, and the table in which it was looked for."""
    plan, known = record.plan, record.table_commit
    assert plan is not None
    table_id, after = plan.table_id, plan.table_version
    if known is not None:
        table_id, after = known.table_id, known.version - 1
    first = -1 if after is None else after
    table = run.table.observe(first)
    at, plan_id = table.version, plan.plan_id
    found = run.table.find_commit(plan_id, after, at)
    if found is None and after is not None and table.table_id != table_id:
        return run.table.find_commit(plan_id, None, at), table
    if found is None and head.table_version is not None and head.table_version < first:
        found = run.table.find_commit(plan_id, head.table_version, at)
    return found or _of_cleaned_log(run, record, table, first), table


def _of_cleaned_log(
    run: RunContext, record: RunRecord, table: TableObservation, after: int
) -> TableCommit | None:
    """What stands for a commit that the log no longer has; None where it has all of them.

    Rows at the plan's coordinates that nobody has verified are its own: what the log has forgotten
    must not make them lost.
    """
    assert record.plan is not None
    oldest = min((c.version for c in table.newer), default=after + 1)
    if table.version is None or table.version <= after or oldest == after + 1:
        return None
    if record.table_commit is not None:
        return record.table_commit
    landed = run.table.landed(record.plan.ranges, table.version)
    if not unverified_rows_stand(run.ledger.read().head, landed):
        return None
    rows = sum(part.rows for part in landed.values())
    return TableCommit(str(table.table_id), after + 1, table.token or 0, rows, bytes=0)


def proven_commit(run: RunContext, record: RunRecord, head: Head) -> TableCommit | None:
    """The commit of an open plan, if its rows are all still there; None if it has to be read.

    Both must hold: a commit carries the plan's id, and at least as many rows stand at the planned
    coordinates of the newest version. The commit alone would still be in the history after
    somebody restored an older version.
    """
    plan = record.plan
    assert plan is not None
    commit, table = look_for_commit(run, record, head)
    if commit is None or table.version is None:
        return None
    landed = run.table.landed(plan.ranges, table.version)
    rows = sum(part.rows for part in landed.values())
    distinct = sum(part.distinct for part in landed.values())
    return commit if rows == distinct >= commit.rows else None


def foreign_changes(
    run: RunContext,
    state: LedgerState,
    plan: BatchPlan | None = None,
    at: int | None = None,
) -> tuple[TableObservation, tuple[Finding, ...]]:
    """The table now, and what others did to it since the last version that the ledger knows (R13).

    Asked before each write to the table, and before the head's table version grows.

    Args:
        state: The ledger; its head knows the table after the first verified commit.
        plan: What the first plan knows of the table until then, unless that table was given up;
            None where nothing is landed.
        at: The table's version that was just looked at; None looks.
    """
    table_id, version = state.head.table_id, state.head.table_version
    if plan is not None and plan.table_id not in state.head.given_up:
        table_id = table_id or plan.table_id
        version = plan.table_version if version is None else version
    listed_after = state.head.listed_after
    if state.head.table_version is None and version is not None:
        listed_after = version
    table = run.table.observe(listed_after, at)
    known_version = version if table_id else None
    findings = table_findings(
        table_id,
        table,
        run.stream.stream,
        state.control.ledger_id,
        known_version,
        state.head.commits,
        known_token(run, state, table),
    )
    return table, tuple(findings)


def known_token(run: RunContext, state: LedgerState, table: TableObservation) -> int:
    """The newest token that the ledger has given out, by a state as new as an observation.

    Args:
        state: The ledger, perhaps read before: others may have committed since.
    """
    known = state.control.token
    return known if (table.token or 0) <= known else run.ledger.read().control.token


def count_plan_rows(
    run: RunContext,
    record: RunRecord,
    ranges: Iterable[PlannedRange],
    head: Head,
    erasing: Erasing,
    at: int | None = None,
) -> CountedRanges:
    """Rows and gaps of a run's landed ranges, in the table's newest version.

    What counts is what is there now: rows of the plan's own commit may have been removed since, and
    files of older versions may have been vacuumed. Each call asks the log at most once about
    missing offsets.

    Args:
        record: Of the run that executes the plan; holds evidence that was gathered before.
        ranges: The part of its plan that is meant.
        head: Holds the accepted losses.
        erasing: Holds what was erased.
        at: The newest version, where it was just looked at; None looks.

    Raises:
        ServiceAway: The table or the cluster cannot be asked.
    """
    wanted = tuple(ranges)
    version = run.table.observe().version if at is None else at
    if version is None:
        raise ServiceAway(f"table {run.stream.table.uri} is gone; nothing moved, run again")
    landed = run.table.landed(wanted, version)
    known = known_evidence(record)
    if run.stream.gaps == "explain":
        missing = missing_offsets(wanted, landed) - head.accepted_loss - erasing.erased
        _examine(run, record, wanted, unexplained_by(missing, known), known)
    good, bad = compare_ranges(
        wanted,
        landed,
        gaps=run.stream.gaps,
        evidence=known,
        accepted_loss=head.accepted_loss,
        erased=erasing.erased,
    )
    return CountedRanges(version, good, bad, stored_evidence(known))


def check_log(
    run: RunContext, record: RunRecord, commit: TableCommit, counted: CountedRanges
) -> tuple[tuple[Finding, ...], CountedRanges]:
    """What keeps a counted plan from being verified: the log changed, or offsets are missing (R7).

    The log is asked last: what Spark and the evidence saw belongs to the plan's incarnation only
    if that is still there. Of a closed run, a commit that was verified is not held against the log
    again: Kafka may have forgotten it by now.

    Returns:
        The findings, and the counts without evidence from logs that have changed.

    Raises:
        ServiceAway: The cluster does not give a stable answer.
    """
    plan = record.plan
    assert plan is not None
    if record.is_open or record.table_commit != commit:
        changed = changes_after_read(run, plan.on_cluster)
        if changed:
            doubted = {
                r.identity
                for r in plan.ranges
                if any(f.concerns(r.topic_partition) for f in changed)
            }
            sure = [e for e in counted.evidence if e.identity not in doubted]
            # What an earlier verification kept was sure then, and may have expired since.
            sure += [e for e in record.evidence if e.identity in doubted]
            evidence = tuple(sorted(sure, key=lambda e: e.identity))
            return changed, replace(counted, evidence=evidence)
    return gap_findings(counted.mismatches, plan), counted


def verified_after_all(
    run: RunContext,
    state: LedgerState,
    record: RunRecord,
    commit: TableCommit,
    held: tuple[Incident, ...],
) -> tuple[VerifiedRange, ...] | None:
    """The ranges of a halted plan whose incidents have gone by; None where they have not.

    If rights were given back or a lagging leader caught up, nothing has to be read again, and rows
    that Kafka may have deleted by now are not lost. Incidents about another cluster never go by
    like that: Spark may have read there.
    """
    if any(i.finding.kind == "cluster_changed" for i in held):
        return None
    plan = record.plan
    assert plan is not None
    counted = count_plan_rows(run, record, plan.ranges, state.head, state.erasing)
    findings, _ = check_log(run, record, commit, counted)
    return None if findings or counted.mismatches else counted.verified


def changes_after_read(run: RunContext, read: ClusterRanges) -> tuple[Finding, ...]:
    """R7: Spark reads by topic name; what stood behind the name may have changed meanwhile.

    Raises:
        ServiceAway: The cluster does not give a stable answer.
    """

    def look() -> tuple[None, tuple[Finding, ...]]:
        return None, find_resets_after_read(read, _observe_ranges(run, read))

    return _agreed(run, look, incident_key)


def obstacles_to(run: RunContext, asked: ClusterRanges) -> tuple[Obstacle, ...]:
    """What keeps ranges from being read again, for good.

    A refusal is one of them where the stream file does not mean the topic any more: nobody will
    give the rights back.

    Raises:
        ServiceAway: The cluster does not give a stable answer.
        Halted: The cluster refuses to answer.
    """

    def look() -> tuple[None, tuple[Obstacle, ...]]:
        return None, obstacles(asked, _observe_ranges(run, asked))

    standing = _agreed(run, look, lambda obstacle: obstacle.key)
    refused = [
        str(o)
        for o in standing
        if o.kind == "refused" and (o.place is None or is_followed(o.place.topic, run.stream.kafka))
    ]
    if refused:
        raise Halted(f"run {run.run_id}: cannot be read now: {'; '.join(refused)}")
    return standing


def _agreed(
    run: RunContext,
    look: Callable[[], tuple[None, tuple[Item, ...]]],
    key: Callable[[Item], Hashable],
) -> tuple[Item, ...]:
    """What two looks in a row have shown (R14)."""
    return observe_until_stable(
        look,
        key=key,
        patience_seconds=run.stream.patience_seconds,
        first_pause_seconds=run.first_pause_seconds,
    )[1]


def _observe_ranges(run: RunContext, asked: ClusterRanges) -> Observation:
    """An observation of the ranges' topics with the epochs that they were planned with."""
    epochs = {r.topic_partition: r.leader_epoch for r in asked.ranges if r.leader_epoch is not None}
    return run.kafka.observe({r.topic for r in asked.ranges}, epochs)


def _examine(
    run: RunContext,
    record: RunRecord,
    ranges: tuple[PlannedRange, ...],
    missing: Places,
    known: Known,
) -> None:
    """Add to the evidence what the log shows at missing offsets."""
    if not missing or record.plan is None:
        return
    places = [(r.topic_partition, r.identity) for r in ranges if r.identity in missing]
    asked: dict[TopicPartition, Intervals] = {}
    for place, identity in places:  # a plan may hold two generations of a partition
        asked[place] = union(asked.get(place, ()), missing[identity])
    try:
        shown = run.kafka.examine(asked, record.plan.isolation_level)
    except (Halted, ServiceAway):
        if not changes_after_read(run, record.plan.on_cluster):
            raise
        return  # it will not be served: another log, or refused; and `check_log` says so
    if not record.is_open and changes_after_read(run, record.plan.on_cluster):
        return  # another log has answered; `check_log` looks for that in open runs only
    for place, identity in places:
        known[identity] += assign(missing[identity], shown.get(place, ()))[0]


def rows_to_keep(
    run: RunContext,
    plan: BatchPlan,
    missing: Places,
    left_out: Iterable[CoordinateRange] = (),
) -> Places:
    """Offsets of an open plan that were not read, and whose rows are good and the only copies.

    Their rows are verified, or were landed by an open plan whose log is still the same; and the
    log now has a hole there, or Spark cannot read it. To read again what others have landed would
    lose them.

    Args:
        run: This run; Kafka serves its plan.
        plan: What is landed.
        missing: Its offsets that have a row, and were not read; not empty.
        left_out: What Spark was told not to read, since it cannot.

    Raises:
        ServiceAway: The cluster does not give a stable answer.
    """
    good = _good(run, missing)
    unreadable = Places.of(left_out)
    places: dict[TopicPartition, Intervals] = {
        r.topic_partition: good[r.identity] for r in plan.ranges if r.identity in good
    }
    shown = run.kafka.examine(places, plan.isolation_level) if places else {}
    kept = (good & unreadable) | Places(
        {
            r.identity: only_copies(good[r.identity], shown.get(r.topic_partition, ()))
            for r in plan.ranges
        }
    )
    for identity, copies in kept.items():
        log.warning(
            "%s: %s cannot be read again; their rows stay", identity, ", ".join(map(str, copies))
        )
    return kept


def unreadable_without_rows(
    run: RunContext, plan: BatchPlan, found: tuple[Unreadable, ...]
) -> tuple[Unreadable, ...]:
    """The offsets that Spark cannot read and at which no good row stands: their loss is a loss.

    Args:
        plan: What is landed; its run is open.
        found: What Spark named.

    Raises:
        ServiceAway: The cluster does not give a stable answer.
    """
    version = run.table.observe().version
    if version is None:
        return found
    landed = places_of(run.table.landed(plan.ranges, version))
    standing = landed & Places.of(item.range for item in found)
    return without_rows(found, _good(run, standing)) if standing else found


def _good(run: RunContext, offsets: Places) -> Places:
    """The offsets whose rows are verified, or of an open plan whose log is still the same."""
    state = run.ledger.read()
    same_log = [p for p in _open_plans(state) if not changes_after_read(run, p.on_cluster)]
    return of_this_log(offsets, state.head, same_log)


def _open_plans(state: LedgerState) -> list[BatchPlan]:
    """Plans whose rows no incident puts in doubt."""
    return [
        r.plan
        for r in state.runs.values()
        if r.is_open
        and r.plan is not None
        and all(i.finding.kind in GAP_CLASSES for i in state.incidents_of_plan(r.plan.plan_id))
    ]
