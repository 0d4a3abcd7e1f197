"""Which broker error means what: transient, refused, or gone."""

from types import SimpleNamespace

import pytest

from tideline.kafka_io.client import KafkaCluster
from tideline.kafka_io.responses import (
    partition_observation,
    partitions_by_leader,
    topic_observation,
)
from tideline.kafka_io.settings import KafkaSettings

PLACE = ("orders", 0)


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
        str,
    )


@pytest.mark.parametrize("code", [3, 5, 6, 7, 9, 56, 74, 75, 78, 100])
def test_leadership_metadata_and_storage_errors_pass(code):
    """Leader gone, stale, lagging or busy: another look may find it gone."""
    for found in (judged(code), judged(start=code), judged(end=code), judged(epoch_end=code)):
        assert (found.fault, found.refusal) == (str(code), None)


@pytest.mark.parametrize("code", [29, 35, -1, 999])
def test_missing_rights_and_everything_unknown_do_not_pass(code):
    """Fail closed: neither a loss nor a reason to wait."""
    found = judged(end=code)
    assert (found.fault, found.refusal) == (None, str(code))


def test_a_partition_without_a_leader_has_no_answers():
    """Nobody was asked."""
    metadata = {"partition_index": 0, "error_code": 0}
    found = partition_observation("orders", metadata, {}, {}, {}, {}, str)
    assert found.fault == "no leader"
    topics = [{"name": "orders", "partitions": [{**metadata, "leader_id": -1}]}]
    assert partitions_by_leader({"topics": topics}) == {}


@pytest.mark.parametrize(
    ("before", "after", "topic_id", "fault", "refusal"),
    [
        ((0, "a"), (0, "a"), "a", None, None),
        ((0, "a"), (0, "b"), None, "the topic id changed during the observation", None),
        ((3, "0"), (3, "0"), None, None, None),
        ((0, "a"), (3, "0"), None, "3", None),
        ((3, "0"), (0, "a"), None, "3", None),
        ((5, "a"), (5, "a"), None, "5", None),
        ((29, "0"), (29, "0"), None, None, "29"),
    ],
)
def test_a_topic_is_what_both_looks_agree_on(before, after, topic_id, fault, refusal):
    """One answer of a lagging broker makes no verdict."""
    first, second = (
        {"name": "orders", "error_code": code, "topic_id": found} for code, found in (before, after)
    )
    found = topic_observation(first, second, (), str)
    assert (found.topic_id, found.fault, found.refusal) == (topic_id, fault, refusal)


def test_a_topic_of_unknown_cleanup_policy_counts_as_compacted():
    """Brokers answer without settings for a topic that does not exist or may not be read."""
    answer = {
        "topic": {
            "kept": {"cleanup.policy": {"value": "delete"}},
            "squeezed": {"cleanup.policy": {"value": "compact,delete"}},
            "hidden": {},
        }
    }
    cluster = KafkaCluster(KafkaSettings("k", {"bootstrap.servers": "h:9092"}))
    cluster._admin = SimpleNamespace(describe_configs=lambda *_, **__: answer)
    assert cluster.compacted(answer["topic"]) == {"squeezed", "hidden"}
    assert cluster.retention_ms(["hidden"])["hidden"] is None
