"""An accepted gap keeps the rows of its range that verify, as long as its log is there (R6)."""

from types import SimpleNamespace

import pytest

from tests.worlds.build import ID, NOW, head, plan, planned, position
from tideline.landing.proof import CountedRanges
from tideline.ledger.state import Control, LedgerState
from tideline.model.incident import Decision, Finding, Incident
from tideline.model.observation import Gap, TableObservation
from tideline.model.offsets import OffsetRange, PartitionIdentity, one_interval
from tideline.model.plan import Mismatch, VerifiedRange
from tideline.model.run import RunRecord, TableCommit
from tideline.pipeline import decisions
from tideline.pipeline.decisions import decide_unverified_rows
from tideline.rules.verification import verified_again

RANGE = planned(100, 200)
IDENTITY = PartitionIdentity(ID, 0, 0)
COMMIT = TableCommit("table-1", 5, 1, 90, 900)
REMOVED = TableCommit("table-1", 7, 2, 0, 0)
GAP = Incident(
    "incident-1",
    "run-1",
    NOW,
    Finding("log_hole", "e", "a", "orders", ID, 0, one_interval(150, 160)),
    plan_id="plan-1",
    plan_run_id="run-1",
    unverified=(RANGE,),
    decision=Decision("accept_loss", "ann", NOW),
)
WHOLE = CountedRanges(6, (VerifiedRange(RANGE, 90, (Gap(OffsetRange(150, 160), "accepted"),)),))
MORE_IS_MISSING = CountedRanges(
    6,
    (),
    (
        Mismatch(
            RANGE,
            80,
            (Gap(OffsetRange(170, 180), "record"),),
            0,
            (Gap(OffsetRange(150, 160), "accepted"),),
        ),
    ),
)
TWICE = CountedRanges(6, (), (Mismatch(RANGE, 101, (), 1),))


@pytest.fixture
def decide(monkeypatch):
    """Decides about rows; takes what the table holds and what is found about the log."""

    def decided(counted, changes=()):
        monkeypatch.setattr(decisions, "find_plan_commit", lambda run, record, head: COMMIT)
        monkeypatch.setattr(decisions, "count_plan_rows", lambda *_: counted)
        monkeypatch.setattr(decisions, "changes_after_read", lambda run, asked: changes)
        monkeypatch.setattr(decisions, "_remove_unverified", lambda *_: REMOVED)
        record = RunRecord("run-1", "live", "superseded", "digest", NOW, plan=plan(RANGE))
        run = SimpleNamespace(
            run_id="run-2",
            ledger=SimpleNamespace(find_run=lambda run_id, state: record),
            table=SimpleNamespace(observe=lambda: TableObservation(True, version=6)),
        )
        known = head(position(next_offset=100))
        state = LedgerState(1, Control("l", "orders"), head=known)
        return decide_unverified_rows(run, state, known, GAP, {})

    return decided


def covered(rows):
    return [str(r) for _, r in rows.head.coverage.pieces]


def test_rows_that_verify_are_moved_over(decide):
    """Nothing that is in the table is read again."""
    rows = decide(WHOLE)
    assert covered(rows) == ["[100, 200)"]
    assert rows.head.positions[0].next_offset == 200
    assert rows.amended.verified == WHOLE.verified


def test_the_parts_that_verify_are_covered_and_only_the_rest_is_planned_anew(decide):
    """Somebody has deleted rows; if the log has expired by now, no plan comes back for more."""
    rows = decide(MORE_IS_MISSING)
    assert covered(rows) == ["[100, 170)", "[180, 200)"]
    assert rows.head.positions[0].next_offset == 100, "planning moves over coverage"
    assert [(str(v.planned.offsets), v.rows) for v in rows.amended.verified] == [
        ("[100, 170)", 60),
        ("[180, 200)", 20),
    ]
    assert rows.removed_in_version is None


def test_a_range_that_verifies_as_a_whole_takes_the_place_of_its_parts():
    """Of two gaps that one run accepts, the first leaves parts; an audit would see overlaps."""
    parts = [VerifiedRange(planned(*ends), 1) for ends in ((100, 170), (180, 200), (200, 210))]
    assert verified_again(parts, WHOLE.verified) == (parts[2], *WHOLE.verified)
    assert verified_again(parts[:1], parts[1:]) == tuple(parts)
    assert verified_again(WHOLE.verified, WHOLE.verified) == WHOLE.verified


def test_a_range_with_a_second_copy_is_planned_anew(decide):
    """What is landed then replaces it."""
    rows = decide(TWICE)
    assert (covered(rows), rows.amended, rows.removed_in_version) == ([], None, None)


@pytest.mark.parametrize("counted", [WHOLE, MORE_IS_MISSING])
def test_rows_whose_log_has_changed_do_not_stay(decide, counted):
    """Nothing will ever verify them."""
    changes = (Finding("topic_recreated", "e", "a", "orders", ID),)
    rows = decide(counted, changes)
    assert (covered(rows), rows.amended, rows.removed_in_version) == ([], None, 7)
