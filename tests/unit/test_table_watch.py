"""The table is watched too: identity, marks, and every commit since the last known one (R13)."""

import pytest

from tideline.model.observation import LoggedCommit, TableObservation
from tideline.rules.table_watch import table_findings

OURS = {"stream": "orders", "ledger_id": "ledger-1"}


def commit(version, operation="WRITE", appends=False, ledger_id=None):
    return LoggedCommit(version, operation, appends, ledger_id, "{}")


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
        ("properties set", 6, (commit(6, "SET TBLPROPERTIES"),)),
        ("somebody appended, which audit finds", 6, (commit(6, appends=True),)),
    ],
)
def test_what_moves_no_row_of_ours_is_no_finding(case, newest, newer):
    """Upkeep by others goes on."""
    assert found(newest, *newer) == [], case


@pytest.mark.parametrize(
    "operation", ["DELETE", "UPDATE", "MERGE", "RESTORE", "WRITE", "TRUNCATE", "SOMETHING NEW"]
)
def test_a_foreign_removal_halts(operation):
    """An operation that is in no list fails closed; the version is named."""
    (finding,) = found(7, commit(6, ledger_id="ledger-1"), commit(7, operation))
    assert (finding.kind, finding.choices) == ("table_changed", ("approve", "fail"))
    assert f"version 7: {operation}" in finding.actual


def test_another_ledger_s_commit_is_foreign():
    """A mark alone is not enough."""
    assert len(found(6, commit(6, ledger_id="ledger-2"))) == 1


def test_commits_that_nobody_can_look_at_halt():
    """The log was cleaned up past the last known version."""
    (finding,) = found(9, commit(8, "OPTIMIZE"), commit(9, "OPTIMIZE"))
    assert "none of version 6" in finding.actual


def test_a_table_older_than_the_ledger_halts():
    """A copy from before the last run."""
    (finding,) = found(3)
    assert finding.cause == "the table is older than the ledger"
