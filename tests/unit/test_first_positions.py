"""Where a partition begins that the head does not know (R10)."""

import pytest

from tests.worlds.build import OTHER_ID, head, observation, position, seen, topic
from tideline.errors import BadInput
from tideline.model.head import Head
from tideline.model.observation import PartitionObservation
from tideline.rules.positions import adopt_new_partitions


def adopted(known, now, start="earliest", looked_up=None, isolation="read_committed"):
    after = adopt_new_partitions(
        known, now, start=start, isolation_level=isolation, looked_up=looked_up
    )
    return {p.topic_partition: p.next_offset for p in after.positions}


NOW = observation(topic(seen(start=7, end=50, stable=40), seen(partition=1, start=3, end=3)))


def test_earliest_is_the_log_start_and_latest_the_end_of_the_isolation_level():
    """`latest` under read_committed must not step over an open transaction."""
    assert adopted(Head(), NOW) == {("orders", 0): 7, ("orders", 1): 3}
    assert adopted(Head(), NOW, start="latest")[("orders", 0)] == 40
    uncommitted = adopted(Head(), NOW, start="latest", isolation="read_uncommitted")
    assert uncommitted[("orders", 0)] == 50


def test_a_timestamp_that_no_record_reaches_means_the_end():
    """-1 of ListOffsets is not an offset."""
    places = {("orders", 0): 20, ("orders", 1): None}
    found = adopted(Head(), NOW, start="timestamp 2026", looked_up=places)
    assert found == {("orders", 0): 20, ("orders", 1): 3}


def test_a_group_without_an_offset_is_refused_unless_the_partition_is_empty():
    """Choosing an end silently would skip or repeat records."""
    places = {("orders", 0): 20, ("orders", 1): None}
    assert adopted(Head(), NOW, start="group g", looked_up=places)[("orders", 1)] == 3
    with pytest.raises(BadInput, match="orders-0"):
        adopted(Head(), NOW, start="group g", looked_up={("orders", 0): None, ("orders", 1): 3})


def test_an_offset_past_the_end_is_refused():
    """It would wait for records that were never asked for."""
    with pytest.raises(BadInput, match="past its end 50"):
        adopted(Head(), NOW, start="offsets", looked_up={("orders", 0): 51, ("orders", 1): 3})


def test_an_offset_behind_an_open_transaction_is_a_start():
    """Nothing is read there yet, and nothing is skipped."""
    places = {("orders", 0): 45, ("orders", 1): 3}
    assert adopted(Head(), NOW, start="timestamp 2026", looked_up=places)[("orders", 0)] == 45


def test_first_positions_are_resolved_together():
    """Adopted later, a partition that was silent for a moment would begin somewhere else."""
    silent = observation(topic(seen(start=7), PartitionObservation(1, fault="no leader")))
    assert (
        adopt_new_partitions(Head(), silent, start="latest", isolation_level="read_committed")
        == Head()
    )


def test_nothing_is_adopted_from_another_cluster():
    """Its topics would be missed as soon as the connection points back."""
    elsewhere = observation(topic(seen(), name="new", topic_id=OTHER_ID), cluster="cluster-2")
    assert adopted(head(position(10)), elsewhere) == {("orders", 0): 10}


def test_an_offset_before_the_log_start_is_kept_for_detection():
    """What the old consumer had not read is a loss, not a detail."""
    places = {("orders", 0): 2, ("orders", 1): 3}
    assert adopted(Head(), NOW, start="group g", looked_up=places)[("orders", 0)] == 2


def test_a_topic_that_appears_later_starts_at_its_log_start():
    """Whatever `start` says: it was resolved once."""
    now = observation(topic(seen(start=7)), topic(seen(start=4), name="new", topic_id=OTHER_ID))
    assert adopted(head(position(10)), now, start="latest") == {("orders", 0): 10, ("new", 0): 4}


def test_a_partition_that_is_added_later_starts_at_zero():
    """If its log does not begin there, records were lost before anybody looked."""
    now = observation(topic(seen(), seen(partition=1, start=9)))
    assert adopted(head(position(10)), now)[("orders", 1)] == 0


def test_a_recreated_topic_is_left_to_detection():
    """Known positions stay; nothing of the new incarnation is adopted by itself."""
    now = observation(topic(seen(), seen(partition=1), topic_id=OTHER_ID))
    assert adopted(head(position(10)), now) == {("orders", 0): 10}


def test_positions_are_stored_even_when_nothing_is_there_to_read():
    """An empty partition's position is its end, with the cluster and the start."""
    after = adopt_new_partitions(
        Head(),
        observation(topic(seen(end=0))),
        start="latest",
        isolation_level="read_committed",
    )
    assert (after.cluster_id, after.start) == ("cluster-1", "latest")
    assert after.positions[0].next_offset == 0
