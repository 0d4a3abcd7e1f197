"""The current table over the simulated world: what a fold says of itself."""

import json
from argparse import Namespace
from contextlib import nullcontext

import pytest

from tests.simulation.histories import History, play
from tests.simulation.run_events import tables_of
from tests.simulation.spark import SimulatedSpark
from tests.simulation.table import key_of
from tideline.cli import tables as command
from tideline.cli.output import CommandOutput
from tideline.errors import AuditNotClean, BadInput, FoldingHalted, StreamBusy
from tideline.folding.current_checking import check_current
from tideline.folding.fold_steps import fold_changes
from tideline.model.current import FoldRefusal
from tideline.model.fold_job import FoldResult
from tideline.operations.erase_finding import AskedKeys
from tideline.operations.erasing import EraseRequest, erase
from tideline.operations.questions import audit_stream

OPTIONS = {
    "kafka": {"topics": ["t"]},
    "decode": {"value": {"format": "json"}},
    "current": {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}},
    "on_reset": {"retention_loss": "accept_loss"},
}
LANDS = (("produce", 0, 0, 6), ("live", 0), ("finish", 0))


def folding(*events):
    """The fold's head after events, brought to their end."""
    outcome = play(History(1, {"t": 1}, OPTIONS, events))
    assert outcome.problems == []
    return outcome.world.state().folding


def test_after_an_accepted_loss_the_table_is_unproven():
    """A delete may be among what was lost; later folds leave the time as it is."""
    assert folding(*LANDS).unproven_since is None
    lost = (*LANDS, ("produce", 0, 0, 4), ("expire", 0, 0, 100), *LANDS)
    first = folding(*lost).unproven_since
    assert first is not None
    later = folding(*lost, ("pass_time", 60, 0), *LANDS)
    assert (later.unproven_since, later.folded_at > first) == (first, True)
    anew = folding(*lost, ("pass_time", 60, 0), ("drop_current",), *LANDS)
    assert anew.unproven_since > first


GONE = "all rows went (op t), in a topic of 2 partitions"


@pytest.fixture
def folded(memory, monkeypatch):
    """With ten changes folded; who looks at them is told that they have no order."""
    memory.configure(**{k: v for k, v in OPTIONS.items() if k in ("decode", "current")})
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(10)
    memory.run("lands")
    told = FoldResult(changes=10, refused=(FoldRefusal("truncated", GONE),))
    monkeypatch.setattr(SimulatedSpark, "fold", lambda *_: told)
    return memory


def test_a_look_tells_changes_without_an_order_and_writes_nothing(folded):
    """Who only looks opens no incident; a fold that meets them does."""
    before = folded.ledger().read().folding
    check, (audit, _) = check_current(folded.open("look")), audit_stream(folded.open("look"), 1)
    assert [(f.bucket, f.place) for f in check.flaws] == [(None, "order")]
    assert GONE in str(check.flaws[0])
    assert (audit.current.wrong, audit.current.checked, audit.clean) == (check.flaws, (), False)
    assert folded.ledger().read().folding == before
    with pytest.raises(FoldingHalted, match="key_moved"):
        fold_changes(folded.open("folds"), "anew")


def test_who_audits_buckets_beside_a_fold_is_told_whom_it_waits_for(folded):
    """And how to audit all the same."""
    with folded.ledger().lease("decoder"):
        with pytest.raises(StreamBusy) as busy:
            audit_stream(folded.open("look"), 1)
        audit, _ = audit_stream(folded.open("look"))
    assert "the decoder lease is held by process" in busy.value.message
    assert "UTC at least; try again later. Whoever decodes, folds or erases" in busy.value.message
    assert "An audit without buckets waits for nobody" in busy.value.message
    assert busy.value.lease == "decoder"
    assert audit.clean


def test_who_looks_at_another_table_is_told_the_way_on(folded):
    """A fold says what to do about it; the look does nothing."""
    folded.current.table_id = "another"
    with pytest.raises(BadInput, match="not the one that was folded: tideline fold FILE first"):
        check_current(folded.open("look"))
    with pytest.raises(BadInput, match=r"Next: give current\.table another address"):
        fold_changes(folded.open("folds"), "due")
    audit, _ = audit_stream(folded.open("audits"), 1)
    assert ["is another one" in flaw.found for flaw in audit.current.wrong] == [True]


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_says_what_a_look_has_told(folded, monkeypatch, capsys, as_json):
    look = lambda *_, doing: nullcontext(folded.open("look"))  # noqa: E731
    monkeypatch.setattr(command, "watched_run", look)
    asked = Namespace(run_id="look", check=True, buckets=1)
    assert (
        command.fold(folded.stream, asked, CommandOutput(as_json, "s.yaml"))
        == AuditNotClean.exit_code
    )
    said = capsys.readouterr().out
    if as_json:
        (flaw,) = json.loads(said)["flaws"]
        assert (flaw["bucket"], flaw["place"], GONE in flaw["found"]) == (None, "order", True)
    else:
        assert GONE in said
        assert "Next: tideline fold s.yaml --anew, which halts with key_moved" in said


def test_who_looks_or_erases_is_told_that_another_event_type_is_folded(memory):
    """The other type's changes say nothing of the rows there: nothing is damaged, none may rise."""
    types = [{"type": name, "subject": name} for name in "ab"]
    decode = {"value": {"format": "avro", "types": types}, "tombstones": "drop"}
    current = OPTIONS["current"] | {"type": "a"}
    sections = {"registry": {}, "decode": decode}
    memory.configure(**sections, current=current)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(30)
    memory.run("lands")
    assert check_current(memory.open("look")).flaws == ()
    memory.configure(**sections, current=current | {"type": "b"})
    told = "current.type: got b; what is folded is of a"
    with pytest.raises(BadInput, match=told):
        check_current(memory.open("look"))
    run = memory.open("erase")
    asked = EraseRequest(AskedKeys(raw_keys=(key_of(1),)), "asked", "ann", most=1.0)
    with pytest.raises(BadInput, match=told):
        erase(run, tables_of(run), asked)
    assert memory.is_clean()
