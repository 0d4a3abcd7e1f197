"""Look at record batches without reading records: evidence for gaps, and times of records.

One Fetch request after the other per partition, only where something is missing. Headers are
parsed by kafka-python; records are never decompressed, but for markers, which never are compressed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.record.memory_records import MemoryRecords

from tideline.model.coverage import Intervals, intersect, subtract
from tideline.model.gaps import AbortedTransaction, Batch, FetchedBatches, Gap, merge_gaps
from tideline.model.offsets import OffsetRange, TopicPartition
from tideline.rules.gaps import explain

Send = Callable[[Any, int], Awaitable[Any]]

_SMALL, _LARGE = 64 * 1024, 8 * 1024 * 1024
_BY_NAME = 12  # Fetch versions above name topics by id
_MAGIC = 2  # record batches (KIP-98); older message sets know no transactions
_EMPTY_ANSWERS = 3


class BatchReader:
    """Fetches batch headers from partitions' leaders.

    Args:
        send: Sends a request to a broker by id.
        leaders: Which broker leads which partition.
        committed: Whether aborted records are missing rightly (`read_committed`).
        log_starts: Oldest readable offsets, where known: below them there is nothing to look at.
    """

    def __init__(
        self,
        send: Send,
        leaders: Mapping[TopicPartition, int],
        committed: bool,
        log_starts: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._send = send
        self._leaders = leaders
        self._log_starts = log_starts or {}
        self._isolation = 1 if committed else 0

    async def examine(self, place: TopicPartition, missing: Intervals) -> tuple[Gap, ...]:
        """Why each missing offset has no row; one pass over the batches where some are missing.

        Raises:
            kafka.errors.KafkaError: The leader does not answer, or not about that partition.
        """
        start = self._log_starts.get(place, 0)
        expired = intersect(missing, [OffsetRange(0, start)])
        gaps = [Gap(r, "expired") for r in expired]
        left = subtract(missing, expired)
        size, empty_answers = _SMALL, 0
        while left:
            position = left[0].start_offset
            answer = await self._fetch({place: position}, size)
            found = answer[place]
            _check(place, found)
            batches = parse_batches(found.records)
            if not batches and self._readable_until(found) <= position:
                raise kafka_errors.OffsetNotAvailableError(f"{place[0]}-{place[1]}: {position}")
            if not batches and (empty_answers := empty_answers + 1) < _EMPTY_ANSWERS:
                continue
            stretch_end = batches[-1].last_offset + 1 if batches else left[-1].end_offset
            gaps += explain(left, FetchedBatches(position, stretch_end, batches, _aborted(found)))
            empty_answers = 0
            left = subtract(left, [OffsetRange(position, stretch_end)])
            # Dense gaps are read through in large steps, lonely ones picked out in small ones.
            is_near = bool(left) and left[0].start_offset - stretch_end < stretch_end - position
            size = min(size * 4, _LARGE) if is_near else _SMALL
        return merge_gaps(gaps)

    def _readable_until(self, answer: Any) -> int:
        """Where a leader lets this reader go by now; a new leader may still lag behind."""
        return int(answer.last_stable_offset if self._isolation else answer.high_watermark)

    async def times(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the first record at or after each offset was written; None where unknown.

        One request per leader, and another for what did not fit in.
        """
        found: dict[TopicPartition, datetime | None] = dict.fromkeys(offsets)
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for place, offset in offsets.items():
            if place in self._leaders:
                by_leader[self._leaders[place]][place] = offset
        for asked in by_leader.values():
            while asked:
                answers = await self._fetch(asked, _SMALL)
                told = {p: parse_batches(a.records) for p, a in answers.items() if not a.error_code}
                told = {p: batches for p, batches in told.items() if batches}
                if not told:
                    break
                for place, batches in told.items():
                    found[place] = _time(batches, asked.pop(place))
        return found

    async def _fetch(
        self, offsets: Mapping[TopicPartition, int], size: int
    ) -> dict[TopicPartition, Any]:
        topic_type = FetchRequest.FetchTopic
        partition_type = topic_type.FetchPartition
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for (topic, partition), offset in offsets.items():
            by_topic[topic].append(
                partition_type(
                    partition=partition,
                    current_leader_epoch=-1,
                    fetch_offset=offset,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=size,
                )
            )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=max(size, _LARGE),
            isolation_level=self._isolation,
            session_id=0,
            session_epoch=-1,
            topics=[topic_type(topic=name, partitions=ps) for name, ps in by_topic.items()],
            forgotten_topics_data=[],
            rack_id="",
            max_version=_BY_NAME,
        )
        leader = self._leaders.get(next(iter(offsets)))
        if leader is None:
            raise kafka_errors.LeaderNotAvailableError(f"no leader for {next(iter(offsets))}")
        response = await self._send(request, leader)
        if response.error_code:
            raise kafka_errors.for_code(response.error_code)("fetch")
        return {
            TopicPartition(t.topic, p.partition_index): p
            for t in response.responses
            for p in t.partitions
        }


def parse_batches(records: Any) -> tuple[Batch, ...]:
    """Headers of whole batches; a partial one at the end is left out."""
    if not records:
        return ()
    return tuple(_batch(b) for b in MemoryRecords(records) if b.magic == _MAGIC)


def _batch(found: Any) -> Batch:
    is_abort_marker = False
    if found.is_control_batch:
        is_abort_marker = any(getattr(record, "abort", False) for record in found)
    return Batch(
        base_offset=found.base_offset,
        last_offset=found.last_offset,
        records=found.records_count,
        producer_id=found.producer_id,
        is_control=found.is_control_batch,
        is_transactional=found.is_transactional,
        is_abort_marker=is_abort_marker,
        first_timestamp_ms=found.first_timestamp,
    )


def _aborted(answer: Any) -> tuple[AbortedTransaction, ...]:
    return tuple(
        AbortedTransaction(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()
    )


def _check(place: TopicPartition, answer: Any) -> None:
    if answer.error_code:
        raise kafka_errors.for_code(answer.error_code)(f"{place[0]}-{place[1]}")


def _time(batches: Iterable[Batch], offset: int) -> datetime | None:
    """Of the batch that holds the offset: its first record's time, a lower bound."""
    for batch in batches:
        if batch.last_offset >= offset:
            known = batch.first_timestamp_ms
            try:
                return datetime.fromtimestamp(known / 1000, UTC) if known >= 0 else None
            except (ValueError, OverflowError, OSError):  # a producer that counts otherwise
                return None
    return None
