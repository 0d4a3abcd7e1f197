"""`tideline status`, `explain` and `doctor` over a real broker and a real table."""

import json

import pytest

from devstack.process import free_ports
from tideline.cli.main import main
from tideline.errors import ResetDetected
from tideline.stream.files import read_stream


@pytest.fixture
def said(capsys):
    """The JSON that a command prints, once it has ended well."""

    def run(*arguments):
        capsys.readouterr()
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_a_stream_is_told_in_a_line_and_a_record_in_another(
    harness, spark, said, monkeypatch, capsys
):
    """Before its first run, after it, behind, halted; and while the brokers are away.

    A run would halt, which the doctor warns of: the services are well.
    """
    harness.create(partitions=2)
    file = str(harness.stream_file())
    stream = read_stream(file)

    def line():
        (found,) = said("status", file)["streams"]
        return found["state"], found["offset_lag"], found["last_run"], found["open_incidents"]

    def outcome(offset, partition=0):
        found = said("explain", file, harness.topic(), str(partition), str(offset))
        return found["outcome"], found["run_id"], found["table_version"]

    harness.send(30)
    assert line() == ("never_run", None, None, 0)
    assert outcome(0) == ("not_followed", None, None)
    harness.run(stream, "first", spark)
    assert line() == ("up_to_date", 0, "first", 0)
    harness.send(20)
    assert line() == ("behind", 20, "first", 0)
    assert outcome(29) == ("landed", "first", 1)
    assert outcome(30) == ("unread", None, None)
    nowhere = ("explain", file, harness.topic())
    assert main([*nowhere, "1", "0"]) == 2
    assert "offset: got 0; allowed: none" in capsys.readouterr().err
    harness.delete_records(40)
    with pytest.raises(ResetDetected):
        harness.run(stream, "second", spark)
    assert line() == ("halted", 20, "first", 1)
    assert outcome(39) == ("at_stake", None, None)
    (ledger,) = (c for c in said("doctor", file)["checks"] if c["what"] == "ledger")
    assert (ledger["state"], "retention_loss" in ledger["text"]) == ("warning", True)
    monkeypatch.setenv("TIDELINE_STREAMS", str(harness.folder))
    away = {"request_timeout_ms": 500, "default_api_timeout_ms": 1500}
    harness.connect(f"127.0.0.1:{free_ports(1)[0]}", **away)
    (away,) = said("status")["streams"]
    assert (away["state"], away["is_measured"]) == ("halted", False)
    assert main(["status"]) == 0
    said_of_it = capsys.readouterr().out
    assert "orders: " in said_of_it
    assert "lag as the last run saw it" in said_of_it
    assert main(["explain", file, harness.topic(), "0", "-1"]) == 2
