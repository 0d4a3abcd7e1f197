"""Each kind of damage is found and named; nothing else is."""

from dataclasses import replace

from tests.worlds.build import ID, NOW, OTHER_ID, head, plan, planned, position
from tideline.model.observation import Gap
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.plan import Stored, VerifiedRange
from tideline.model.run import RunRecord
from tideline.rules.audit import audit

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


def headed(next_offset, *offsets):
    """A head whose coverage holds offsets of the one partition."""
    covered = Places({IDENTITY: tuple(OffsetRange(*o) for o in offsets)})
    return head(position(next_offset), coverage=covered)


HEAD = headed(200, (0, 200))


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
    twice = replace(rows((0, 200), count=201), copies=((OffsetRange(7, 8), 1),))
    (within,) = audit(HEAD, RUNS, [], [twice]).duplicates
    assert (within.start_offset, within.end_offset, within.offsets) == (7, 8, 1)
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
    both = [run(0, 100, "a"), run(150, 200, "b")]
    holed = audit(headed(200, (0, 100), (150, 200)), both, [], [rows((0, 100), (150, 200))])
    assert spans(holed.gaps) == [(100, 150)]
    doubled = audit(HEAD, [run(0, 120, "a"), run(100, 200, "b")], [], [rows((0, 200))])
    assert spans(doubled.overlaps) == [(100, 120)]


def test_an_admitted_gap_needs_no_row():
    """A transaction's marker was explained when it was read."""
    closed = [run(0, 100, "a", gaps=[(99, 100)])]
    assert audit(headed(100, (0, 100)), closed, [], [rows((0, 99))]).clean


def test_head_and_closed_runs_have_to_say_the_same():
    """A record taken out of the history, or coverage cut out of the head: a gap, no foreign row."""
    lost_record = audit(HEAD, RUNS[1:], [], [rows((0, 200))])
    assert (spans(lost_record.gaps), lost_record.foreign) == ([(0, 100)], ())
    cut = audit(headed(200, (0, 50), (60, 200)), RUNS, [], [rows((0, 200))])
    assert (spans(cut.gaps), cut.foreign, cut.missing) == ([(50, 60)], (), ())
    forgot_all = audit(HEAD, [], [], [rows((0, 200))])
    assert spans(forgot_all.gaps) == [(0, 200)]
    assert forgot_all.gaps[0].topic == "orders"


def test_backfills_may_read_what_is_landed():
    """They overlap with nothing, also where the live lane moved over them."""
    again = replace(run(50, 150, "back"), lane="backfill")
    assert audit(HEAD, [*RUNS, again], [], [rows((0, 200))]).clean
    ahead = replace(run(200, 300, "ahead"), lane="backfill")
    assert audit(headed(300, (0, 300)), [*RUNS, ahead], [], [rows((0, 300))]).clean
    assert audit(headed(200, (0, 300)), [*RUNS, ahead], [], [rows((0, 300))]).clean


def test_an_undone_run_covers_nothing():
    """Its rows are gone; if some were left they would be foreign."""
    undone = replace(run(100, 200, "b"), status="superseded", verified=())
    rewound = headed(100, (0, 100))
    assert audit(rewound, [RUNS[0], undone], [], [rows((0, 100))]).clean
    left = audit(rewound, [RUNS[0], undone], [], [rows((0, 110))])
    assert spans(left.foreign) == [(100, 110)]


def test_a_run_that_finished_another_one_s_plan_is_no_overlap():
    """Both records carry the same plan."""
    both = [run(0, 100, "a"), run(0, 100, "a"), run(100, 200, "b")]
    assert audit(HEAD, both, [], [rows((0, 200))]).clean
