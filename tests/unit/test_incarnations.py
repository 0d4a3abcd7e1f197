"""Places have an order within one log; incarnations have that in which they were followed."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.worlds.build import ID, OTHER_ID
from tideline.decoding.decode_rules import to_decode
from tideline.folding.fold_rules import are_reordered, newest_logs
from tideline.ledger.state import Control, LedgerState
from tideline.model.current import Floor, Folding, is_below
from tideline.model.decoding import Decoding
from tideline.model.head import Head, KnownCommit, PartitionPosition
from tideline.model.offsets import (
    CoordinateRange,
    Incarnations,
    OffsetRange,
    PartitionIdentity,
    PlaceInLog,
    ReadRange,
    partition_counts,
)
from tideline.model.places import Places
from tideline.rules.older_ledger import having_followed, landed_logs

NEWER = str(UUID(int=1))
"""Sorts before the others: an order by ids would be the wrong one."""


def log(topic_id, partition=0, generation=0):
    return PartitionIdentity(topic_id, generation, partition)


def covered(*logs):
    return Places({i: (OffsetRange(0, 5),) for i in logs})


def following(head, topic_id, *generations):
    """A head that follows a topic id, as the ledger stores it."""
    positions = [PartitionPosition("t", topic_id, g, n, 5) for n, g in enumerate(generations)]
    state = LedgerState(0, Control("l", "s"), head)
    return state.with_head(replace(head, positions=tuple(positions))).head


def test_places_of_two_logs_have_no_order():
    """Neither in two partitions nor in two topic ids; the generations of one partition have one."""
    here = log(ID).at(5)
    assert here.is_before(log(ID, generation=1).at(0))
    assert not here.is_before(log(ID).at(5))
    for other in (log(ID, 1).at(9), log(OTHER_ID).at(9)):
        with pytest.raises(ValueError, match="no order between"):
            here.is_before(other)
    with pytest.raises(TypeError):
        assert Floor(ID, 0, 0, 1) < Floor(ID, 0, 1, 2)


def test_what_is_followed_is_noted_in_its_order():
    """Whatever the ids are; one that goes on being followed is noted once."""
    head = following(following(following(Head(), OTHER_ID, 0), ID, 0, 0), ID, 0, 0, 0)
    head = following(head, NEWER, 0)
    order = head.order_of_incarnations
    assert order.ids == (OTHER_ID, ID, NEWER)
    assert [order.of(log(i)) for i in (NEWER, OTHER_ID, ID)] == [2, 0, 1]
    assert order.of(log(str(UUID(int=9)))) is None


def test_a_topic_id_that_comes_back_is_a_new_incarnation():
    """A cluster is swapped and swapped back twice: generations tell the stays apart."""
    head = following(following(Head(), OTHER_ID, 0, 0), ID, 0)
    head = following(following(following(head, OTHER_ID, 1, 3), ID, 1), OTHER_ID, 2, 4, 0)
    order = head.order_of_incarnations
    assert order.ids == (OTHER_ID, ID, OTHER_ID, ID, OTHER_ID)
    found = {n: [order.of(log(OTHER_ID, n, g)) for g in range(5)] for n in range(3)}
    assert found == {0: [0, 2, 4, 4, 4], 1: [0, 0, 0, 2, 4], 2: [4, 4, 4, 4, 4]}
    assert [order.of(log(ID, 0, g)) for g in range(3)] == [1, 3, 3]
    assert order.of(log(OTHER_ID, 7)) == 4  # a partition that came with the last stay


def test_conditions_say_the_same_as_the_function():
    head = following(following(Head(), OTHER_ID, 0, 0), ID, 0)
    order = following(head, OTHER_ID, 1, 3).order_of_incarnations
    for identity in (log(i, n, g) for i in (ID, OTHER_ID) for n in range(4) for g in range(5)):
        held = [
            era
            for topic_id, partition, generation, era in order.conditions
            if topic_id == identity.topic_id
            and partition in (None, identity.partition)
            and identity.generation >= generation
        ]
        assert held[-1] == order.of(identity), identity


def test_only_the_own_partition_and_older_incarnations_are_below():
    order = Incarnations((OTHER_ID, ID, NEWER))
    floors = [log(ID, 0, 1).at(5)]
    below = (log(ID, 0, 1).at(4), log(ID).at(99), log(OTHER_ID, 7).at(99))
    beside = (log(ID, 0, 1).at(5), log(ID, 1).at(0), log(NEWER).at(0))
    assert [is_below(place, floors, order) for place in (*below, *beside)] == [True] * 3 + [
        False
    ] * 3
    assert not is_below(below[0], [], order)


def test_older_incarnations_are_decoded_first():
    """A backlog of two of them, whose ids sort the other way round."""
    head = following(following(Head(), ID, 0), NEWER, 0)
    head = replace(head, coverage=covered(log(ID), log(NEWER)))
    assert [(r.topic_id, r.end_offset) for r in to_decode(head, Decoding(), 7)] == [
        (ID, 5),
        (NEWER, 2),
    ]


def test_what_was_folded_in_a_wrong_order_is_seen():
    """A ledger of before has guessed; a new incarnation and a right guess are no reason."""
    folding = Folding(coverage=covered(log(ID), log(OTHER_ID)), eras=(ID, OTHER_ID))
    assert not are_reordered(folding, Incarnations((ID, OTHER_ID, NEWER)))
    assert not are_reordered(folding, Incarnations((NEWER, ID, OTHER_ID)))
    assert are_reordered(folding, Incarnations((OTHER_ID, ID)))
    assert are_reordered(replace(folding, eras=(ID,)), Incarnations((ID, OTHER_ID))) is False
    apart = replace(folding, coverage=covered(log(ID), log(ID, generation=1), log(OTHER_ID)))
    came_back = Incarnations((ID, OTHER_ID)).following(ID, [log(ID, generation=1)])
    assert are_reordered(apart, came_back)
    assert newest_logs(apart.coverage, came_back) == (log(ID, generation=1),)


def landing(version, *logs, commit_id="p"):
    ranges = [
        ReadRange(i.topic_id, i.topic_id, i.generation, i.partition, 0, 5, None) for i in logs
    ]
    return KnownCommit(version, version, commit_id, "run", tuple(ranges))


def test_an_upgrade_learns_the_order_from_the_tables_log():
    """The first landing of each counts, and no removal; what the head follows stays the newest."""
    commits = [landing(7, log(ID)), landing(3, log(ID)), landing(2, log(OTHER_ID))]
    commits.append(landing(1, log(ID), commit_id="rewind-1.x"))
    order = [i.topic_id for i in landed_logs(commits)]
    assert order == [OTHER_ID, ID]
    head = following(Head(), NEWER, 0).having_learned("t", order)
    assert head.order_of_incarnations.ids == (OTHER_ID, ID, NEWER)
    assert following(Head(), ID, 0).having_learned("t", order).order_of_incarnations.ids == (
        OTHER_ID,
        ID,
    )


def test_a_ledger_that_was_put_back_learns_what_was_followed_since():
    """Its head follows the first of three; and a topic id that came back is known as such."""
    head = replace(following(Head(), ID, 0), coverage=covered(log(ID)))
    commits = [landing(4, log(ID, generation=1)), landing(3, log(OTHER_ID)), landing(2, log(ID))]
    after = having_followed(head, landed_logs(commits), dict.fromkeys((ID, OTHER_ID), "t"))
    assert after.order_of_incarnations.ids == (ID, OTHER_ID, ID)
    assert after.order_of_incarnations.of(log(ID, generation=1)) == 2


def test_partitions_count_whether_they_have_records_or_not():
    head = following(Head(), ID, 0, 0, 0)
    assert partition_counts(head.identities) == {ID: 3}
    assert partition_counts([log(ID), log(ID, generation=1)]) == {ID: 1}


def test_a_range_starts_at_a_place():
    planned = CoordinateRange("t", ID, 1, 2, 3, 9)
    assert planned.identity.at(planned.start_offset) == PlaceInLog(ID, 1, 2, 3)
