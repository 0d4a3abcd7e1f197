"""What is decoded next, what goes, and whether the three tables agree: pure rules."""

from dataclasses import replace

import pytest

from tests.texts import ONE_TOO_MANY
from tests.worlds.build import ID, NOW, OTHER_ID, head, position
from tideline.decoding.decode_rules import (
    closed,
    covers,
    has_to_decode,
    in_portions,
    reconciled,
    still_decoded,
    to_decode,
    to_remove,
)
from tideline.model.decoding import DecodePlan, DecodeRecord, Decoding, PartPlan, ReaderSchema
from tideline.model.incident import Finding
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.plan import LandedRange

NOTHING = ReaderSchema("value", "avro", "", ())


def coverage(**intervals):
    """`p0=[(0, 10)]` of topic ID, generation 0."""
    return Places(
        {
            PartitionIdentity(ID, 0, int(name[1:])): tuple(OffsetRange(*pair) for pair in pairs)
            for name, pairs in intervals.items()
        }
    )


def test_what_a_decision_settles():
    """Its own coordinates or a part of them, and its own names."""
    ranges = (coordinates(0, 0, 10), coordinates(1, 5, 9))
    finding = Finding("expectation_failed", "", "", ranges=ranges, names=("a", "b"))
    assert covers(finding, ranges, ["a"])
    assert covers(finding, [coordinates(0, 2, 10)], ["b", "a"])
    assert not covers(finding, [coordinates(0, 2, 11)], ["a"])
    assert not covers(finding, [coordinates(2, 2, 9)], ["a"])
    assert not covers(finding, ranges, ["a", "c"])
    assert not covers(replace(finding, ranges=()), ranges, ["a"])


def landed_head(**intervals):
    return head(position(100), position(100, partition=1), coverage=coverage(**intervals))


def spans(ranges):
    return [(r.partition, r.start_offset, r.end_offset) for r in ranges]


def plan_of(*ranges, removes=(), tombstones="keep"):
    return DecodePlan(
        plan_id="d",
        run_id="r",
        frozen_at=NOW,
        raw_table_id="t",
        raw_version=3,
        ranges=tuple(coordinates(*r) for r in ranges),
        removes=tuple(coordinates(*r) for r in removes),
        parts=(),
        tombstones=tombstones,
        event_date=None,
        transform=None,
        max_share=0.05,
        table_uri="/lake/typed",
        quarantine_uri="/lake/quarantine",
    )


def coordinates(partition, start, end):
    return CoordinateRange("orders", ID, 0, partition, start, end)


def rows(partition, *offsets, copies=0):
    """What a table holds of one partition."""
    identity = PartitionIdentity(ID, 0, partition)
    ranges = tuple(OffsetRange(o, o + 1) for o in offsets)
    return {identity: LandedRange(identity, len(offsets) + copies, ranges)}


@pytest.mark.parametrize(
    ("landed", "decoded", "most", "next_", "gone"),
    [
        ({"p0": [(0, 10)]}, {}, 100, [(0, 0, 10)], []),
        ({"p0": [(0, 10)]}, {"p0": [(0, 10)]}, 100, [], []),
        ({"p0": [(0, 10), (20, 30)]}, {"p0": [(5, 10)]}, 100, [(0, 0, 5), (0, 20, 30)], []),
        ({"p0": [(0, 10)], "p1": [(0, 10)]}, {}, 12, [(0, 0, 10), (1, 0, 2)], []),
        ({"p0": [(0, 4)]}, {"p0": [(0, 10)]}, 100, [], [(0, 4, 10)]),
        ({}, {"p1": [(3, 5)]}, 100, [], [(1, 3, 5)]),
        ({"p0": [(0, 4), (6, 9)]}, {"p0": [(2, 7)]}, 100, [(0, 0, 2), (0, 7, 9)], [(0, 4, 6)]),
    ],
)
def test_decoding_follows_what_is_landed(landed, decoded, most, next_, gone):
    """As a set of coordinates: what is missing is decoded, what a rewind has taken away goes."""
    now, done = landed_head(**landed), Decoding(coverage=coverage(**decoded))
    assert spans(to_decode(now, done, most)) == next_
    assert spans(to_remove(now, done)) == gone
    assert has_to_decode(now, done) == bool(next_ or gone)


def test_an_open_plan_is_work():
    now = landed_head(p0=[(0, 10)])
    done = Decoding(coverage=now.coverage, open=DecodeRecord(plan_of((0, 0, 10))))
    assert has_to_decode(now, done)


def test_a_topic_that_was_replaced_is_named_by_its_id():
    """Its name is known no more, and its rows are decoded all the same."""
    of_old = Places({PartitionIdentity(OTHER_ID, 0, 0): (OffsetRange(0, 3),)})
    now = replace(landed_head(), coverage=of_old)
    (planned,) = to_decode(now, Decoding(), 10)
    assert (planned.topic, planned.topic_id) == (OTHER_ID, OTHER_ID)


def test_a_plan_is_repeated_as_far_as_it_is_landed():
    """After a rewind a cleared run decodes what is left of its plan."""
    now = landed_head(p0=[(0, 4), (6, 8)])
    assert spans(now.coverage.cut([coordinates(0, 2, 7), coordinates(1, 0, 5)])) == [
        (0, 2, 4),
        (0, 6, 7),
    ]


@pytest.mark.parametrize(
    ("raw", "typed", "quarantined", "tombstones", "kept", "wrong"),
    [
        (rows(0, 0, 1, 2), rows(0, 0, 2), rows(0, 1), 0, "keep", None),
        (rows(0, 0, 1, 2), rows(0, 0, 2), {}, 1, "drop", None),
        (rows(0, 0, 1, 2), rows(0, 0, 2), {}, 1, "keep", "1 raw rows are in neither"),
        (rows(0, 0, 1), rows(0, 0, 1), rows(0, 1), 0, "keep", "typed and in quarantine"),
        (rows(0, 0), rows(0, 0, 1), {}, 0, "keep", "1 rows have no raw row"),
        (rows(0, 0, 1), rows(0, 0, 1, copies=1), {}, 0, "keep", f"{ONE_TOO_MANY} in the typed"),
        (rows(0, 0, 1), rows(0, 0, 1), {}, 1, "drop", "0 raw rows are in neither"),
    ],
)
def test_every_raw_row_is_in_one_place_once(raw, typed, quarantined, tombstones, kept, wrong):
    ranges, found = reconciled(
        plan_of((0, 0, 5), tombstones=kept), raw, typed, quarantined, tombstones
    )
    assert [bool(found)] == [wrong is not None]
    if wrong is not None:
        assert wrong in "; ".join(found)
    assert ranges[0].rows == sum(r.distinct for r in raw.values())


def test_what_was_removed_must_be_gone():
    plan = plan_of(removes=[(0, 5, 8)])
    assert reconciled(plan, {}, {}, {}, 0) == ((), ())
    assert "where the raw rows are gone" in reconciled(plan, {}, rows(0, 6), {}, 0)[1][0]


def test_closing_moves_the_head_in_coordinates():
    before = Decoding(coverage=coverage(p0=[(0, 10)]), open=DecodeRecord(plan_of()))
    record = DecodeRecord(plan_of((1, 0, 4), removes=[(0, 6, 10)]))
    after = closed(before, record, was_decoded=False)
    assert after.open is None
    assert after.coverage == coverage(p0=[(0, 6)], p1=[(0, 4)])
    removal = DecodeRecord(plan_of(removes=[(0, 0, 6)]))
    assert closed(after, removal, was_decoded=False).coverage == coverage(p1=[(0, 4)])


@pytest.mark.parametrize(
    ("ranges", "redrives", "was_decoded", "is_learned"),
    [
        ([(0, 2, 6)], (), True, False),  # cleared
        ([(0, 20, 24)], (), True, False),  # cleared after a rewind
        ([], (), True, False),  # the same, and nothing is landed again
        ([(0, 8, 12)], (), False, True),
        ([(0, 2, 6)], ("framing",), True, True),
        ([], (), False, True),
    ],
)
def test_a_plan_of_long_ago_brings_no_older_schemas(ranges, redrives, was_decoded, is_learned):
    """Columns that came since would be forgotten, and halt or be named anew."""
    old, new = (PartPlan("value", name, "", "", (), (), (), NOTHING) for name in ("old", "new"))
    before = Decoding(coverage=coverage(p0=[(0, 10)]), parts=(old,))
    plan = replace(plan_of(*ranges), parts=(new,), redrives=redrives)
    after = closed(before, DecodeRecord(plan), was_decoded=was_decoded)
    assert after.parts == ((new,) if is_learned else (old,))


def test_what_is_made_anew_is_decoded_and_landed():
    """Not what waits to be decoded, and not what a rewind took."""
    now = landed_head(p0=[(0, 10)], p1=[(4, 6)])
    done = Decoding(coverage=coverage(p0=[(0, 3), (8, 20)], p1=[(0, 6)]))
    assert spans(still_decoded(now, done)) == [(0, 0, 3), (0, 8, 10), (1, 4, 6)]
    assert {r.topic for r in still_decoded(now, done)} == {"orders"}


def test_portions_are_bounded_by_offsets_and_by_ranges():
    """Nothing is left out, nothing comes twice; an empty list has none."""
    ranges = [coordinates(0, 0, 5), coordinates(1, 0, 1), coordinates(1, 3, 4)]
    assert [spans(p) for p in in_portions(ranges, 3, 9)] == [
        [(0, 0, 3)],
        [(0, 3, 5), (1, 0, 1)],
        [(1, 3, 4)],
    ]
    assert [spans(p) for p in in_portions(ranges, 99, 2)] == [
        [(0, 0, 5), (1, 0, 1)],
        [(1, 3, 4)],
    ]
    assert [spans(p) for p in in_portions(ranges, 99, 3)] == [spans(ranges)]
    assert [*in_portions([], 3, 9)] == []
