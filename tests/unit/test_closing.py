"""A closed run is not opened again; an approved change of the table takes verifications back."""

from dataclasses import replace

import pytest

from tests.worlds.build import ID, NOW, plan, planned
from tideline.errors import StreamBusy
from tideline.landing.closing import refuse_closed
from tideline.ledger.state import Control, LedgerState
from tideline.model.plan import VerifiedRange
from tideline.model.run import RunRecord, TableCommit

PLAN = plan(planned(0, 100))
OPEN = RunRecord(
    "run-1",
    "live",
    "planned",
    "digest",
    NOW,
    plan=PLAN,
    table_commit=TableCommit(ID, 3, 7, 100, 1000),
    verified=(VerifiedRange(PLAN.ranges[0], 100),),
)
STATE = LedgerState(5, Control("ledger", "orders"), runs={"run-1": OPEN})


def test_an_attempt_that_slept_while_its_run_was_closed_changes_nothing():
    """Closed runs are in the history, not in the state."""
    refuse_closed(STATE, OPEN)
    with pytest.raises(StreamBusy, match="run-1 was closed meanwhile"):
        refuse_closed(replace(STATE, runs={}), OPEN)


def test_the_replay_of_a_closed_run_is_let_through():
    """It was closed before it began."""
    refuse_closed(replace(STATE, runs={}), replace(OPEN, status="done"))


def test_an_approved_change_of_the_table_takes_verifications_back():
    """Of open runs: what closed ones verified is in the coverage, and the decision counts it."""
    after = STATE.without_verifications().runs["run-1"]
    assert (after.table_commit, after.verified) == (None, ())
    assert after.plan == OPEN.plan
