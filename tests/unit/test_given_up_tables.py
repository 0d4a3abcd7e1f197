"""A table that was approved as gone or replaced: what plans know of it counts no more."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.worlds.build import NOW, head, plan, planned
from tideline.landing.proof import find_plan_commit, foreign_changes
from tideline.ledger.state import Control, LedgerState
from tideline.model.incident import Finding
from tideline.model.observation import TableObservation
from tideline.model.places import NOWHERE
from tideline.model.run import RunRecord, TableCommit
from tideline.rules.resolution import take_table

GONE = TableObservation(False)
NEW = TableObservation(True, "t2", 1, stream="orders", ledger_id="l", token=9)
PLAN = replace(plan(planned(0, 100)), table_id="t", table_version=5)
FINDING = Finding("table_changed", "table t", "no table at the address")
COMMIT = TableCommit("t2", 1, 9, 100, 1000)


class Table:
    """What a run sees of it; its only commit is the first one."""

    def __init__(self, now, commit=None):
        self.now, self.commit = now, commit

    def observe(self, since=None, at=None):
        return self.now

    def find_commit(self, plan_id, after_version, at=None):
        is_read = self.commit is not None and self.commit.version > (after_version or 0)
        return self.commit if is_read else None


def run(now, commit=None):
    stream = SimpleNamespace(stream="orders")
    return SimpleNamespace(table=Table(now, commit), stream=stream)


@pytest.mark.parametrize("known", ["t", None], ids=["landed", "nothing landed"])
@pytest.mark.parametrize("now", [GONE, NEW], ids=["gone", "created again"])
def test_an_approved_loss_of_the_table_is_no_finding_of_an_older_plan(known, now):
    """Open or closed: a plan is frozen, so it knows that table for good."""
    before = LedgerState(5, Control("l", "orders", token=9), head=head(table_id=known))
    assert foreign_changes(run(GONE), before, PLAN)[1]
    after = take_table(before.head, GONE, FINDING, NOWHERE, PLAN.table_id).head
    assert after.given_up == ("t",)
    assert foreign_changes(run(now), replace(before, head=after), PLAN)[1] == ()


def test_a_table_that_nobody_approved_is_a_finding_still():
    """An older approval was about another table."""
    state = LedgerState(5, Control("l", "orders"), head=head(given_up=("t0",)))
    assert foreign_changes(run(GONE), state, PLAN)[1]


def test_a_table_that_is_back_and_approved_is_known_again():
    """It was replaced, and the replacement is gone, too."""
    known, back = head(table_id="t2", given_up=("t",)), replace(NEW, table_id="t")
    taken = take_table(known, back, FINDING, NOWHERE)
    assert (taken.head.table_id, taken.head.given_up) == ("t", ("t2",))


def test_a_backfills_approval_stays_beside_a_live_run_that_advances():
    """Of two heads that are merged, neither forgets a table that was given up."""
    first = LedgerState(5, Control("l", "orders"), head=head(table_version=1))
    meanwhile = replace(first, head=head(given_up=("t",)))
    after = meanwhile.with_head(head(given_up=("t0",), table_version=1), made_from=first.head)
    assert after.head.given_up == ("t", "t0")


@pytest.mark.parametrize("landed", [None, TableCommit("t", 6, 3, 100, 1000)])
def test_a_plans_commit_is_found_in_a_table_whose_versions_began_anew(landed):
    """What the plan knows, and an earlier commit of it, are of the table that is gone."""
    record = RunRecord("run-1", "live", "planned", "d", NOW, plan=PLAN, table_commit=landed)
    assert find_plan_commit(run(NEW, COMMIT), record, head()) == COMMIT
    assert find_plan_commit(run(replace(NEW, table_id="t"), COMMIT), record, head()) is None


@pytest.mark.parametrize(
    ("case", "before", "after"),
    [
        ("nothing is known yet", head(), ("t", 5)),
        ("it is known", head(table_id="t", table_version=2), ("t", 2)),
        ("another one is", head(table_id="t0", table_version=2), ("t0", 2)),
        ("it was given up", head(given_up=("t",)), (None, None)),
    ],
)
def test_the_head_knows_the_table_from_the_first_plan_on(case, before, after):
    """Else a change since would be found by that plan alone, and every live run would unfind it."""
    known = before.that_knows(PLAN.table_id, PLAN.table_version)
    assert (known.table_id, known.table_version) == after, case


def test_a_plan_without_a_table_tells_the_head_nothing():
    """Its first attempt creates the table."""
    assert head().that_knows(None, None) == head()
