"""When a stream's lag starts a run: how far it is behind, and how often that is told. Pure.

What counts is the head in the ledger, and not whether the log has grown since a run was asked for:
an event may be lost, a run may be capped or fail, and all of them leave lag that no growth tells
(docs/adr/0066-lag-is-measured-against-the-head.md).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tideline.model.head import Head
from tideline.model.observation import Ends
from tideline.model.offsets import TopicPartition

FIRST_WAIT = 60.0
"""Seconds until a run is asked for once more while the head stands still."""
MOST_WAIT = 900.0
"""The wait is doubled each time, up to this. So long no head is believed that was read once: a
rewind, a decision or an older ledger takes it back, and no growth of the log tells of that."""
Positions = tuple[tuple[str, str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Lag:
    """What is unread.

    Args:
        records: Offsets between head and end.
        is_old: Whether a record waits for longer than it may.
    """

    records: int
    is_old: bool = False


def lag_of(
    head: Head,
    topics: Collection[str],
    ends: Ends,
    seconds: int | None,
    barred: Collection[TopicPartition] = (),
) -> Lag:
    """How far a stream is behind.

    A partition without a position counts from 0: where its stream begins is the run's to find out,
    which then moves the head. One that was retired counts no more, since no run takes it up again:
    it may be there still, or be back.

    Args:
        head: The stream's.
        topics: Those that the stream file means, besides those of the head.
        ends: Of all its partitions.
        seconds: How long a record may wait; None for ever.
        barred: Partitions that no run moves until somebody decides: they do not count.
    """
    at = {(p.topic, p.partition): p.next_offset for p in head.positions}
    young = {} if seconds is None else ends.young.get(seconds, {})
    retired = {
        p.topic_partition
        for p in head.retired
        if p.topic_partition not in at and p.topic_id == ends.ids.get(p.topic)
    }
    records, is_old = 0, False
    for topic in {*topics, *head.topics} - set(head.set_aside):
        for partition, end in ends.ends.get(topic, {}).items():
            if (topic, partition) in barred or (topic, partition) in retired:
                continue
            position = at.get((topic, partition), 0)
            records += max(0, end - position)
            is_old |= end > position and young.get(topic, {}).get(partition, 0) > position
    return Lag(records, is_old)


def reason(lag: Lag, records: int | None, seconds: int | None) -> str | None:
    """Why a run is due; None if it is not.

    Args:
        records: Offsets that may be unread without one; None for any number.
        seconds: How long a record may wait; None for ever.
    """
    if records is not None and lag.records >= records:
        return f"{lag.records:,} offsets are unread, {records:,} may be"
    if seconds is not None and lag.is_old:
        return f"a record has waited for longer than {seconds:,} s"
    return None


@dataclass(frozen=True, slots=True)
class AskedRun:
    """A run that was asked for.

    Args:
        positions: The head then.
        at: Seconds of a clock that never goes back.
        wait: Seconds until it is asked for once more, if the head stands still.
    """

    positions: Positions
    at: float
    wait: float = FIRST_WAIT


def positions_of(head: Head) -> Positions:
    """What a run that lands something changes."""
    return tuple(
        (p.topic, p.topic_id, p.generation, p.partition, p.next_offset) for p in head.positions
    )


def may_ask(before: AskedRun | None, positions: Positions, now: float) -> bool:
    """Whether a run may be asked for: the head has moved since the last time, or it is long ago."""
    if before is None or before.positions != positions:
        return True
    return now - before.at >= before.wait


def asked(before: AskedRun | None, positions: Positions, now: float) -> AskedRun:
    """A run is asked for now."""
    if before is None or before.positions != positions:
        return AskedRun(positions, now)
    return AskedRun(positions, now, min(2 * before.wait, MOST_WAIT))
