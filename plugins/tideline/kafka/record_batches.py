"""Read the headers of record batches: evidence for gaps, and the times of records.

Fetch requests are sent one after the other per partition, and only where rows are missing.
kafka-python parses the headers. Records are not parsed or decompressed; transaction markers are
parsed, since they are never compressed (KIP-98).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.record.memory_records import MemoryRecords

from tideline.kafka.gaps import AbortedTransaction, BatchHeader, FetchedBatches, explain_gaps
from tideline.model.observation import Gap, merge_gaps
from tideline.model.offsets import Intervals, OffsetRange, TopicPartition, intersect, subtract

Send = Callable[[Any, int], Awaitable[Any]]

_SMALL, _LARGE = 64 * 1024, 8 * 1024 * 1024
_BY_NAME = 12  # the last version of Fetch that names topics by name and not by id (KIP-516)
_MAGIC = 2  # record batches (KIP-98); older message sets know no transactions
_EMPTY_ANSWERS = 3  # so many empty answers below the readable end show that no batch is there


class BatchReader:
    """Fetches batch headers from partitions' leaders.

    Args:
        send: Sends a request to a broker, given by id.
        leaders: Id of each partition's leader.
        committed: Whether to read as a `read_committed` reader does, without aborted records.
        log_starts: Oldest readable offsets, as far as they are known; offsets below are expired.
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

    async def examine(self, partition: TopicPartition, missing: Intervals) -> tuple[Gap, ...]:
        """Why each missing offset of a partition has no row.

        Args:
            missing: Half-open ranges, sorted and disjoint.

        Returns:
            Gaps sorted by offset; together they hold every missing offset.

        Raises:
            kafka.errors.KafkaError: There is no leader, it answers with an error, or it does not
                serve these offsets yet.
        """
        start = self._log_starts.get(partition, 0)
        expired = intersect(missing, [OffsetRange(0, start)])
        gaps = [Gap(r, "expired") for r in expired]
        left = subtract(missing, expired)
        size, empty_answers = _SMALL, 0
        while left:
            position = left[0].start_offset
            answer = (await self._fetch({partition: position}, size))[partition]
            _check(partition, answer)
            batches = parse_batches(answer.records)
            # Before anything is called a hole: a new leader may not serve these offsets yet.
            if not batches and self._readable_until(answer) <= position:
                raise kafka_errors.OffsetNotAvailableError(f"{partition}: {position}")
            if not batches and (empty_answers := empty_answers + 1) < _EMPTY_ANSWERS:
                continue
            end = batches[-1].last_offset + 1 if batches else left[-1].end_offset
            fetched = FetchedBatches(position, end, batches, _aborted(answer))
            gaps += explain_gaps(left, fetched)
            empty_answers = 0
            left = subtract(left, [OffsetRange(position, end)])
            # Gaps close to each other are read in large steps, distant ones in small steps.
            is_near = bool(left) and left[0].start_offset - end < end - position
            size = min(size * 4, _LARGE) if is_near else _SMALL
        return merge_gaps(gaps)

    def _readable_until(self, answer: Any) -> int:
        """The end (exclusive) that the leader lets this reader read; a new leader may be behind."""
        return int(answer.last_stable_offset if self._isolation else answer.high_watermark)

    async def times(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the record at each offset was written, or the next one after it.

        One request per leader, and further ones for partitions that did not fit into the response.

        Returns:
            One entry per partition, UTC-aware; None if unknown.

        Raises:
            kafka.errors.KafkaError: A leader does not answer.
        """
        times: dict[TopicPartition, datetime | None] = dict.fromkeys(offsets)
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for partition, offset in offsets.items():
            if partition in self._leaders:
                by_leader[self._leaders[partition]][partition] = offset
        for asked in by_leader.values():
            while asked:
                answers = await self._fetch(asked, _SMALL)
                read = {p: parse_batches(a.records) for p, a in answers.items() if not a.error_code}
                read = {p: batches for p, batches in read.items() if batches}
                if not read:
                    break
                for partition, batches in read.items():
                    times[partition] = _time(batches, asked.pop(partition))
        return times

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


def parse_batches(records: Any) -> tuple[BatchHeader, ...]:
    """The headers of the whole batches in a Fetch response; a partial one at the end is dropped."""
    if not records:
        return ()
    return tuple(_batch(b) for b in MemoryRecords(records) if b.magic == _MAGIC)


def _batch(parsed: Any) -> BatchHeader:
    is_abort_marker = False
    if parsed.is_control_batch:
        is_abort_marker = any(getattr(record, "abort", False) for record in parsed)
    return BatchHeader(
        base_offset=parsed.base_offset,
        last_offset=parsed.last_offset,
        records=parsed.records_count,
        producer_id=parsed.producer_id,
        is_control=parsed.is_control_batch,
        is_transactional=parsed.is_transactional,
        is_abort_marker=is_abort_marker,
        first_timestamp_ms=parsed.first_timestamp,
    )


def _aborted(answer: Any) -> tuple[AbortedTransaction, ...]:
    return tuple(
        AbortedTransaction(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()
    )


def _check(partition: TopicPartition, answer: Any) -> None:
    if answer.error_code:
        raise kafka_errors.for_code(answer.error_code)(str(partition))


def _time(batches: Iterable[BatchHeader], offset: int) -> datetime | None:
    """The time of the first record in the batch that holds the offset: a lower bound."""
    for batch in batches:
        if batch.last_offset >= offset:
            known = batch.first_timestamp_ms
            try:
                return datetime.fromtimestamp(known / 1000, UTC) if known >= 0 else None
            except (ValueError, OverflowError, OSError):  # the producer does not send milliseconds
                return None
    return None
