"""A plan against what the table holds."""

import pytest

from tests.worlds.build import ID, plan, planned
from tideline.model.observation import Gap
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.plan import LandedRange
from tideline.rules.verification import (
    compare_ranges,
    gap_findings,
    missing_offsets,
    unexplained_by,
)

IDENTITY = PartitionIdentity(ID, 0, 0)


def table(*offsets, rows=None):
    pieces = tuple(OffsetRange(*o) for o in offsets)
    count = sum(len(p) for p in pieces) if rows is None else rows
    return {IDENTITY: LandedRange(IDENTITY, count, pieces)} if pieces else {}


def gap(start, end, reason):
    return Gap(OffsetRange(start, end), reason)


def checked(*offsets, rows=None, gaps="refuse", evidence=(), accepted_loss=()):
    return compare_ranges(
        [planned(100, 200)],
        table(*offsets, rows=rows),
        gaps=gaps,
        evidence={IDENTITY: evidence},
        accepted_loss=Places({IDENTITY: tuple(OffsetRange(*o) for o in accepted_loss)}),
    )


def test_every_offset_with_one_row_holds():
    """The plain topic: count == end - start."""
    good, bad = checked((100, 200))
    assert [(v.rows, v.gaps) for v in good] == [(100, ())]
    assert not bad


def test_refuse_admits_no_gap_whatever_the_log_shows():
    """Not even a marker."""
    good, bad = checked((100, 150), (151, 200), evidence=[gap(150, 151, "marker")])
    assert not good
    assert bad[0].gaps == (gap(150, 151, "refused"),)
    assert "no row for [150, 151) (gaps: refuse admits none)" in str(bad[0])


def test_explain_admits_markers_and_aborted_records_that_were_shown():
    """Each with its reason, for the ledger."""
    shown = [gap(120, 130, "aborted"), gap(130, 131, "marker")]
    good, bad = checked((100, 120), (131, 200), gaps="explain", evidence=shown)
    assert good[0].gaps == tuple(shown)
    assert not bad


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        ([gap(150, 151, "hole")], "log_hole"),
        ([gap(150, 151, "compacted_batch")], "log_hole"),
        ([gap(150, 151, "record")], "unexplained_gap"),
        ([gap(150, 151, "expired")], "unexplained_gap"),
        ([], "unexplained_gap"),
    ],
)
def test_explain_admits_nothing_without_evidence(evidence, kind):
    """A hole in the log, or a record that is there and has no row, or no look at all."""
    good, bad = checked((100, 150), (151, 200), gaps="explain", evidence=evidence)
    assert not good
    (finding,) = gap_findings(bad, plan())
    assert (finding.kind, finding.lost_start, finding.lost_end) == (kind, 150, 151)
    assert finding.place == "orders-0"


def test_an_excused_offset_needs_no_evidence():
    """A decision accepted its loss; its neighbour's it did not."""
    good, bad = checked((100, 150), (151, 200), gaps="explain", accepted_loss=[(150, 151)])
    assert good[0].gaps == (gap(150, 151, "accepted"),)
    _, bad = checked((100, 150), (152, 200), gaps="explain", accepted_loss=[(150, 151)])
    assert [g.offsets for g in bad[0].gaps] == [OffsetRange(151, 152)]


def test_no_rows_at_all_do_not_hold():
    """An empty read of a full range is the silent loss that Spark reports as success."""
    assert checked()[1][0].gaps == (gap(100, 200, "refused"),)


@pytest.mark.parametrize("policy", ["transactional", "compacted"])
def test_a_declared_policy_admits_gaps_by_kind_and_records_them(policy):
    """The stream's owner said so; nobody looks."""
    good, bad = checked((100, 150), gaps=policy)
    assert good[0].gaps == (gap(150, 200, policy),)
    assert not bad


@pytest.mark.parametrize("policy", ["refuse", "explain", "transactional", "compacted"])
def test_no_policy_admits_a_second_copy(policy):
    """More rows than distinct offsets."""
    _, bad = checked((100, 200), rows=101, gaps=policy)
    assert bad[0].duplicates == 1
    assert gap_findings(bad, plan()) == ()


def test_only_what_is_missing_and_unknown_is_looked_at():
    """The log is asked about just those offsets."""
    missing = missing_offsets([planned(100, 200)], table((100, 150), (160, 200)))
    assert missing == {IDENTITY: (OffsetRange(150, 160),)}
    known = {IDENTITY: [gap(150, 155, "marker")]}
    assert unexplained_by(missing, known) == {IDENTITY: (OffsetRange(155, 160),)}
    assert missing_offsets([planned(100, 200)], table((100, 200))) == {}
