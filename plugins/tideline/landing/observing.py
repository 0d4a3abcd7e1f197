"""Observe cluster and table, as often as it takes to agree; find where new partitions start.

A verdict rests on observations that agree; a transient fault is observed again (R14). Nothing is
written here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, TypeVar

from tideline.errors import BadInput, ServiceAway
from tideline.landing.context import RunContext, log, now
from tideline.model.head import Head, Headroom
from tideline.model.incident import Notice
from tideline.model.observation import Observation
from tideline.model.offsets import PlannedRange, TopicPartition
from tideline.model.places import Places
from tideline.model.wording import duration_text
from tideline.rules.advance import headroom_of, late_reads, unread_places
from tideline.rules.planning import open_transactions, stalled_places
from tideline.rules.positions import LookedUp, adopt_new_partitions, mark_followed, only_followed
from tideline.stream.landing import StartAt

_LONGEST_PAUSE_SECONDS = 5.0


class Observed(Protocol):
    """One thing that an observation has shown; a `transient` one never becomes a verdict."""

    @property
    def kind(self) -> str:
        """Its class."""


Item = TypeVar("Item", bound=Observed)
Basis = TypeVar("Basis")


def observe_until_stable(
    observe: Callable[[], tuple[Basis, tuple[Item, ...]]],
    *,
    key: Callable[[Item], Hashable],
    patience_seconds: float,
    first_pause_seconds: float,
    may_wait: Callable[[Item], bool] = lambda _: False,
) -> tuple[Basis, tuple[Item, ...]]:
    """Observe until nothing is wrong, or until two observations in a row show the same.

    Args:
        observe: Called again and again, with growing pauses: what it rests on, and what is wrong.
            An error that it raises goes through.
        key: What makes two items the same.
        patience_seconds: How long transient or changing items are waited out. A clean observation
            at the very end is confirmed by one more.
        first_pause_seconds: Between the first two; each later pause is twice as long, up to 5 s.
        may_wait: Whether others may go on beside a transient item that stays.

    Returns:
        The last observation, without transient items.

    Raises:
        ServiceAway: The observations did not agree in time; `observed` lists what was seen last.
    """
    deadline = time.monotonic() + patience_seconds
    pause = first_pause_seconds
    before: set[Hashable] = set()
    while True:
        basis, items = observe()
        transient = [item for item in items if item.kind == "transient"]
        keys = {key(item) for item in items}
        if not transient and keys == before:
            return basis, items
        if items and time.monotonic() > deadline:
            if transient and keys == before and all(map(may_wait, transient)):
                log.warning("the run continues without: %s", _text(transient))
                return basis, tuple(item for item in items if item.kind != "transient")
            raise ServiceAway(
                f"no stable answer within {duration_text(patience_seconds)}:"
                f" {_text(transient or items)};"
                " nothing moved, try again later",
                observed=[str(item) for item in items],
            )
        before = keys
        if items:
            log.info("observing again, because of %s", items[0])
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _text(items: Iterable[object]) -> str:
    return " ".join(map(str, items))


def observe(run: RunContext, head: Head) -> Observation:
    """One observation of the table, and of the topics as `observe_topics` does it.

    Raises:
        BadInput: The stream file names a topic that was never followed and is not there.
        ServiceAway: The cluster or the table cannot be asked.
    """
    found = observe_topics(run, head)
    return replace(found, table=run.table.observe(head.listed_after))


def observe_topics(run: RunContext, head: Head) -> Observation:
    """One observation of the topics that are followed, and of those asked for; not of the table.

    Known topics are asked for by name, whatever a pattern lists (R14), unless the stream file does
    not mean them any more.

    Raises:
        BadInput: The stream file names a topic that was never followed and is not there.
        ServiceAway: The cluster cannot be asked.
    """
    kafka = run.stream.kafka
    head = only_followed(head, kafka)
    known = set(head.topics)
    retired = {p.topic for p in head.retired}
    wanted = known | set(kafka.topics)
    if kafka.topic_pattern is not None:
        wanted |= set(run.kafka.topics_matching(kafka.topic_pattern))
    epochs = {
        p.topic_partition: p.leader_epoch for p in head.positions if p.leader_epoch is not None
    }
    observation = run.kafka.observe(wanted, epochs)
    absent = {t.topic for t in observation.topics if t.is_absent and t.topic not in known}
    named = sorted((absent & set(kafka.topics)) - retired)
    if named:
        raise BadInput(
            f"stream {run.stream.stream}: kafka.topics: no such topic in cluster"
            f" {observation.cluster_id}: {', '.join(named)}; create it or correct the name",
            topics=named,
        )
    # A topic that the pattern listed may be deleted by the time it is asked for.
    topics = tuple(t for t in observation.topics if t.topic not in absent)
    return replace(observation, topics=topics)


def adopt(run: RunContext, head: Head, observation: Observation) -> Head:
    """The head with a first position for every partition that it does not follow yet (R10).

    Topics that the stream file does not mean any more are noted in it.

    Args:
        head: What the ledger knows.
        observation: Taken before any look-up by time, so that no record falls between.

    Raises:
        BadInput: The start that the stream file names does not fit the log.
        ServiceAway: The cluster cannot be asked.
    """
    adopted = adopt_new_partitions(
        head,
        observation,
        start=str(run.stream.start),
        isolation_level=run.stream.kafka.isolation_level,
        looked_up=_looked_up(run, head, observation),
    )
    return mark_followed(adopted, run.stream.kafka)


def stalled_transactions(run: RunContext, observation: Observation) -> tuple[Notice, ...]:
    """Open transactions that hold readers of committed records back; their age is best effort."""
    if run.stream.kafka.isolation_level != "read_committed":
        return ()
    stalled = stalled_places(observation)
    began = {}
    with suppress(Exception):
        began = run.kafka.written_at(stalled)
    return open_transactions(observation, began, now())


def measure_headroom(
    run: RunContext, head: Head, observation: Observation, most: int | None = None
) -> tuple[Headroom, ...]:
    """When retention may reach what is unread; best effort, so it never fails a run.

    Args:
        head: Where the live lane stands.
        observation: One observation of the cluster.
        most: At most that many partitions, the furthest behind first; None for all.
    """
    unread = unread_places(head.positions, observation, most)
    if not unread:
        return ()
    try:
        kept = run.kafka.retention_ms({place.topic for place in unread})
        timed = {place: o for place, o in unread.items() if kept.get(place.topic) is not None}
        return headroom_of(unread, run.kafka.written_at(timed), kept)
    except Exception as error:
        log.warning("retention headroom is unknown: %s", error)
        return ()


def measure_late_reads(run: RunContext, head: Head, ranges: Sequence[PlannedRange]) -> Places:
    """What was read so late that compaction may have taken deletes; warns from half the time on.

    Only where a current table is folded; what a topic keeps is best effort, and never fails a run.

    Args:
        head: Where the live lane stands.
        ranges: What is read now.

    Returns:
        That of before, and what is read now.
    """
    if run.current is None or not ranges or not head.days:
        return head.read_late
    try:
        kept = run.kafka.delete_retention_ms({r.topic for r in ranges})
        first = {r.topic_partition: r.start_offset for r in ranges if r.topic in kept}
        late = late_reads(ranges, run.kafka.written_at(first), kept, head.days[0].day, now())
    except Exception as error:
        log.warning("how long compaction leaves deletes is unknown: %s", error)
        return head.read_late
    for planned, age, is_too_late in late:
        log.warning(
            "%s offset %d is %s old, and compaction may take deletes after %s"
            " (delete.retention.ms)%s; run more often",
            planned.topic_partition,
            planned.start_offset,
            duration_text(age.total_seconds()),
            duration_text(kept[planned.topic] / 1000),
            ": the current table may keep rows that are gone" if is_too_late else "",
        )
    return head.read_late | Places.of(planned for planned, _, is_too_late in late if is_too_late)


def _looked_up(run: RunContext, head: Head, observation: Observation) -> LookedUp | None:
    """Offsets of an explicit `start`; None where the log's ends decide or nothing is new."""
    start = run.stream.start
    if head.start is not None:
        if head.start != str(start):
            log.warning(
                "start: %s has no effect, the first positions were resolved from %s",
                start,
                head.start,
            )
        return None
    if not isinstance(start, StartAt):
        return None
    places = [
        TopicPartition(t.topic, p.partition) for t in observation.topics for p in t.partitions
    ]
    if start.timestamp is not None:
        answers = run.kafka.offsets_at(start.timestamp, places)
        return {place: None if at is None else at.offset for place, at in answers.items()}
    if start.group is not None:
        return run.kafka.committed_offsets(start.group, places)
    assert start.offsets is not None
    unknown = {(t, p) for t, by_p in start.offsets.items() for p in by_p} - set(places)
    if unknown:
        names = ", ".join(f"{t}-{p}" for t, p in sorted(unknown))
        raise BadInput(f"start.offsets names what the cluster does not have: {names}")
    return {place: start.offsets.get(place.topic, {}).get(place.partition) for place in places}
