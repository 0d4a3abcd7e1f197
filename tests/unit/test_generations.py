"""Where a generation begins, the older one is meant below: in plans, reads, checks and audits."""

import json
from dataclasses import replace
from functools import reduce
from operator import or_

import pytest

from tests.worlds.build import ID, NOW, OTHER_ID, head, observation, plan, planned, position, topic
from tests.worlds.build import seen as shown
from tideline.documents import FORMAT, dump, load
from tideline.errors import StreamBusy, VerificationFailed
from tideline.model.head import Head
from tideline.model.incident import Decision, Finding, Incident
from tideline.model.observation import Gap
from tideline.model.offsets import (
    Beginning,
    Generations,
    OffsetRange,
    PartitionIdentity,
    one_interval,
)
from tideline.model.places import Places
from tideline.model.plan import LandedRange, Mismatch, Stored
from tideline.model.run import Lost, Rewind, TableCommit
from tideline.rules.advance import advance_head
from tideline.rules.audit import audit
from tideline.rules.backfill import AskedOffsets, is_about, plan_backfill
from tideline.rules.planning import plan_ranges
from tideline.rules.reset_detection import find_resets, find_resets_after_read
from tideline.rules.resolution import apply_decision
from tideline.rules.rewound import rewound_head
from tideline.rules.verification import gap_findings, missing_offsets
from tideline.spark.raw_rows import groups_by_offset, one_range_each

OLD, NEW = PartitionIdentity(ID, 0, 0), PartitionIdentity(ID, 1, 0)
CUT = (Beginning(NEW, 80),)
COMMIT = TableCommit("t", 5, 1, 40, 400)
PIECES = (planned(60, 80), planned(80, 100, generation=1))
"""A backfill of [60, 100) after a cut at 80."""


def covered(identity, *offsets):
    return Places({identity: tuple(OffsetRange(*o) for o in offsets)})


def cut_head(next_offset=100, *coverage, **facts):
    """A head whose log was cut at 80."""
    known = reduce(or_, coverage or (covered(OLD, (0, 120)), covered(NEW, (80, 100))))
    return head(position(next_offset, generation=1), coverage=known, beginnings=CUT, **facts)


def decide(known, kind, choice, now, *, interval=(), partition=0, topic="orders"):
    finding = Finding(kind, "e", "a", topic, ID, partition, one_interval(*interval or (0, 0)))
    decision = Decision(choice, "ann", NOW, "because")
    return apply_decision(known, Incident("i", "r", NOW, finding, decision=decision), now).head


def spans(ranges):
    return [(r.generation, r.start_offset, r.end_offset) for r in ranges]


@pytest.mark.parametrize(
    ("begun", "generation", "parts"),
    [
        ({}, 0, [(0, 0)]),
        ({1: 80}, 1, [(0, 0), (1, 80)]),
        ({1: 80, 2: 120}, 2, [(0, 0), (1, 80), (2, 120)]),
        ({1: 80, 2: 50}, 2, [(0, 0), (2, 50)]),
        ({1: 80, 2: 50, 3: 60}, 3, [(0, 0), (2, 50), (3, 60)]),
        ({1: 80, 2: 80}, 2, [(0, 0), (2, 80)]),
        ({2: 80}, 2, [(1, 0), (2, 80)]),
        ({}, 1, [(1, 0)]),
        ({1: 0}, 1, [(1, 0)]),
    ],
)
def test_a_log_consists_of_the_newest_generation_at_each_offset(begun, generation, parts):
    """A deeper cut takes generations out; an unknown beginning counts as 0."""
    known = Generations({replace(OLD, generation=g): offset for g, offset in begun.items()})
    found = known.pieces(replace(OLD, generation=generation))
    assert [(i.generation, r.start_offset) for i, r in found] == parts
    ends = [r.start_offset for _, r in found[1:]]
    assert [r.end_offset for _, r in found][:-1] == ends


@pytest.mark.parametrize(
    ("choice", "epoch_end", "start", "begins"),
    [
        ("accept_loss", 80, 0, 80),
        ("accept_loss", 80, 90, 80),
        ("accept_loss", -1, 10, 0),
        ("restart", 80, 20, 20),
        ("restart", 80, 90, 80),
    ],
)
def test_a_decision_says_where_the_new_generation_begins(choice, epoch_end, start, begins):
    """At the cut; at the log start where all of it is read again; at 0 where the cut is unknown.

    A log start past the cut leaves nothing to read again: the log was cut where it was cut.
    """
    now = observation(topic(shown(start=start, end=300, epoch=9, epoch_end=epoch_end)))
    after = decide(head(position(100)), "truncation", choice, now, interval=(80, 100))
    assert after.beginnings == (Beginning(NEW, begins),)


def test_a_cut_of_unread_records_begins_a_generation_too():
    """What is accepted, resolved or frozen at these offsets was about other records."""
    now = observation(topic(shown(end=300, epoch=9, epoch_end=120)))
    known = head(position(100, seen_end=150), accepted_loss=covered(OLD, (130, 131)))
    after = decide(known, "truncation", "accept_loss", now, interval=(120, 150))
    assert after.beginnings == (Beginning(NEW, 120),)
    assert after.positions == (position(100, generation=1, epoch=9, seen_end=300),)
    assert not after.of_logs(after.accepted_loss)


def test_a_number_that_a_rewind_took_back_is_never_given_again():
    """It may stand in typed tables, and in copies; it holds no offset of the log."""
    now = observation(topic(shown(end=300, epoch=9, epoch_end=80)))
    decided = decide(head(position(100)), "truncation", "accept_loss", now, interval=(80, 100))
    rewind = Rewind("rewind-1", "r", "because", "ann", NOW, "head", ("s",), ())
    back = rewound_head(decided, head(position(60)), rewind, 7)
    assert (back.beginnings, back.given) == ((), (NEW,))
    again = decide(back, "truncation", "accept_loss", now, interval=(80, 100))
    third = replace(NEW, generation=2)
    assert again.positions[0].generation == 2
    assert spans_of(again.generations.pieces(third)) == [(0, 0), (2, 80)]


def spans_of(pieces):
    return [(i.generation, r.start_offset) for i, r in pieces]


@pytest.mark.parametrize("choice", ["accept_loss", "restart"])
def test_what_expired_behind_a_cut_is_on_record(choice):
    """Records that came after the cut, and that nobody read: no gap for the audit to find."""
    now = observation(topic(shown(start=90, end=300, epoch=9, epoch_end=80)))
    after = decide(head(position(100)), "truncation", choice, now, interval=(80, 100))
    assert after.positions[0].next_offset == 90
    assert after.accepted_loss == covered(NEW, (80, 90))


@pytest.mark.parametrize("choice", ["accept_loss", "restart"])
@pytest.mark.parametrize("start", [70, 90])
def test_what_expired_unread_before_a_cut_is_on_record(choice, start):
    """The position was below the cut; a backfill has landed beyond the position."""
    known = replace(head(position(50, seen_end=100)), coverage=covered(OLD, (60, 65)))
    now = observation(topic(shown(start=start, end=300, epoch=9, epoch_end=80)))
    after = decide(known, "truncation", choice, now, interval=(80, 100))
    assert after.positions[0].next_offset == start
    lost = after.of_logs(after.accepted_loss)[after.positions[0].identity]
    assert lost == (OffsetRange(50, 60), OffsetRange(65, start))


def test_another_incarnation_begins_at_the_start_and_the_same_one_at_its_log_start():
    """Generation 0 needs no entry."""
    now = observation(topic(shown(start=5), topic_id=OTHER_ID))
    after = decide(head(position(100)), "topic_recreated", "restart", now, partition=None)
    assert after.beginnings == ()
    now = observation(topic(shown(start=5)), cluster="other")
    after = decide(head(position()), "cluster_changed", "restart", now, topic=None, partition=None)
    assert after.beginnings == (Beginning(NEW, 5),)


def test_a_retired_topic_keeps_its_beginnings():
    """Whoever follows it again goes on in the same log."""
    after = decide(cut_head(), "partition_missing", "retire", observation(topic()))
    assert (after.positions, after.beginnings) == ((), CUT)


def test_a_backfill_is_split_where_a_generation_begins():
    """Below the cut the older generation is meant: its rows are replaced, not copied."""
    now = observation(topic(shown(end=200, epoch=9)))
    found = plan_backfill(cut_head(), now, {("orders", 0): AskedOffsets(60, 100)}, "read_committed")
    assert spans(found.ranges) == [(0, 60, 80), (1, 80, 100)]
    assert found.estimated_records == 40
    assert is_about(cut_head(), found.ranges)


def test_what_expired_below_a_cut_is_not_gone_if_the_older_generation_has_it():
    """It stands in the table; offsets that it lost at the cut do not count."""
    now = observation(topic(shown(start=90, end=200, epoch=9)))
    known = cut_head(100, covered(OLD, (0, 120)), covered(NEW, (90, 100)))
    found = plan_backfill(known, now, {("orders", 0): AskedOffsets(60, 100)}, "read_committed")
    assert [list(map(str, g.intervals)) for g in found.gone] == [["[80, 90)"]]


def test_a_proposal_from_before_a_cut_is_not_frozen():
    """Its ranges are cut at the wrong place."""
    assert not is_about(cut_head(), [planned(60, 100)])
    assert not is_about(cut_head(), [planned(60, 100, generation=1)])
    assert is_about(cut_head(), [planned(60, 80)])


def test_the_live_lane_stops_where_a_generation_begins():
    """A backfill landed past the position, and the log was cut in the middle of that."""
    first = (Beginning(NEW, 120),)
    known = head(position(100, generation=1), coverage=covered(OLD, (110, 140)))
    known = replace(known, beginnings=first)
    now = observation(topic(shown(end=200, epoch=9)))
    live = {"isolation_level": "read_committed"} | dict.fromkeys(
        ("max_records_per_run", "max_records_per_partition"), 1000
    )
    runs = []
    for number in range(3):
        proposal = plan_ranges(known, now, **live)
        assert proposal.offset_lag == (80, 0, 0)[number]
        runs.append(spans(proposal.ranges))
        known = advance_head(known, plan(*proposal.ranges), COMMIT)
    assert runs == [[(0, 100, 110)], [(1, 120, 200)], []]
    assert known.positions[0].next_offset == 200


def test_expired_offsets_below_a_cut_are_not_lost_if_an_older_generation_has_them():
    """Rows in the table are never reported lost."""
    known = replace(
        head(position(100, generation=1), coverage=covered(OLD, (100, 120))),
        beginnings=(Beginning(NEW, 120),),
    )
    now = observation(topic(shown(start=130, end=200)))
    (lost,) = find_resets(known, now, stream="orders", ledger_id="l")
    assert lost.intervals == (OffsetRange(120, 130),)


def test_both_parts_of_a_backfill_move_nothing_and_count():
    """Coverage in both generations."""
    after = advance_head(cut_head(100, covered(NEW)), plan(*PIECES, lane="backfill"), COMMIT)
    assert after.coverage == covered(OLD, (60, 80)) | covered(NEW, (80, 100))
    assert after.positions == cut_head().positions


def test_a_live_plan_from_before_the_cut_is_refused():
    """Its generation ended in the middle of it."""
    with pytest.raises(StreamBusy, match="No position has moved"):
        advance_head(cut_head(60), plan(planned(60, 100)), COMMIT)


def test_after_the_read_a_partition_is_asked_about_once():
    """Up to the end of its last part: one finding, and not one for each generation."""
    now = observation(topic(shown(end=70, epoch=9, epoch_end=70)))
    (found,) = find_resets_after_read(plan(*reversed(PIECES)).on_cluster, now)
    assert found.intervals == (OffsetRange(70, 100),)


def test_missing_offsets_of_both_parts_are_one_finding_and_one_decision():
    """An incident stands for a partition; what it accepts goes to each generation."""
    landed = {
        OLD: LandedRange(OLD, 10, (OffsetRange(60, 70),)),
        NEW: LandedRange(NEW, 10, (OffsetRange(90, 100),)),
    }
    missing = missing_offsets(PIECES, landed)
    assert missing == {OLD: (OffsetRange(70, 80),), NEW: (OffsetRange(80, 90),)}
    mismatches = [
        Mismatch(r, 10, tuple(Gap(i, "hole") for i in missing[r.identity]), 0) for r in PIECES
    ]
    (found,) = gap_findings(mismatches, plan(*PIECES, lane="backfill"))
    assert found.intervals == (OffsetRange(70, 90),)
    assert "each of the 40 offsets of [60, 100)" in found.expected
    decision = Decision("accept_loss", "ann", NOW, "because")
    incident = Incident("i", "r", NOW, found, unverified=PIECES, decision=decision)
    after = apply_decision(cut_head(), incident, observation()).head
    assert after.accepted_loss == covered(OLD, (70, 80)) | covered(NEW, (80, 90))


def test_spark_reads_both_parts_as_one_range():
    """It can be told of a partition once."""
    other = planned(5, 9, partition=1)
    found = one_range_each([PIECES[1], other, PIECES[0]])
    assert [(r.partition, r.start_offset, r.end_offset) for r in found] == [(0, 60, 100), (1, 5, 9)]


@pytest.mark.parametrize("gap", [planned(50, 55), planned(70, 90), planned(99, 120)])
def test_ranges_of_a_partition_that_do_not_meet_are_not_read(gap):
    """Spark would read what nobody planned, or the same twice."""
    with pytest.raises(VerificationFailed, match="are not adjacent"):
        one_range_each([*PIECES, gap])


def test_rows_get_their_generation_by_offset():
    """Where a partition has one range, its generation is that of all its rows."""
    third = planned(100, 120, generation=2)
    other = planned(5, 9, partition=1, generation=4)
    found = groups_by_offset([third, PIECES[1], other, PIECES[0]])
    assert found == [
        {"orders/0": PIECES[0], "orders/1": other},
        {"orders/0": PIECES[1]},
        {"orders/0": third},
    ]


def test_a_record_in_two_generations_is_a_duplicate():
    """Below the cut; above it both have rows, of different records."""
    clean = [rows(OLD, (0, 120)), rows(NEW, (80, 100))]
    assert audit(cut_head(), [], [], clean).duplicates == ()
    found = audit(cut_head(), [], [], [*clean, rows(NEW, (70, 80))])
    assert spans(found.duplicates) == [(1, 70, 80)]
    assert found.duplicates[0].offsets == 10


def test_a_row_below_its_generation_is_foreign_if_it_is_the_only_one():
    """It stands under another generation than the one that is meant there."""
    known = cut_head(100, covered(OLD, (0, 60)), covered(NEW, (70, 100)))
    found = audit(known, [], [], [rows(OLD, (0, 60)), rows(NEW, (70, 100))])
    assert (spans(found.foreign), found.duplicates) == ([(1, 70, 80)], ())


def test_only_the_generation_that_is_meant_there_has_the_same_record():
    """A cut took the rows of generation 1 out of the log: generation 2 has others there."""
    third = PartitionIdentity(ID, 2, 0)
    known = replace(cut_head(), beginnings=(*CUT, Beginning(third, 90)))
    stored = [rows(OLD, (0, 120)), rows(NEW, (80, 100)), rows(third, (70, 95))]
    found = audit(known, [], [], stored)
    assert spans(found.duplicates) == [(2, 70, 90)]
    found = audit(known, [], [], [rows(OLD, (80, 100)), rows(third, (85, 95))])
    assert found.duplicates == ()


def test_a_rewind_goes_back_over_what_expired_in_either_generation():
    """It restores the beginnings, and never asks about a loss that was accepted before."""
    then = cut_head(70, covered(OLD, (0, 70)))
    today = replace(
        cut_head(130, covered(OLD, (0, 80)), covered(NEW, (80, 100), (110, 130))),
        accepted_loss=covered(NEW, (100, 110)),
        beginnings=(*CUT, Beginning(PartitionIdentity(OTHER_ID, 1, 0), 5)),
    )
    gone = (planned(70, 80), planned(80, 100, generation=1), planned(110, 130, generation=1))
    lost = tuple(Lost(g.as_read, 10, True, "expired") for g in gone)
    rewind = Rewind("rewind-1", "a", "wrong", "ann", NOW, "key", lost=lost)
    after = rewound_head(today, then, rewind, 10)
    assert after.positions[0].next_offset == 130
    assert after.accepted_loss == covered(OLD, (70, 80)) | covered(NEW, (80, 130))
    assert after.beginnings == CUT


def test_a_ledger_of_format_2_knows_no_beginnings():
    """It is read as it was, and written with the new number."""
    old = load(Head, '{"format":2,"start":"earliest"}', "head")
    assert (old.beginnings, old.start) == ((), "earliest")
    assert json.loads(dump(old))["format"] == FORMAT >= 3


def rows(identity, *offsets):
    pieces = tuple(OffsetRange(*o) for o in offsets)
    return Stored(identity, sum(map(len, pieces)), pieces)
