"""The table is watched too: identity, marks, and every commit since the last known one (R13)."""

import pytest

from tideline.model.observation import LoggedCommit, TableObservation
from tideline.rules.foreign_changes import table_findings
from tideline.table.log import removes_rows

OURS = {"stream": "orders", "ledger_id": "ledger-1"}


def commit(version, operation="WRITE", removes=False, ledger_id=None):
    return LoggedCommit(version, operation, removes, ledger_id, "{}")


def found(newest, *newer, known_version=5, known_id="t"):
    table = TableObservation(True, "t", newest, newer=newer, **OURS)
    return list(table_findings(known_id, table, "orders", "ledger-1", known_version))


@pytest.mark.parametrize(
    ("case", "newest", "newer"),
    [
        ("nothing new", 5, ()),
        ("our own", 6, (commit(6, ledger_id="ledger-1"),)),
        ("compacted", 6, (commit(6, "OPTIMIZE"),)),
        ("vacuumed", 7, (commit(6, "VACUUM START"), commit(7, "VACUUM END"))),
        ("a constraint, a column, a name new in some release", 6, (commit(6, "SOMETHING NEW"),)),
        ("somebody appended, which audit finds", 6, (commit(6),)),
        ("a removal that the ledger knows already", 6, (commit(5, "DELETE", True), commit(6))),
    ],
)
def test_what_moves_no_row_of_ours_is_no_finding(case, newest, newer):
    """Upkeep by others goes on."""
    assert found(newest, *newer) == [], case


@pytest.mark.parametrize("operation", ["DELETE", "WRITE", "RESTORE", "SOMETHING NEW"])
def test_a_foreign_removal_halts(operation):
    """Whatever it is called; the version is named."""
    (finding,) = found(7, commit(6, ledger_id="ledger-1"), commit(7, operation, True))
    assert (finding.kind, finding.choices) == ("table_changed", ("approve", "fail"))
    assert f"version 7: {operation}" in finding.actual
    assert finding.table_version == 7


def test_every_foreign_removal_is_in_the_finding():
    """An approval covers what was shown: one more removal makes another finding (R9)."""
    removals = [commit(v, "DELETE", True) for v in range(6, 12)]
    shown = [found(5 + n, *removals[:n])[0] for n in range(1, 7)]
    assert len({f.actual for f in shown}) == 6
    assert [f.table_version for f in shown] == [6, 7, 8, 9, 10, 11]
    (later,) = found(12, *removals, commit(12))
    assert later == shown[-1]  # an append is no further change


def test_another_ledger_s_commit_is_foreign():
    """A mark alone is not enough."""
    assert len(found(6, commit(6, removes=True, ledger_id="ledger-2"))) == 1


def test_commits_that_nobody_can_look_at_halt():
    """The log was cleaned up past the last known version."""
    (finding,) = found(9, commit(8, "OPTIMIZE"), commit(9, "OPTIMIZE"))
    assert "none of version 6" in finding.actual
    assert finding.table_version == 9


def test_a_table_older_than_the_ledger_halts():
    """A copy from before the last run."""
    (finding,) = found(3)
    assert finding.cause == "the table is older than the ledger"


ADD, REMOVE = {"add": {"dataChange": True}}, {"remove": {"dataChange": True}}
MOVED_IN, MOVED_OUT = {"add": {"dataChange": False}}, {"remove": {"dataChange": False}}
META = {"metaData": {"configuration": {"delta.constraints.c": "x > 0"}}}


@pytest.mark.parametrize(
    ("case", "operation", "actions", "verdict"),
    [
        ("an append", "WRITE", [ADD, ADD], False),
        ("a constraint or a column", "ADD CONSTRAINT", [META], False),
        ("a newer protocol", "UPGRADE PROTOCOL", [{"protocol": {}}], False),
        ("a compaction", "OPTIMIZE", [MOVED_IN, MOVED_OUT, MOVED_OUT], False),
        ("a delete", "DELETE", [REMOVE, ADD], True),
        ("a delete under a harmless name", "OPTIMIZE", [REMOVE, ADD], True),
        ("a vacuum's note", "VACUUM END", [{"commitInfo": {}}], False),
        ("files that are only dropped", "OPTIMIZE", [MOVED_OUT], True),
        ("a removal that says nothing", "X", [{"remove": {}}], True),
        ("a restore that only brings back", "RESTORE", [ADD], True),
        ("a restore to where it was", "RESTORE", [{"commitInfo": {}}], False),
        ("a commit that nobody can look at", "WRITE", None, True),
    ],
)
def test_a_commit_is_what_its_actions_do(case, operation, actions, verdict):
    """Not what somebody called it (Delta protocol, "Actions")."""
    assert removes_rows(operation, actions) is verdict, case
