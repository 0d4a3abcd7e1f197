"""`tideline incident` and `tideline resolve` as a user types them."""

import pytest

from devstack.command_line import finished, tideline
from tests.worlds.streams import head
from tideline.cli.output import os_user
from tideline.stream.files import read_stream


@pytest.fixture
def halted(harness, spark):
    """A stream file whose stream has lost [10, 30), and has been told so."""
    harness.create(partitions=1)
    harness.send(10)
    path = harness.stream_file()
    harness.run(read_stream(path), "lands", spark)
    harness.send(40)
    harness.delete_records(before=30)
    status, answer, errors = finished(tideline("run", path, "--run-id", "halted", "--json"))
    assert (status, answer["status"]) == (3, "halted")
    command = f"tideline resolve {path} --incident incident-1 --choice accept_loss"
    assert command in " ".join(errors.split())
    return path


def resolve(path, *options, incident="incident-1"):
    return finished(tideline("resolve", path, "--incident", incident, *options))


@pytest.mark.usefixtures("warm_spark")
def test_an_incident_is_shown_decided_and_carried_out(harness, halted):
    """What was found, what is at stake, who decided; then the run goes on at the log start."""
    status, answer, _ = finished(tideline("incident", halted, "--json"))
    (incident,) = answer["incidents"]
    assert status == 0
    assert (incident["id"], incident["class"]) == ("incident-1", "retention_loss")
    assert (incident["lost_start"], incident["lost_end"]) == (10, 30)
    assert (incident["offsets_at_stake"], incident["decision"]) == (20, None)
    assert incident["choices"] == ["accept_loss", "fail"]
    assert incident["affected_versions"] == []
    _, text, _ = finished(tideline("incident", halted))
    parts = (
        f"{harness.topic()}-0",
        "at most 20 records, written after",
        "accept_loss: continue at the log start",
    )
    for part in parts:
        assert part in text

    status, answer, _ = resolve(
        halted, "--choice", "accept_loss", "--reason", "test data", "--by", "ann", "--json"
    )
    assert (status, answer["incident"]["decision"]) == (0, "accept_loss")
    stream = read_stream(halted)
    assert head(stream) == {(harness.topic(), 0): 10}  # nothing moves until a run carries it out

    status, answer, errors = finished(tideline("run", halted, "--run-id", "halted", "--json"))
    assert (status, answer["status"], answer["rows"]) == (0, "done", 20), errors
    (incident,) = answer["incidents"]
    assert (incident["decision"], incident["decided_by"]) == (
        "accept_loss",
        f"{os_user()} (for ann)",
    )
    assert head(stream) == {(harness.topic(), 0): 50}
    _, ledger, _ = finished(tideline("ledger", halted, "--json"))
    (incident,) = ledger["incidents"]
    assert (incident["reason"], incident["lost_start"], incident["lost_end"]) == (
        "test data",
        10,
        30,
    )
    assert "lost: [10, 30): 20 offsets" in incident["outcome"]
    status, answer, _ = finished(tideline("incident", halted, "incident-1", "--json"))
    assert (status, answer["incidents"][0]["decided_by"]) == (0, f"{os_user()} (for ann)")
    assert finished(tideline("audit", halted))[0] == 0


def test_what_cannot_be_decided_is_refused(halted):
    """A choice of another class, an unknown id, no reason: each says what is allowed."""
    status, _, errors = resolve(halted, "--choice", "restart", "--reason", "x")
    assert (status, "allowed: accept_loss, fail" in errors) == (2, True)
    status, _, errors = resolve(
        halted, "--choice", "accept_loss", "--reason", "x", incident="incident-9"
    )
    assert (status, "allowed: incident-1" in errors) == (2, True)
    status, _, errors = resolve(halted, "--choice", "accept_loss", "--reason", " ")
    assert (status, "reason: got nothing; allowed: the reason" in errors) == (2, True)
