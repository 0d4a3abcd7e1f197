"""Faults on the wire: what a rule does to which exchange between client and broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ResponseClassRegistry

from devstack.process import wait_until

Change = Callable[[Any], bool | None]


@dataclass(eq=False)
class Rule:
    """One fault, made by the functions below and switched on by `KafkaProxy.add`.

    Args:
        fault: "rewrite", "delay", "mute", "cut" or "lose".
        api: Which exchanges; None means all.
        times: Applied at most so often; None means until it is removed.
        skip: Matching exchanges that pass unharmed first.
        change: Gets the decoded response; returns False when that does not match.
        seconds: Length of a delay.
        applied: How often it was applied so far.
    """

    fault: str
    api: ApiKey | None
    times: int | None = None
    skip: int = 0
    change: Change = lambda response: None
    seconds: float = 0
    applied: int = 0

    def is_for(self, api: int) -> bool:
        """Whether it still has something to do with such exchanges."""
        return self.api in (None, api) and (self.times is None or self.applied < self.times)

    def take(self) -> bool:
        """Count a matching exchange; whether the rule applies to it."""
        self.skip, passes = max(0, self.skip - 1), self.skip > 0
        self.applied += not passes
        return not passes

    def wait_applied(self, times: int = 1, timeout_seconds: float = 30) -> None:
        """Wait until it was applied so often."""
        wait_until(lambda: self.applied >= times, f"{self} not applied", timeout_seconds, 0.01)


def rewrite(api: ApiKey, change: Change, **limits: int) -> Rule:
    """Change decoded responses in place; limits are `times` and `skip`, here and below."""
    return Rule("rewrite", api, change=change, **limits)


def delay(api: ApiKey | None, seconds: float, **limits: int) -> Rule:
    """Hold responses back; what follows on the same connection waits too."""
    return Rule("delay", api, seconds=seconds, **limits)


def mute(api: ApiKey | None = None, **limits: int) -> Rule:
    """Swallow the response and all later ones of that connection, which stays open."""
    return Rule("mute", api, **limits)


def cut(api: ApiKey | None = None, **limits: int) -> Rule:
    """Cut the connection when such a request comes; the broker does not see it."""
    return Rule("cut", api, **limits)


def lose_answer(api: ApiKey | None = None, **limits: int) -> Rule:
    """Cut the connection when the broker has answered; the client does not see it."""
    return Rule("lose", api, **limits)


def offsets_error(topic: str, partition: int, code: int, **limits: int) -> Rule:
    """ListOffsets fails for one partition."""
    values = {"error_code": code, "offset": -1, "timestamp": -1, "leader_epoch": -1}
    return _partition(ApiKey.ListOffsets, topic, partition, values, limits)


def offsets_epoch(topic: str, partition: int, epoch: int, **limits: int) -> Rule:
    """ListOffsets answers carry this leader epoch: below the real one, a stale leader."""
    return _partition(ApiKey.ListOffsets, topic, partition, {"leader_epoch": epoch}, limits)


def offsets_are(topic: str, partition: int, offset: int, **limits: int) -> Rule:
    """ListOffsets answers this offset, whatever was asked: below a position, a lagging leader."""
    return _partition(ApiKey.ListOffsets, topic, partition, {"offset": offset}, limits)


def out_of_range(**limits: int) -> Rule:
    """Fetch answers OFFSET_OUT_OF_RANGE for every partition."""

    def change(response: Any) -> bool:
        found = [p for topic in response.responses for p in topic.partitions]
        for partition in found:
            partition.error_code, partition.records = 1, None
        return bool(found)

    return rewrite(ApiKey.Fetch, change, **limits)


def epoch_error(topic: str, partition: int, code: int, **limits: int) -> Rule:
    """OffsetsForLeaderEpoch fails for one partition."""
    values = {"error_code": code, "leader_epoch": -1, "end_offset": -1}
    return _partition(ApiKey.OffsetForLeaderEpoch, topic, partition, values, limits)


def epoch_end(topic: str, partition: int, end_offset: int, **limits: int) -> Rule:
    """OffsetsForLeaderEpoch answers carry this end offset: below the position, a cut log."""
    values = {"end_offset": end_offset}
    return _partition(ApiKey.OffsetForLeaderEpoch, topic, partition, values, limits)


def partition_metadata(
    topic: str, partition: int, code: int = 5, leader: int = -1, **limits: int
) -> Rule:
    """Metadata shows this error and leader for one partition; by default, that it has none."""
    values = {"error_code": code, "leader_id": leader}
    return _partition(ApiKey.Metadata, topic, partition, values, limits)


def topic_id(topic: str, other: UUID | str, **limits: int) -> Rule:
    """Metadata shows another topic id."""
    return _topic(topic, {"topic_id": UUID(str(other))}, limits)


def topic_error(topic: str, code: int, **limits: int) -> Rule:
    """Metadata shows an error instead of id and partitions, as for a topic that is not there."""
    return _topic(topic, {"error_code": code, "topic_id": None, "partitions": []}, limits)


def _topic(name: str, values: Mapping[str, Any], limits: Mapping[str, int]) -> Rule:
    def change(response: Any) -> bool:
        return _set((t for t in response.topics if t.name == name), values)

    return rewrite(ApiKey.Metadata, change, **limits)


def _partition(
    api: ApiKey, topic: str, number: int, values: Mapping[str, Any], limits: Mapping[str, int]
) -> Rule:
    of_epochs = api == ApiKey.OffsetForLeaderEpoch
    name, index = ("topic", "partition") if of_epochs else ("name", "partition_index")

    def change(response: Any) -> bool:
        led = (p for t in response.topics if getattr(t, name) == topic for p in t.partitions)
        return _set((p for p in led if getattr(p, index) == number), values)

    return rewrite(api, change, **limits)


def _set(items: Iterator[Any], values: Mapping[str, Any]) -> bool:
    item = next(items, None)
    for name, value in values.items() if item is not None else ():
        setattr(item, name, value)
    return item is not None


def rewritten(frame: bytes, rule: Rule, api: int, version: int) -> bytes:
    """The frame of a response after a rule has changed it."""
    header = SimpleNamespace(request_api_key=api, request_api_version=version)
    response = ResponseClassRegistry.get_response_class(header).decode(frame, header=True)
    if bytes(response.encode(header=True)) != frame:
        raise ValueError(f"kafka-python does not give {response} back as it came")
    if rule.change(response) is False or not rule.take():
        return frame
    return bytes(response.encode(header=True))
