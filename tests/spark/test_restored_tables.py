"""Delta's RESTORE of a typed and of a current table, as another program does it."""

import pytest
from deltalake import DeltaTable

from tests.worlds.current_streams import Changing
from tideline.errors import FoldingHalted, VerificationFailed
from tideline.folding.current_checking import check_current
from tideline.folding.sweeping import find_stale_rows
from tideline.model.request import RunRequest
from tideline.operations.questions import audit_stream
from tideline.wiring import open_run

pytestmark = pytest.mark.slow


def looked_at(orders):
    """The audit, and the check of all rows."""
    with open_run(orders.stream, "look", RunRequest(), orders.spark) as run:
        audit, findings = audit_stream(run)
        assert findings == ()
        return audit, check_current(run).flaws


def restored(table, version):
    """Put a version back, as a commit of its own; the version of before."""
    found = DeltaTable(table)
    newest = found.version()
    found.restore(version)
    return newest


def test_changes_that_a_restored_typed_table_lacks_are_folded_once_they_are_back(harness, spark):
    orders = Changing(harness, spark, every="0 3 * * *")
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2), snapshot="last")
    orders.run("one")
    orders.fold("night-1")
    before = DeltaTable(orders.tables["decoded"]).version()
    orders.sends(("u", 1, "new", 10), ("d", 2, "b", 2))
    orders.run("two")
    newest = restored(orders.tables["decoded"], before)
    with pytest.raises(VerificationFailed, match=r"\[2, 4\).*decode FILE --again"):
        orders.fold("night-2")
    assert orders.rows() == {1: ("a", 1), 2: ("b", 2)}
    restored(orders.tables["decoded"], newest)
    orders.fold("night-3")
    assert orders.rows() == {1: ("new", 10)}
    audit, flaws = looked_at(orders)
    assert (audit.clean, flaws) == (True, ())


def test_a_sweep_of_a_typed_table_that_was_restored_is_refused(harness, spark):
    """Its first record of the snapshot is gone: rows that were read again would look as gone."""
    orders = Changing(harness, spark)
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    orders.run("one")
    before = DeltaTable(orders.tables["decoded"]).version()
    orders.sends(("r", 1, "a", 1), ("r", 2, "b", 2), snapshot="last")
    orders.run("two")
    newest = restored(orders.tables["decoded"], before)
    with open_run(orders.stream, "sweep", RunRequest(), orders.spark) as run:
        with pytest.raises(VerificationFailed, match="Nothing was swept"):
            find_stale_rows(run)
        restored(orders.tables["decoded"], newest)
        assert find_stale_rows(run).rows == 0


def test_a_deleted_row_that_a_restore_brings_back_halts_the_next_fold(harness, spark):
    orders = Changing(harness, spark)
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    orders.run("one")
    before = DeltaTable(orders.tables["current"]).version()
    orders.sends(("u", 1, "new", 10), ("d", 2, "b", 2))
    orders.run("two")
    newest = restored(orders.tables["current"], before)
    audit, _ = looked_at(orders)
    assert "RESTORE" in str(audit)
    orders.sends(("c", 3, "c", 3))
    with pytest.raises(FoldingHalted, match=r"current_changed.*RESTORE"):
        orders.run("three")
    assert 2 in orders.rows()
    restored(orders.tables["current"], newest)
    orders.run("four")
    assert orders.rows() == {1: ("new", 10), 3: ("c", 3)}
    restored(orders.tables["current"], before)
    orders.fold("healing", "anew")
    assert orders.rows() == {1: ("new", 10), 3: ("c", 3)}
    DeltaTable(orders.tables["current"]).optimize.compact()
    audit, flaws = looked_at(orders)
    assert (audit.clean, flaws) == (True, ())
