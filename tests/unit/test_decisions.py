"""What each decision does to the head, and to nobody else (R9)."""

from dataclasses import replace

import pytest

from tests.worlds.build import (
    ID,
    NOW,
    OTHER_ID,
    THIRD_ID,
    head,
    observation,
    planned,
    position,
    seen,
    topic,
)
from tideline.model.head import KnownCommit
from tideline.model.incident import Decision, Finding, Incident
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange, PartitionIdentity, one_interval
from tideline.model.places import Places
from tideline.model.verdicts import HALTING, VERDICTS
from tideline.rules.resolution import apply_decision

HEALTHY = position(500, partition=1)


def decided(kind, choice, partition=0, intervals=(), topic="orders", unverified=()):
    finding = Finding(kind, "e", "a", topic, ID, partition, intervals)
    decision = Decision(choice, "ann", NOW, "because")
    return Incident("incident-1", "run-1", NOW, finding, unverified=unverified, decision=decision)


def moved(effect, partition=0):
    return next(p for p in effect.head.positions if p.partition == partition)


def test_a_retention_loss_goes_on_at_the_log_start_and_records_what_is_lost():
    """In the same generation; coverage is not lost, it is here (R12)."""
    covered = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(120, 130),)})
    known = head(position(100), HEALTHY, coverage=covered)
    now = observation(topic(seen(start=150, end=300, epoch=7), seen(partition=1)))
    effect = apply_decision(known, decided("retention_loss", "accept_loss"), now)
    assert moved(effect) == position(150, epoch=7, seen_end=300)
    assert moved(effect, 1) == HEALTHY
    (lost,) = effect.head.accepted_loss.values()
    assert lost == (OffsetRange(100, 120), OffsetRange(130, 150))
    assert "lost: [100, 120), [130, 150): 40 offsets" in effect.outcome


@pytest.mark.parametrize(
    ("choice", "epoch_end", "start", "next_offset"),
    [
        ("accept_loss", 80, 0, 80),
        ("accept_loss", 80, 90, 90),
        ("accept_loss", -1, 10, 10),
        ("restart", 80, 20, 20),
    ],
)
def test_a_truncation_opens_a_new_generation(choice, epoch_end, start, next_offset):
    """At the cut, or at the log start; old offsets may hold other records now."""
    known = head(position(100), HEALTHY)
    now = observation(
        topic(seen(start=start, end=300, epoch=9, epoch_end=epoch_end), seen(partition=1))
    )
    incident = decided("truncation", choice, intervals=one_interval(80, 100))
    effect = apply_decision(known, incident, now)
    assert moved(effect) == position(next_offset, epoch=9, generation=1, seen_end=300)
    assert moved(effect, 1) == HEALTHY


@pytest.mark.parametrize("choice", ["accept_loss", "restart"])
def test_a_recreated_topic_is_followed_from_its_log_start_beside_the_old(choice):
    """All of its partitions, however many it has now; other topics stay."""
    other = position(7, topic="payments", topic_id=THIRD_ID)
    known = head(position(100), HEALTHY, other)
    now = observation(
        topic(
            seen(start=5, end=300, epoch=0),
            seen(partition=1, epoch=0),
            seen(partition=2, epoch=0),
            topic_id=OTHER_ID,
        ),
        topic(seen(), name="payments", topic_id=THIRD_ID),
    )
    effect = apply_decision(known, decided("topic_recreated", choice, partition=None), now)
    assert effect.head.positions == (
        position(5, 0, topic_id=OTHER_ID, epoch=0, seen_end=300),
        position(0, 1, topic_id=OTHER_ID, epoch=0, seen_end=200),
        position(0, 2, topic_id=OTHER_ID, epoch=0, seen_end=200),
        other,
    )


def test_a_cut_of_nothing_but_the_unread_tail_skips_nothing():
    """The position stays. What comes after the cut is of another log all the same."""
    known = head(position(100, seen_end=150))
    now = observation(topic(seen(end=300, epoch=9, epoch_end=120)))
    incident = decided("truncation", "accept_loss", intervals=one_interval(120, 150))
    assert moved(apply_decision(known, incident, now)) == position(
        100, generation=1, epoch=9, seen_end=300
    )


def test_a_retired_partition_is_no_longer_followed():
    """Its position is kept among the retired."""
    known = head(position(100), HEALTHY)
    effect = apply_decision(
        known, decided("partition_missing", "retire"), observation(topic(seen()))
    )
    assert effect.head.positions == (HEALTHY,)
    assert effect.head.retired == (position(100),)


def test_a_retired_topic_takes_all_its_partitions_along():
    """And no other topic's."""
    other = position(7, topic="payments", topic_id=THIRD_ID)
    effect = apply_decision(
        head(position(100), HEALTHY, other),
        decided("topic_missing", "retire", partition=None),
        observation(topic(topic_id=None)),
    )
    assert effect.head.positions == (other,)


def test_another_cluster_s_topics_start_anew():
    """The same id (a mirror of disks) gets a new generation; what is not there ends."""
    gone = position(9, topic="gone", topic_id=OTHER_ID)
    known = head(position(100), gone)
    now = observation(topic(seen(start=3)), topic(topic_id=None, name="gone"), cluster="cluster-2")
    effect = apply_decision(
        known, decided("cluster_changed", "restart", topic=None, partition=None), now
    )
    assert effect.head.cluster_id == "cluster-2"
    assert effect.head.positions == (position(3, generation=1, seen_end=200),)
    assert effect.head.retired == (gone,)
    assert "no longer followed: gone-0" in effect.outcome


def test_an_accepted_gap_is_excused_and_moves_nothing():
    """The rows that are there can be verified then."""
    known = head(position(100), HEALTHY)
    incident = decided(
        "log_hole", "accept_loss", intervals=one_interval(150, 160), unverified=(planned(100, 200),)
    )
    effect = apply_decision(known, incident, observation())
    assert effect.head.positions == known.positions
    assert effect.head.accepted_loss == Places(
        {PartitionIdentity(ID, 0, 0): (OffsetRange(150, 160),)}
    )


def test_an_approved_table_is_taken_as_it_was_shown():
    """What verified coverage it lacks is on record; later commits stay to be looked at (R9)."""
    gone = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(0, 50),)})
    now = observation(table=TableObservation(True, "t2", 14, ledger_id="l", token=9))
    incident = decided("table_changed", "approve", topic=None, partition=None)
    shown = replace(incident.finding, table_version=12)
    kept, lost = KnownCommit(7, 9, "p", "r"), KnownCommit(8, 10, "q", "r")
    known = head(position(100), table_id="t", commits=(kept, lost))
    effect = apply_decision(known, replace(incident, finding=shown), now, gone)
    assert (effect.head.table_id, effect.head.table_version) == ("t2", 12)
    assert effect.head.accepted_loss == gone
    assert effect.head.commits == (kept,)


def test_generations_never_repeat():
    """Not even those of retired or only covered logs."""
    identity = PartitionIdentity(ID, 0, 0)
    covered = Places({PartitionIdentity(ID, 4, 0): (OffsetRange(0, 1),)})
    assert head().next_generation(identity) == 0
    assert head(position(generation=2)).next_generation(identity) == 3
    assert head(retired=(position(generation=2),)).next_generation(identity) == 3
    assert head(coverage=covered).next_generation(identity) == 5


def test_every_class_says_which_decisions_are_valid():
    """And a policy of that name exists for each."""
    for kind in HALTING:
        assert VERDICTS[kind].choices, kind
    assert Finding("table_changed", "e", "a", decidable=False).choices == ("fail",)
