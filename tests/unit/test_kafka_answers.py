"""Which broker error means what: transient, refused, or gone."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import pytest
from kafka import errors as kafka_errors

from tests.worlds.build import ID, OTHER_ID
from tideline.errors import TopicIdMissing
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import KafkaSettings
from tideline.kafka.requests import (
    KafkaRequests,
    partition_observation,
    partitions_by_leader,
    refuse_shared_ids,
    topic_observation,
)
from tideline.model.observation import TopicObservation
from tideline.model.offsets import TopicPartition

PLACE = ("orders", 0)


def name_of(code):
    """What kafka-python calls an error code."""
    return kafka_errors.for_code(code).__name__


def answer(code=0, offset=10, epoch=1):
    return {
        PLACE: SimpleNamespace(
            error_code=code, offset=offset, leader_epoch=epoch, end_offset=offset
        )
    }


def judged(metadata_code=0, start=0, end=0, epoch_end=0):
    return partition_observation(
        "orders",
        {"partition_index": 0, "error_code": metadata_code},
        answer(start),
        answer(end),
        answer(),
        answer(epoch_end),
    )


@pytest.mark.parametrize("code", [3, 5, 6, 7, 9, 56, 74, 75, 78, 100])
def test_leadership_metadata_and_storage_errors_pass(code):
    """Leader gone, stale, lagging or busy: another look may find it gone."""
    for found in (judged(code), judged(start=code), judged(end=code), judged(epoch_end=code)):
        assert (found.fault, found.refusal) == (name_of(code), None)


@pytest.mark.parametrize("code", [29, 35, -1, 999])
def test_missing_rights_and_everything_unknown_do_not_pass(code):
    """Fail closed: neither a loss nor a reason to wait."""
    found = judged(end=code)
    assert (found.fault, found.refusal) == (None, name_of(code))


def bounds(start=0, end=10, stable=10, epoch=1):
    metadata = {"partition_index": 0, "error_code": 0}
    answers = (answer(offset=o, epoch=epoch) for o in (start, end, stable))
    return partition_observation("orders", metadata, *answers, {})


@pytest.mark.parametrize("unsaid", ["start", "end", "stable"])
def test_an_offset_that_is_not_told_is_no_offset(unsaid):
    """As the end of what can be read, -1 would leave the partition unread without a word."""
    found = bounds(**{unsaid: -1})
    assert found.fault == "no offset in the leader's answer"
    assert not found.answered


def test_a_log_without_an_epoch_is_refused():
    """Cut and refilled, it would look like the one that was read; an empty one has nothing."""
    assert "no leader epoch (KIP-320)" in bounds(epoch=-1).refusal
    assert bounds(start=10, epoch=-1).answered


def test_an_epoch_whose_end_is_not_told_is_no_intact_one():
    """The answer leaves a partition out: that is not as if nobody had asked."""

    async def send(request, node_id=None):
        return SimpleNamespace(topics=[])

    requests = KafkaRequests(lambda: None)
    requests.send = send
    with pytest.raises(kafka_errors.LeaderNotAvailableError, match="no end of the epoch"):
        asyncio.run(requests.epoch_ends(1, {TopicPartition(*PLACE): 3}))


def test_a_partition_without_a_leader_has_no_answers():
    """Nobody was asked."""
    metadata = {"partition_index": 0, "error_code": 0}
    found = partition_observation("orders", metadata, {}, {}, {}, {})
    assert found.fault == "no leader"
    topics = [{"name": "orders", "partitions": [{**metadata, "leader_id": -1}]}]
    assert partitions_by_leader({"topics": topics}) == {}


@pytest.mark.parametrize(
    ("before", "after", "topic_id", "fault", "refusal"),
    [
        ((0, ID), (0, ID), ID, None, None),
        ((0, ID), (0, OTHER_ID), None, "the topic id changed during the observation", None),
        ((3, None), (3, None), None, None, None),
        ((0, ID), (3, None), None, name_of(3), None),
        ((3, None), (0, ID), None, name_of(3), None),
        ((5, ID), (5, ID), None, name_of(5), None),
        ((29, None), (29, None), None, None, name_of(29)),
    ],
)
def test_a_topic_is_what_both_looks_agree_on(before, after, topic_id, fault, refusal):
    """One answer of a lagging broker makes no verdict."""
    first, second = (
        {"name": "orders", "error_code": code, "topic_id": found} for code, found in (before, after)
    )
    found = topic_observation(first, second, ())
    assert (found.topic_id, found.fault, found.refusal) == (topic_id, fault, refusal)


ZERO_ID = str(UUID(int=0))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"topic_id": None}, {"topic_id": None}),  # as kafka-python gives zero
        ({"topic_id": ZERO_ID}, {"topic_id": ZERO_ID}),
        ({}, {}),  # Metadata before version 10
        ({"topic_id": ID}, {"topic_id": None}),  # brokers of two versions
        ({"topic_id": None}, {"topic_id": ID}),
    ],
)
def test_a_topic_without_an_id_is_refused_in_words_of_its_own(before, after):
    """No verdict, nothing about loss: what is missing, and from which version on it is there."""
    known = {"name": "orders", "error_code": 0}
    with pytest.raises(TopicIdMissing, match=r"orders.*no topic id.*Kafka 2\.8") as refused:
        topic_observation({**known, **before}, {**known, **after}, ())
    assert not refused.value.retriable


def test_two_topics_with_one_id_are_refused():
    """A service that gives every topic the same id has no topic ids."""
    one, other = (TopicObservation(name, ID) for name in ("orders", "payments"))
    with pytest.raises(TopicIdMissing, match=f"orders and payments.*{ID}"):
        refuse_shared_ids([one, other])
    absent = [TopicObservation(name, None) for name in ("a", "b")]
    refuse_shared_ids([one, TopicObservation("payments", OTHER_ID), *absent])


def test_a_topic_of_unknown_cleanup_policy_counts_as_compacted():
    """Brokers answer without settings for a topic that does not exist or may not be read."""
    answer = {
        "topic": {
            "kept": {"cleanup.policy": {"value": "delete"}},
            "squeezed": {"cleanup.policy": {"value": "compact,delete"}},
            "hidden": {},
            "unsaid": {"cleanup.policy": {"value": None}},
        }
    }
    cluster = KafkaCluster(KafkaSettings("k", {"bootstrap.servers": "h:9092"}))
    cluster._admin = SimpleNamespace(describe_configs=lambda *_, **__: answer)
    unknown = {"hidden", "unsaid", "absent"}
    assert cluster.compacted([*answer["topic"], "absent"]) == {"squeezed", *unknown}
    assert cluster.retention_ms(["hidden"])["hidden"] is None
