"""What `tideline doctor` says of tables, where a run refuses them."""

import pytest

from tideline.cli import doctor
from tideline.errors import BadInput


@pytest.fixture
def tables(memory):
    """All tables of a stream by their roles, after a run."""
    current = {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}}
    memory.configure(decode={"value": {"format": "json"}}, current=current)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    said = [doctor._table(memory.open("before"), role) for role in memory.open("x").tables]
    assert {*said} == {"does not exist yet: the first run creates it"}
    memory.send(10)
    memory.run("lands")
    found = {"raw": memory.table, "decoded": memory.decoded, "quarantine": memory.quarantine}
    return found | {"current": memory.current}


@pytest.mark.parametrize("role", ["raw", "decoded", "quarantine", "current"])
def test_a_table_that_a_run_refuses_is_not_called_fine(memory, tables, monkeypatch, role):
    """Of another stream or ledger, or replaced: "version 1" would send people elsewhere."""
    assert doctor._table(memory.open("doctor"), role) == "version 1"
    for fact, said in ("stream", "belongs to .*stream"), ("ledger_id", "belongs to .*ledger"):
        with monkeypatch.context() as patched:
            patched.setattr(tables[role], fact, "another")
            with pytest.raises(BadInput, match=f"no run writes to it: .*{said}"):
                doctor._table(memory.open("doctor"), role)
    monkeypatch.setattr(tables[role], "table_id", "another")
    refused = BadInput if role == "raw" else doctor.Warned
    with pytest.raises(refused, match="table another"):
        doctor._table(memory.open("doctor"), role)


def test_rows_that_others_have_removed_are_told_before_a_run_halts(memory, tables):
    memory.delete_rows(lambda offset: offset == 3)
    with pytest.raises(BadInput, match="another program removed, restored or replaced rows"):
        doctor._table(memory.open("doctor"), "raw")
    assert memory.halts() == ["table_changed"]
