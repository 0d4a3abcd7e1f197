"""What every cluster answers through its port: `KafkaPort`, over each kind of world."""

from datetime import UTC, datetime, timedelta

import pytest

from devstack.process import wait_until
from tests.worlds.clusters import WORLDS
from tideline.errors import ServiceAway
from tideline.model.observation import UNDEFINED_EPOCH_END
from tideline.model.offsets import OffsetRange, TopicPartition

HOUR = timedelta(hours=1)
MOST_MS = timedelta(milliseconds=1)
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@pytest.fixture(params=WORLDS)
def world(request):
    """A cluster without topics of this test."""
    given = [request.getfixturevalue("harness")] if request.param == "kafka" else []
    made = WORLDS[request.param](*given)
    yield made
    made.close()


def at(name, partition=0):
    return TopicPartition(name, partition)


def only(world, epochs=None):
    """Partition 0 of `orders` as one look shows it."""
    (topic,) = world.port.observe([world.topic()], epochs or {}).topics
    return topic.partitions[0]


def bounds(seen):
    return seen.log_start_offset, seen.last_stable_offset, seen.high_watermark


def gaps(world, start, end, isolation_level=COMMITTED, partition=0):
    place = at(world.topic(), partition)
    found = world.port.examine({place: (OffsetRange(start, end),)}, isolation_level)
    assert set(found) == {place}
    return [(g.offsets.start_offset, g.offsets.end_offset, g.reason) for g in found[place]]


def test_a_look_shows_every_topic_once_in_order(world):
    """Names sorted, partitions by number; a missing topic is absent and nothing else."""
    one, two = world.create("b", partitions=2), world.create("a")
    world.send(3, partition=1, suffix="b")
    nowhere = world.topic("nowhere")
    seen = world.port.observe([one, nowhere, two, one], {at(two, 7): 0, at("else"): 0})
    assert [t.topic for t in seen.topics] == sorted([one, two, nowhere])
    assert seen.topic(nowhere).is_absent
    assert [p.partition for p in seen.topic(one).partitions] == [0, 1]
    assert [bounds(p) for p in seen.topic(one).partitions] == [(0, 0, 0), (0, 3, 3)]
    assert seen.topic(one).topic_id != seen.topic(two).topic_id
    assert all(p.epoch_end_offset is None for t in seen.topics for p in t.partitions)
    assert len(seen.cluster_id) == 22
    assert datetime.now(UTC) - HOUR < seen.observed_at <= datetime.now(UTC)


def test_a_look_without_topics_names_the_cluster(world):
    """That is how a changed cluster is told from a missing topic."""
    seen = world.port.observe([], {})
    assert (len(seen.cluster_id), seen.topics) == (22, ())


def test_an_epoch_ends_where_its_records_end(world):
    """Also in an empty log; an epoch from the future is not known."""
    place = at(world.create())
    empty = only(world, {place: 0})
    world.send(10)
    seen = only(world, {place: 0})
    assert (empty.epoch_end_offset, seen.epoch_end_offset) == (0, 10)
    assert seen.leader_epoch == 0
    assert only(world, {place: 99}).epoch_end_offset == UNDEFINED_EPOCH_END


def test_an_empty_log_has_an_epoch(world):
    """Before the first record, and after the last one was deleted."""
    place = at(world.create())
    assert only(world).leader_epoch == 0
    world.send(5)
    world.delete_records(before=5)
    seen = only(world, {place: 0})
    assert bounds(seen) == (5, 5, 5)
    assert (seen.leader_epoch, seen.epoch_end_offset) == (0, 5)


def test_deleted_records_move_the_log_start_only(world):
    """What retention does."""
    world.create()
    world.send(10)
    world.delete_records(before=4)
    assert bounds(only(world)) == (4, 10, 10)


def test_an_open_transaction_holds_the_last_stable_offset(world):
    """Records outside of it do not help; its end does."""
    world.create()
    world.send(2)
    world.transaction(3, commits=None)
    world.send(1)
    assert bounds(only(world)) == (0, 2, 6)


def test_a_topic_that_grows_keeps_its_id(world):
    """The new partition is empty."""
    name = world.create(partitions=1)
    world.send(3)
    before = world.port.observe([name], {}).topics[0]
    world.grow(3)
    after = world.port.observe([name], {}).topics[0]
    assert after.topic_id == before.topic_id
    assert [bounds(p) for p in after.partitions] == [(0, 3, 3), (0, 0, 0), (0, 0, 0)]


def test_a_recreated_topic_is_another_one_from_the_start(world):
    """Deleted, it is absent; created again, its id is new, and its log begins at 0."""
    name = world.create()
    world.send(5)
    first = world.port.observe([name], {}).topics[0]
    world.delete()
    assert world.port.observe([name], {}).topics[0].is_absent
    world.create()
    again = world.port.observe([name], {}).topics[0]
    assert again.topic_id not in (first.topic_id, None)
    assert bounds(again.partitions[0]) == (0, 0, 0)


def test_a_pattern_matches_whole_names(world):
    """In alphabetical order."""
    names = [world.create(suffix) for suffix in ("b", "a", "a-archive")]
    assert world.port.topics_matching(f"{world.topic('')}[ab]") == sorted(names[:2])
    assert world.port.topics_matching(world.topic("nowhere")) == []


def test_reasons_of_missing_offsets(world):
    """0-1 committed, 2 marker, 3-4 aborted, 5 marker, 6-7 plain."""
    world.create(partitions=2)
    world.transaction(2, commits=True)
    world.transaction(2, commits=False)
    world.send(2)
    markers = [(2, 3, "marker"), (5, 6, "marker")]
    assert gaps(world, 0, 8) == [
        (0, 2, "record"),
        markers[0],
        (3, 5, "aborted"),
        markers[1],
        (6, 8, "record"),
    ]
    assert gaps(world, 2, 6, UNCOMMITTED) == [markers[0], (3, 5, "record"), markers[1]]
    world.delete_records(before=4)
    assert gaps(world, 2, 5) == [(2, 4, "expired"), (4, 5, "aborted")]


def test_nothing_missing_has_no_reason(world):
    """One entry per partition that was asked about."""
    place = at(world.create())
    world.send(1)
    assert world.port.examine({place: ()}, COMMITTED) == {place: ()}
    assert world.port.examine({}, COMMITTED) == {}


def test_what_the_leader_does_not_serve_is_no_evidence(world):
    """At the high watermark; behind an open transaction, where committed records are read."""
    world.create()
    world.send(2)
    world.transaction(2, commits=None)
    assert gaps(world, 1, 2) == [(1, 2, "record")]
    assert gaps(world, 1, 4, UNCOMMITTED) == [(1, 4, "record")]
    for start, end, level in ((1, 3, COMMITTED), (3, 5, UNCOMMITTED)):
        with pytest.raises(ServiceAway):
            gaps(world, start, end, level)


@pytest.mark.parametrize("partition", [0, 5])
def test_an_unknown_partition_is_away(world, partition):
    """No look-up answers for what is not there, nor creates it."""
    if partition:
        world.create()
    place = at(world.topic(), partition)
    with pytest.raises(ServiceAway):
        world.port.examine({place: (OffsetRange(0, 1),)}, COMMITTED)
    with pytest.raises(ServiceAway):
        world.port.offsets_at(datetime.now(UTC), [place])
    assert world.port.written_at({place: 0}) == {place: None}
    assert world.port.committed_offsets("g", [place]) == {place: None}
    if not partition:
        assert world.port.observe([place.topic], {}).topics[0].is_absent


def test_an_instant_is_the_first_offset_that_is_not_older(world):
    """By offset, not by time: what comes later may be older. Between milliseconds: rounded up."""
    place, empty = at(world.create(partitions=2)), at(world.topic(), 1)
    now = datetime.now(UTC).replace(microsecond=0)
    world.send_at(now - 3 * HOUR, now - HOUR, now - 2 * HOUR, now)

    def first(instant):
        found = world.port.offsets_at(instant, [place, empty])
        assert found[empty] is None
        return found[place] and (found[place].offset, found[place].timestamp_ms)

    def ms(time):
        return round(time.timestamp() * 1000)

    assert first(now - 4 * HOUR) == (0, ms(now - 3 * HOUR))
    assert first(now - 3 * HOUR) == (0, ms(now - 3 * HOUR))
    assert first(now - 3 * HOUR + timedelta(microseconds=1)) == (1, ms(now - HOUR))
    assert first(now - 2 * HOUR) == (1, ms(now - HOUR))
    assert first(now + HOUR) is None
    world.delete_records(before=2)
    assert first(now - 3 * HOUR) == (2, ms(now - 2 * HOUR))
    assert world.port.offsets_at(now, []) == {}


@pytest.mark.parametrize("commits", [None, False, True])
def test_an_instant_counts_records_of_any_transaction(world, commits):
    """ListOffsets does not ask whether a record is committed."""
    place = at(world.create())
    world.send_at(datetime.now(UTC) - 2 * HOUR)
    world.transaction(1, commits=commits)
    assert world.port.offsets_at(datetime.now(UTC) - HOUR, [place])[place].offset == 1


def test_an_instant_may_be_a_marker_s(world):
    """It has a timestamp, too."""
    place = at(world.create())
    world.transaction(1, commits=True, ago=2 * HOUR)
    found = world.port.offsets_at(datetime.now(UTC) - HOUR, [place])[place]
    assert found.offset == 1


def test_a_record_tells_when_it_was_written(world):
    """Nothing is known outside of the log."""
    place = at(world.create())
    then = datetime.now(UTC) - 2 * HOUR
    world.send_at(then, then + HOUR)
    for offset, time in ((0, then), (1, then + HOUR)):
        assert abs(world.port.written_at({place: offset})[place] - time) <= MOST_MS
    assert world.port.written_at({place: 2}) == {place: None}
    world.delete_records(before=1)
    assert world.port.written_at({place: 0}) == {place: None}
    assert world.port.written_at({}) == {}


def test_a_record_of_a_transaction_tells_when_it_was_written(world):
    """Its marker, and an aborted record, have a time as well."""
    place = at(world.create())
    world.transaction(1, commits=True, ago=2 * HOUR)
    world.transaction(1, commits=False, ago=HOUR)
    now = datetime.now(UTC)
    for offset, ago in ((0, 2 * HOUR), (1, 0 * HOUR), (2, HOUR), (3, 0 * HOUR)):
        assert abs(world.port.written_at({place: offset})[place] - (now - ago)) < HOUR / 60


def test_a_group_is_told_and_asked_next_offsets(world):
    """Also outside of the log; what it is not told about stays."""
    one, two = at(world.create(partitions=2)), at(world.topic(), 1)
    group = world.topic("group")
    assert world.port.committed_offsets(group, [one, two]) == {one: None, two: None}
    world.port.commit_group(group, {one: 7, two: 0})
    world.port.commit_group(group, {one: 5})
    assert world.port.committed_offsets(group, [one, two]) == {one: 5, two: 0}
    assert world.port.committed_offsets(world.topic("other"), [one]) == {one: None}


def test_a_group_cannot_be_told_about_a_partition_that_is_not_there(world):
    """The other offsets are committed."""
    one, nowhere = at(world.create()), at(world.topic("nowhere"))
    group = world.topic("group")
    with pytest.raises(ServiceAway):
        world.port.commit_group(group, {one: 7, nowhere: 1})
    assert world.port.committed_offsets(group, [one, nowhere]) == {one: 7, nowhere: None}


def test_a_group_knows_nothing_of_a_topic_that_was_created_again(world):
    """Offsets of the old one would be wrong."""
    place, group = at(world.create()), world.topic("group")
    world.port.commit_group(group, {place: 7})
    world.delete()
    world.create()
    wait_until(
        lambda: world.port.committed_offsets(group, [place]) == {place: None}, "still there", 20
    )


@pytest.mark.parametrize(
    ("config", "kept_ms", "deletes_ms"),
    [
        ({"retention.ms": "5000"}, 5000, None),
        ({"retention.ms": "-1", "delete.retention.ms": "7000"}, None, None),
        ({"cleanup.policy": "compact", "retention.ms": "5000"}, None, 86_400_000),
        (
            {
                "cleanup.policy": "compact,delete",
                "retention.ms": "5000",
                "delete.retention.ms": "7000",
            },
            5000,
            7000,
        ),
    ],
)
def test_what_a_topic_s_settings_mean(world, config, kept_ms, deletes_ms):
    """How long records are kept; whether some may be missing, and how long tombstones stay."""
    name = world.create(**config)
    assert world.port.retention_ms([name]) == {name: kept_ms}
    assert world.port.compacted([name]) == ({name} if deletes_ms is not None else set())
    kept = {name: deletes_ms} if deletes_ms is not None else {}
    assert world.port.delete_retention_ms([name]) == kept


def test_of_a_missing_topic_no_setting_is_known(world):
    """Nothing proves that its log is complete."""
    name = world.topic("nowhere")
    assert world.port.retention_ms([name]) == {name: None}
    assert world.port.compacted([name]) == {name}
    assert (world.port.retention_ms([]), world.port.compacted([])) == ({}, set())
    assert world.port.delete_retention_ms([name]) == world.port.delete_retention_ms([]) == {}
