"""Incidents that are alike, in a shell: shown together, and answered by one command."""

import json
from dataclasses import replace

import pytest

from tests.worlds.build import NOW, OTHER_ID
from tests.worlds.contract_objects import LOSS
from tideline.cli import reading
from tideline.cli.main import main
from tideline.ledger.ledger import Ledger
from tideline.model.verdicts import VERDICTS
from tideline.stream.files import read_stream
from tideline.wiring import open_store

LOSSES = [replace(LOSS, partition=n) for n in range(30)]
CUT = replace(LOSS, kind="truncation", partition=40)
ELSEWHERE = replace(LOSS, topic="sales", topic_id=OTHER_ID)
REASON = ("--choice", "accept_loss", "--reason", "the disk is gone")


@pytest.fixture
def stream(tmp_path):
    """A stream file, and its ledger with 32 open incidents of three groups."""
    path = tmp_path / "orders.yaml"
    path.write_text(
        f"stream: orders\nkafka: {{topic_pattern: '.*'}}\ntable: {{uri: {tmp_path}/lake/orders}}\n"
    )
    ledger = Ledger(open_store(read_stream(path).ledger_location), "orders")
    with ledger.lease("live"):
        found = [*LOSSES, CUT, ELSEWHERE]
        ledger.update(lambda state: state.with_incidents(found, "run-1", NOW))
    return str(path)


def decided(stream, capsys):
    """The ids of incidents that somebody has answered."""
    capsys.readouterr()
    assert main(["incident", stream, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["incidents"]
    return [one["id"] for one in found if one["decision"]]


def test_like_ones_are_shown_together_with_the_command_that_answers_them(stream, capsys):
    """By topic and class; the choices stand there once, `fail` as well, as on the page."""
    assert main(["incident", stream]) == 0
    shown = capsys.readouterr().out
    assert "orders: retention_loss: 30 incidents: records were deleted" in shown
    assert "  incident-20: orders-19: [1, 5), [7, 9): at most 6 records" in shown
    assert "  and 10 more\n" in shown
    assert shown.count(f"accept_loss: {VERDICTS['retention_loss'].choices['accept_loss']}") == 2
    assert shown.count(f"fail: {reading._FAIL}") == 3
    assert (
        f"To decide about all 30: tideline resolve {stream} --incident incident-1 --all 30"
        " --choice accept_loss --reason TEXT;" in shown
    )
    assert "incident-31: orders-40: truncation" in shown
    assert len(shown.splitlines()) < 50


def test_one_command_answers_a_group_and_nothing_else(stream, capsys):
    """R8: another class and another topic are left."""
    assert main(["resolve", stream, "--incident", "incident-3", "--all", "30", *REASON]) == 0
    shown = capsys.readouterr().out
    assert "incident-1, incident-2" in shown
    assert " and 10 more: accept_loss by os:" in shown
    assert decided(stream, capsys) == [f"incident-{n}" for n in range(1, 31)]


@pytest.mark.parametrize("count", [29, 31, 0])
def test_nothing_is_decided_that_nobody_has_seen(stream, capsys, count):
    """One more was opened, or somebody else has answered some, since a person looked."""
    asked = ["resolve", stream, "--incident", "incident-1", "--all", str(count), *REASON]
    assert main(asked) == 2
    assert f"--all: got {count}; 30 open incidents are like incident-1" in capsys.readouterr().err
    assert decided(stream, capsys) == []


def test_an_answer_to_one_takes_it_out_of_the_group(stream, capsys):
    """A group's answer replaces nobody's decision."""
    assert main(["resolve", stream, "--incident", "incident-7", *REASON]) == 0
    assert decided(stream, capsys) == ["incident-7"]
    assert main(["resolve", stream, "--incident", "incident-1", "--all", "30", *REASON]) == 2
    assert main(["resolve", stream, "--incident", "incident-1", "--all", "29", *REASON]) == 0
    assert len(decided(stream, capsys)) == 30


def test_a_decided_incident_no_longer_says_to_decide(stream, capsys):
    assert main(["incident", stream, "incident-7"]) == 0
    assert f" Next: {LOSS.next_step}." in capsys.readouterr().out
    for choice, is_open in (("fail", True), ("accept_loss", False)):
        asked = ["--incident", "incident-7", "--choice", choice, "--reason", "seen"]
        assert main(["resolve", stream, *asked]) == 0
        capsys.readouterr()
        assert main(["incident", stream, "incident-7"]) == 0
        shown = capsys.readouterr().out
        assert f"decided: {choice} by " in shown
        assert ("Next: " in shown) is is_open


def test_a_mistyped_choice_is_recognized(stream, capsys):
    """It names what is allowed for that incident."""
    wrong = ["resolve", stream, "--incident", "incident-1", "--choice", "accept-loss"]
    assert main([*wrong, "--reason", "x"]) == 2
    said = "got 'accept-loss', did you mean accept_loss? allowed: accept_loss, fail"
    assert said in capsys.readouterr().err
