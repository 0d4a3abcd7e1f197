"""What each cause looks like, and the verdict; rows as in the faults catalogue."""

from dataclasses import replace

import pytest

from tests.worlds.build import (
    CLUSTER,
    ID,
    OTHER_ID,
    head,
    observation,
    plan,
    planned,
    position,
    seen,
    topic,
)
from tideline.model.head import Head
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange
from tideline.model.places import Places
from tideline.rules.reset_detection import find_resets, find_resets_after_read, with_observed_ends

P = 100


def verdicts(known, seen_now):
    return [f.kind for f in find_resets(known, seen_now, stream="orders", ledger_id="ledger-1")]


def found(known, seen_now):
    findings = find_resets(known, seen_now, stream="orders", ledger_id="ledger-1")
    assert len(findings) == 1
    return findings[0]


@pytest.mark.parametrize(
    ("case", "partition", "verdict"),
    [
        ("nothing new", seen(end=P), []),
        ("more records", seen(end=500), []),
        (
            "clean restart: larger epoch, old epoch reaches the position",
            seen(epoch=5, epoch_end=P),
            [],
        ),
        ("log start at the position exactly", seen(start=P), []),
        ("retention: log start past the position", seen(start=150), ["retention_loss"]),
        ("the whole log expired", seen(start=300, end=300, epoch_end=300), ["retention_loss"]),
        ("tail cut", seen(end=80, epoch=4, epoch_end=80), ["truncation"]),
        (
            "tail cut, refilled past the position",
            seen(end=500, epoch=4, epoch_end=80),
            ["truncation"],
        ),
        (
            "disk wiped and refilled: only the epoch's end tells",
            seen(end=500, epoch=4, epoch_end=0),
            ["truncation"],
        ),
        ("epoch unknown to the leader", seen(end=500, epoch_end=-1), ["truncation"]),
        ("truncation goes before loss", seen(start=150, end=500, epoch_end=50), ["truncation"]),
        ("stale leader", seen(epoch=2, epoch_end=50), ["transient"]),
        (
            "lagging leader: end below the position, epoch intact",
            seen(end=80, epoch_end=P),
            ["transient"],
        ),
        ("leader gone", seen(fault="LeaderNotAvailableError"), ["transient"]),
        ("access taken away", seen(refusal="TopicAuthorizationFailedError"), ["unknown"]),
    ],
)
def test_a_partition_is_judged_in_the_order_of_the_catalogue(case, partition, verdict):
    """Steps 4 to 8: stale, truncated, lost, lagging, fine."""
    assert verdicts(head(position(P)), observation(topic(partition))) == verdict, case


def test_a_loss_names_its_offsets():
    """Lost is everything from the position to the log start, end exclusive."""
    finding = found(head(position(P)), observation(topic(seen(start=150))))
    assert (finding.lost_start, finding.lost_end) == (P, 150)
    assert finding.place == "orders-0"
    for part in ("orders-0", "[100, 150)", "log start 150", "Next:"):
        assert part in str(finding)


def test_a_truncation_names_its_offsets():
    """Lost is everything from the end of the known epoch to the position."""
    finding = found(head(position(P)), observation(topic(seen(end=500, epoch=4, epoch_end=80))))
    assert (finding.lost_start, finding.lost_end) == (80, P)


def test_an_unread_tail_that_was_cut_is_lost_as_well():
    """The high watermark that was seen with the epoch was there once, read or not."""
    known = head(position(P, seen_end=150))
    finding = found(known, observation(topic(seen(end=500, epoch=4, epoch_end=120))))
    assert (finding.kind, finding.lost_start, finding.lost_end) == ("truncation", 120, 150)
    assert verdicts(known, observation(topic(seen(end=500, epoch=4, epoch_end=150)))) == []


def test_without_a_known_epoch_an_end_below_the_position_is_a_truncation():
    """A position that never met an epoch has only the high watermark to hold on to."""
    unasked = replace(seen(end=80), epoch_end_offset=None)
    finding = found(head(position(P, epoch=None)), observation(topic(unasked)))
    assert (finding.kind, finding.lost_start, finding.lost_end) == ("truncation", 80, P)


def test_a_recreated_topic_is_told_by_its_id_alone():
    """Refilled past the position with the same epoch, everything but the id looks healthy."""
    now = observation(topic(seen(end=500, epoch_end=500), topic_id=OTHER_ID))
    finding = found(head(position(P)), now)
    assert finding.kind == "topic_recreated"
    assert ID in str(finding)
    assert OTHER_ID in str(finding)


def test_a_missing_topic_and_a_missing_partition_are_different_findings():
    """The cluster says that there is no such topic, or that it has fewer partitions."""
    assert verdicts(head(position(P)), observation(topic(topic_id=None))) == ["topic_missing"]
    known = head(position(P), position(P, partition=1))
    assert verdicts(known, observation(topic(seen()))) == ["partition_missing"]


def test_another_cluster_ends_the_comparison():
    """Nothing about topics means anything on another cluster."""
    now = observation(topic(topic_id=None), cluster="cluster-2")
    finding = found(head(position(P)), now)
    assert finding.kind == "cluster_changed"
    assert CLUSTER in str(finding)


def test_a_topic_that_did_not_answer_is_never_called_missing():
    """A faulty answer and no answer are passing; missing rights are neither that nor a loss."""
    assert verdicts(head(position(P)), observation(topic(topic_id=None, fault="x"))) == [
        "transient"
    ]
    assert verdicts(head(position(P)), observation()) == ["transient"]
    refused = observation(topic(topic_id=None, refusal="TopicAuthorizationFailedError"))
    assert verdicts(head(position(P)), refused) == ["unknown"]


def test_a_new_partition_of_a_known_topic_must_begin_at_zero():
    """It is adopted at 0; a log start above that is a loss, R10."""
    known = head(position(P), position(0, partition=1))
    now = observation(topic(seen(), seen(start=5, partition=1)))
    assert verdicts(known, now) == ["retention_loss"]


def test_a_new_topic_that_did_not_answer_is_not_passed_over():
    """Freezing without it would skip it silently for this run."""
    now = observation(topic(seen()), topic(topic_id=None, name="new", fault="x"))
    assert verdicts(head(position(P)), now) == ["transient"]


def test_one_bad_partition_is_one_finding():
    """Healthy neighbours are not drawn in."""
    known = head(position(P), position(P, partition=1))
    findings = find_resets(
        known,
        observation(topic(seen(start=150), seen(partition=1))),
        stream="orders",
        ledger_id="ledger-1",
    )
    assert [f.place for f in findings] == ["orders-0"]


@pytest.mark.parametrize(
    ("case", "now", "verdict"),
    [
        ("nothing happened", observation(topic(seen(end=250))), []),
        ("the log start moved", observation(topic(seen(start=250, end=300))), []),
        ("a partition was added", observation(topic(seen(), seen(partition=1, start=9))), []),
        ("re-created", observation(topic(seen(end=250), topic_id=OTHER_ID)), ["topic_recreated"]),
        ("cut below the end", observation(topic(seen(epoch=4, epoch_end=150))), ["truncation"]),
        ("gone", observation(topic(topic_id=None)), ["topic_missing"]),
        ("another cluster", observation(topic(seen()), cluster="other"), ["cluster_changed"]),
        ("no answer", observation(topic(seen(fault="NotLeaderError"))), ["transient"]),
    ],
)
def test_what_happened_while_a_plan_was_read(case, now, verdict):
    """R7: the plan's own bounds count, and what is only gone behind them is no matter."""
    findings = find_resets_after_read(plan(planned(100, 200)).on_cluster, now)
    assert [f.kind for f in findings] == verdict, case


OURS = {"stream": "orders", "ledger_id": "ledger-1"}


@pytest.mark.parametrize(
    ("case", "table_id", "table", "verdict"),
    [
        ("none yet", None, TableObservation(False), []),
        ("created by an attempt that died", None, TableObservation(True, "t", 0, **OURS), []),
        ("ours", "t", TableObservation(True, "t", 7, **OURS), []),
        ("gone", "t", TableObservation(False), ["table_changed"]),
        ("replaced", "t", TableObservation(True, "u", 0, **OURS), ["table_changed"]),
        ("somebody else's", None, TableObservation(True, "t", 3), ["table_changed"]),
        (
            "another stream's",
            None,
            TableObservation(True, "t", 3, "payments", "ledger-1"),
            ["table_changed"],
        ),
        (
            "filled beside an empty ledger",
            None,
            TableObservation(True, "t", 3, "orders", "ledger-0"),
            ["table_changed"],
        ),
    ],
)
def test_the_table_is_watched_too(case, table_id, table, verdict):
    """R13: marks in the table's properties tie it to stream and ledger."""
    known = head(position(P), table_id=table_id)
    assert verdicts(known, observation(topic(seen()), table=table)) == verdict, case


def test_an_empty_head_finds_nothing():
    """The first look of a stream has nothing to compare with."""
    assert verdicts(Head(), observation(topic(seen()))) == []


def test_a_leader_that_does_not_know_the_epoch_of_an_empty_log_has_cut_nothing():
    """It says -1, and nothing was ever seen of the log."""
    known = head(position(0, epoch=1, seen_end=0))
    now = observation(topic(seen(end=0, epoch=1, epoch_end=-1)))
    assert verdicts(known, now) == []


def test_rows_that_a_backfill_landed_beyond_the_head_are_not_lost():
    """R12: only what neither Kafka nor the table has is at stake."""
    landed = Places({position(P).identity: (OffsetRange(P, 130), OffsetRange(140, 180))})
    known = replace(head(position(P)), coverage=landed)
    assert verdicts(known, observation(topic(seen(start=130, end=500)))) == []
    finding = found(known, observation(topic(seen(start=150, end=500))))
    assert finding.intervals == (OffsetRange(130, 140),)


@pytest.mark.parametrize(
    ("case", "partition", "known"),
    [
        ("a further end", seen(end=500), (3, 500)),
        ("a newer epoch, which has cut nothing", seen(end=500, epoch=5, epoch_end=P), (5, 500)),
        ("offsets that have expired", seen(start=150, end=500), (3, 500)),
        ("a cut", seen(end=500, epoch=5, epoch_end=80), (3, None)),
        ("a stale leader", seen(end=500, epoch=2), (3, None)),
        ("a partition that did not answer", replace(seen(), fault="away"), (3, None)),
    ],
)
def test_what_is_seen_is_known_from_then_on(case, partition, known):
    """Unless the log shows a cut; and the observation itself shows none to whoever learned."""
    before = head(position(P, epoch=3))
    after, asked = with_observed_ends(before, observation(topic(partition)))
    assert (after.positions[0].leader_epoch, after.positions[0].seen_end) == known
    assert verdicts(after, asked) == verdicts(before, observation(topic(partition)))
    assert after.stands_at(before)


def test_another_log_teaches_nothing():
    """Another cluster, another topic id, no topic."""
    before = head(position(P, epoch=3))
    for other in (
        observation(topic(seen(end=500)), cluster="cluster-2"),
        observation(topic(seen(end=500), topic_id=OTHER_ID)),
        observation(topic(topic_id=None)),
    ):
        assert with_observed_ends(before, other) == (before, other)
