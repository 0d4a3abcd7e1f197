"""Each kind of damage is found and named; nothing else is."""

from tests.unit.build import ID, NOW, OTHER_ID, head, plan, planned, position
from tideline.core.audit import Stored, audit
from tideline.core.gap_evidence import Gap
from tideline.core.offsets import OffsetRange, PartitionIdentity
from tideline.core.result import RunRecord
from tideline.core.verification import VerifiedRange

IDENTITY = PartitionIdentity(ID, 0, 0)


def run(start, end, plan_id, gaps=(), status="done"):
    ranges = planned(start, end)
    verified = VerifiedRange(
        ranges, end - start, tuple(Gap(OffsetRange(*g), "marker") for g in gaps)
    )
    frozen = plan(ranges, run_id=plan_id, plan_id=plan_id)
    done = (verified,) if status == "done" else ()
    return RunRecord(plan_id, "live", status, "digest", NOW, plan=frozen, verified=done)


def rows(*offsets, identity=IDENTITY, count=None):
    pieces = tuple(OffsetRange(*o) for o in offsets)
    return Stored(identity, count or sum(len(p) for p in pieces), pieces)


RUNS = [run(0, 100, "a"), run(100, 200, "b")]
HEAD = head(position(200))


def spans(flaws):
    return [(f.start_offset, f.end_offset) for f in flaws]


def test_a_healthy_stream_is_clean():
    """Two runs that tile, every offset with a row."""
    assert audit(HEAD, RUNS, [], [rows((0, 100)), rows((100, 200))]).clean


def test_a_deleted_range_is_missing():
    """Verified once, not there now."""
    found = audit(HEAD, RUNS, [], [rows((0, 100)), rows((150, 200))])
    assert spans(found.missing) == [(100, 150)]
    assert not found.clean


def test_a_second_copy_is_a_duplicate_within_a_file_and_across_files():
    """Counted by rows in a file, by overlap between files."""
    within = audit(HEAD, RUNS, [], [rows((0, 200), count=201)])
    assert [f.offsets for f in within.duplicates] == [1]
    across = audit(HEAD, RUNS, [], [rows((0, 200)), rows((50, 60))])
    assert spans(across.duplicates) == [(50, 60)]


def test_rows_that_no_plan_covers_are_foreign():
    """Behind the head, or of another incarnation."""
    other = rows((0, 5), identity=PartitionIdentity(OTHER_ID, 0, 0))
    found = audit(HEAD, RUNS, [], [rows((0, 200)), rows((300, 310)), other])
    assert spans(found.foreign) == [(300, 310), (0, 5)]


def test_rows_of_an_open_plan_are_neither_right_nor_wrong_yet():
    """A crash between commit and advance leaves them."""
    left_open = run(200, 300, "c", status="planned")
    found = audit(HEAD, RUNS, [left_open], [rows((0, 300))])
    assert found.clean
    assert spans(found.unverified) == [(200, 300)]


def test_a_hole_in_the_ledger_is_a_gap_and_a_double_claim_an_overlap():
    """Live plans tile: no offset below the head is in none or in two of them."""
    holed = audit(HEAD, [run(0, 100, "a"), run(150, 200, "b")], [], [rows((0, 100), (150, 200))])
    assert spans(holed.gaps) == [(100, 150)]
    doubled = audit(HEAD, [run(0, 120, "a"), run(100, 200, "b")], [], [rows((0, 200))])
    assert spans(doubled.overlaps) == [(100, 120)]


def test_an_admitted_gap_needs_no_row():
    """A transaction's marker was explained when it was read."""
    assert audit(
        head(position(100)), [run(0, 100, "a", gaps=[(99, 100)])], [], [rows((0, 99))]
    ).clean


def test_a_run_that_finished_another_one_s_plan_is_no_overlap():
    """Both records carry the same plan."""
    both = [run(0, 100, "a"), run(0, 100, "a"), run(100, 200, "b")]
    assert audit(HEAD, both, [], [rows((0, 200))]).clean
