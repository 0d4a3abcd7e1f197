"""Carry out the approval of a table that is newer than the ledger (R13).

Whoever restored a backup has lost what runs did since. The table's commits tell it: what still
stands is verified like a backfill, what they have removed is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tideline.errors import StreamBusy
from tideline.landing.context import RunContext, now
from tideline.landing.observing import observe_topics
from tideline.landing.proof import count_plan_rows
from tideline.ledger.state import LedgerState
from tideline.model.erasures import Erasing, ToldErasure
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.observation import Observation, TableObservation
from tideline.model.offsets import CoordinateRange, PartitionIdentity, ReadRange
from tideline.model.places import Places
from tideline.model.plan import BatchPlan, VerifiedRange
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord, TableCommit
from tideline.model.wording import first_few, how_many
from tideline.rules.advance import advance_head, with_planned_ends
from tideline.rules.older_ledger import (
    amended,
    as_planned,
    erased_by,
    erasures_in,
    forgotten,
    having_followed,
    landed_by,
    landed_logs,
    removed_by,
    taken_up,
    without_removed,
)
from tideline.rules.rewound import observable_groups
from tideline.rules.verification import compare_ranges, sound_parts

_LOOKS = 2


@dataclass(frozen=True, slots=True)
class RecoveredCommits:
    """What a table has told about commits that the ledger forgot.

    Args:
        head: That knows it.
        records: Closed runs that learn something, and one for what is known again.
        known: What counts as landed again.
        removed: What counts as landed no more.
        written: What the commits have written or removed: it counts as decoded no more.
        erased: What they have erased by key.
    """

    head: Head
    records: tuple[RunRecord, ...]
    known: tuple[CoordinateRange, ...]
    removed: tuple[CoordinateRange, ...]
    written: tuple[CoordinateRange, ...]
    erased: tuple[ToldErasure, ...] = ()

    def __str__(self) -> str:
        by_key = first_few(dict.fromkeys(erased.erasure_id for erased in self.erased))
        return (
            f"restored to the ledger: {_shown(self.known)}; removed: {_shown(self.removed)}"
        ) + (f"; erased by key, and known again: {by_key}" if by_key else "")


def recover_from_table(
    run: RunContext,
    state: LedgerState,
    incident: Incident,
    table: TableObservation,
    missing: Places,
) -> RecoveredCommits:
    """What the table's commits tell, and the head and records that know it.

    What others have done to the table stays unknown: the next look finds it.

    Args:
        state: What the decision was made on.
        incident: About a ledger that is older than the table; approved.
        table: An observation that shows it.
        missing: Verified offsets that the table does not hold.

    Raises:
        ServiceAway: The cluster or the table cannot be asked.
    """
    commits = run.table.commits_above(state.control.token)
    closed = list(run.ledger.closed_runs())
    erased = erased_by(commits)
    # What was erased stays verified, without a row: it is not read again.
    gone = removed_by(commits, missing - Places.of(erased))
    head = without_removed(state.head, closed, gone)
    landings = landed_by(commits)
    logs = landed_logs(commits)
    seen, names = _looked(run, head, logs)
    ids = {t.topic_id for t in seen.topics if t.topic_id is not None}
    head = having_followed(head.having_noted_incarnations(), logs, names)
    open_plans = [r.plan.plan_id for r in state.runs.values() if r.is_open and r.plan is not None]
    found = forgotten(head, commits, open_plans, names)
    assert table.table_id is not None
    assert table.version is not None
    commit = TableCommit(table.table_id, table.version, table.token or 0, rows=0, bytes=0)
    plan = _plan(run, state, f"taken-over-{incident.incident_id}", commit, found)
    record = RunRecord(plan.run_id, plan.lane, "done", plan.request_digest, now(), plan=plan)
    erasing = state.erasing.keeping_out(erased)
    verified = _verified(run, record, head, erasing, found, ids)
    known = tuple(v.planned for v in verified)
    plan = replace(plan, ranges=known)
    record = replace(record, plan=plan, table_commit=commit, verified=verified)
    today = seen.topics if seen.cluster_id == head.cluster_id else ()
    # what stands no more was there once: its epochs tell a cut, and its generations are given
    named = [replace(r, topic=names.get(r.topic_id, r.topic)) for r in landings]
    before = head
    head = with_planned_ends(taken_up(head, known, today, named), map(as_planned, named))
    head = head.having_left(before)
    head = head.having_given({r.identity for c in commits for r in c.ranges if r.generation})
    head = replace(
        advance_head(head, plan, commit),
        table_id=state.head.table_id,
        table_version=state.head.table_version,
        commits=state.head.commits,
    )
    removed = gone.ranges(names)
    written = tuple(r.as_coordinates for c in commits for r in c.ranges)
    records = (*amended(closed, gone), *([record] if known else ()))
    return RecoveredCommits(head, records, known, removed, written, erasures_in(commits))


def _looked(
    run: RunContext, head: Head, logs: Iterable[PartitionIdentity]
) -> tuple[Observation, dict[str, str]]:
    """What the brokers tell of all topics that the head knows, and topics' names by their ids.

    Also of topics that no run follows now: what is forgotten of these may be followed again. Where
    a log has no name, a topic that seems to be gone is asked about once more (R14).

    Args:
        logs: What commits that the ledger has forgotten have landed.

    Raises:
        StreamBusy: A topic does not answer, and a log may be of it.
    """
    known = head.topic_names
    every = {*run.stream.kafka.topics, *head.topics}
    if len(every) == 1:  # a topic id that is gone everywhere was of this one
        known = dict.fromkeys((log.topic_id for log in logs), *every) | known
    for _ in range(_LOOKS):
        seen = observe_topics(run, head)
        followed = {t.topic for t in seen.topics}
        if aside := {*head.topics} - followed:
            at = {p.topic_partition: p.leader_epoch for p in head.positions if p.topic in aside}
            epochs = {place: epoch for place, epoch in at.items() if epoch is not None}
            seen = replace(seen, topics=(*seen.topics, *run.kafka.observe(aside, epochs).topics))
        names = known | {str(t.topic_id): t.topic for t in seen.topics if t.topic_id is not None}
        if all(log.topic_id in names for log in logs):
            return seen, names
        unheard = [
            t.topic
            for t in seen.topics
            if t.fault is not None or (t.refusal is not None and t.topic in followed)
        ]
        if unheard:
            raise StreamBusy(
                f"topics {first_few(unheard)} do not answer, and rows may be theirs that the ledger"
                " has forgotten: run again"
            )
    return seen, names


def _plan(
    run: RunContext,
    state: LedgerState,
    name: str,
    commit: TableCommit,
    found: Iterable[ReadRange],
) -> BatchPlan:
    """What stands for the forgotten plans: a backfill's, which moves no position."""
    ranges = tuple(map(as_planned, found))
    return BatchPlan(
        plan_id=name,
        run_id=name,
        stream=run.stream.stream,
        lane="backfill",
        frozen_at=now(),
        request_digest=RunRequest().digest,
        cluster_id=str(state.head.cluster_id),
        isolation_level=run.stream.kafka.isolation_level,
        ranges=ranges,
        offset_lag=0,
        estimated_records=sum(len(r.offsets) for r in ranges),
        estimated_bytes=None,
        table_uri=run.stream.table.uri,
        table_id=commit.table_id,
        table_version=commit.version,
    )


def _verified(
    run: RunContext,
    record: RunRecord,
    head: Head,
    erasing: Erasing,
    found: Iterable[ReadRange],
    alive: Collection[str],
) -> tuple[VerifiedRange, ...]:
    """What stands of forgotten ranges; holes count where today's log shows what is there.

    Args:
        found: The ranges; several of one partition are allowed.
        alive: Topic ids that the brokers know: only their logs can be asked.
    """
    good: list[VerifiedRange] = []
    for group in observable_groups(found):
        asked = tuple(as_planned(r) for r in group if r.topic_id in alive)
        counted = count_plan_rows(run, record, asked, head, erasing)
        good += (*counted.verified, *sound_parts(counted.mismatches, head.coverage))
        rest = tuple(as_planned(r) for r in group if r.topic_id not in alive)
        landed = run.table.landed(rest, counted.version)
        whole, part = compare_ranges(
            rest,
            landed,
            gaps="explain",
            evidence={},
            accepted_loss=head.accepted_loss,
            erased=erasing.erased,
        )
        good += (*whole, *sound_parts(part, head.coverage))
    return tuple(good)


def _shown(ranges: Sequence[CoordinateRange]) -> str:
    return (
        f"{how_many(sum(len(r.offsets) for r in ranges), 'offset')} ({first_few(ranges) or 'none'})"
    )
