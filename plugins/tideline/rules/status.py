"""How a stream is doing, in one line. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from tideline.model.coverage import subtract, total
from tideline.model.decoding import Decoding
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.offsets import TopicPartition
from tideline.model.status import Status, StreamState


def summarize(
    stream: str,
    head: Head,
    decoding: Decoding,
    open_incidents: Collection[Incident],
    ends: Mapping[TopicPartition, int] | None,
    now: datetime,
) -> Status:
    """A stream's status.

    Args:
        stream: Its name.
        head: Where the live lane stands.
        decoding: The head of the typed tables.
        open_incidents: Of landing and decoding.
        ends: End offsets (exclusive) that a run would read to, as brokers say now; None if they
            did not answer.
        now: The time, UTC-aware.
    """
    followed = [p for p in head.positions if p.topic not in head.set_aside]
    seen = {p.topic_partition: p.seen_end for p in followed} if ends is None else ends
    lags = [
        max(0, end - p.next_offset)
        for p in followed
        if (end := seen.get(p.topic_partition)) is not None
    ]
    has_lag = any(lags)
    unread = [h.written_at for h in head.headroom if h.written_at is not None]
    left = [s for h in head.headroom if (s := h.seconds_left(now)) is not None]
    newest = head.commits[-1] if head.commits else None
    covered = decoding.covered
    return Status(
        stream=stream,
        state=_state(head, open_incidents, has_lag=has_lag),
        partitions=len(followed),
        offset_lag=sum(lags) if lags else None,
        is_measured=ends is not None,
        oldest_unread_at=min(unread, default=None) if has_lag else None,
        headroom_seconds=min(left, default=None) if has_lag else None,
        last_run=newest.run_id if newest is not None else None,
        last_landed_version=newest.version if newest is not None else None,
        open_incidents=len(open_incidents),
        undecoded=sum(total(subtract(r, covered.get(i, ()))) for i, r in head.covered.items())
        if covered
        else None,
    )


def _state(head: Head, open_incidents: Collection[Incident], *, has_lag: bool) -> StreamState:
    undecided = [i for i in open_incidents if not i.is_decided]
    if any(i.asked_in is not None for i in undecided):
        return "waiting"
    if undecided:
        return "halted"
    if not head.positions:
        return "never_run"
    return "behind" if has_lag else "up_to_date"
