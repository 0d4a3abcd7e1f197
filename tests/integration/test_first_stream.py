"""`tideline init`: a first stream file from what a real cluster shows."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from devstack.broker import Broker
from tideline.cli.main import main
from tideline.stream.files import read_stream


@pytest.fixture
def begin(harness, tmp_path):
    """Write a stream file; the exit status and where it would be."""
    harness.create("orders", partitions=1)
    harness.create("clicks", partitions=1)

    def init(*arguments):
        file = tmp_path / "shop.yaml"
        return main(["init", str(file), "--connection", harness.connection, *arguments]), file

    return init


def test_a_file_is_written_that_lands_the_topics(harness, begin, capsys):
    """Its name, its table and its next command are told; nobody has to know a key."""
    topics = [harness.topic("orders"), harness.topic("clicks")]
    status, file = begin("--topic", topics[0], "--topic", topics[1], "--output", "json")
    said = json.loads(capsys.readouterr().out)
    assert (status, said["topics"], said["stream"]) == (0, topics, "shop")
    stream = read_stream(file)
    assert (stream.stream, list(stream.kafka.topics)) == ("shop", topics)
    assert stream.table.uri == said["table"] == str(file.parent / "lake/shop")
    assert f"tideline run {file}" in file.read_text()
    status, _ = begin("--topic", topics[0])
    assert (status, read_stream(file)) == (2, stream)  # what is there stays
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--topic: missing; allowed by connection"),
        (("--topic", "no-such-topic"), "--topic: got no-such-topic; allowed"),
        (("--topic", "ORDERS", "--stream", "no name"), "stream: got 'no name'"),
        (("--topic", "ORDERS", "--table", "ftp://lake/x"), "table.uri: got 'ftp://lake/x'"),
    ],
)
def test_a_refused_request_writes_nothing(harness, begin, capsys, arguments, said):
    """And says what there is."""
    named = [harness.topic("orders") if a == "ORDERS" else a for a in arguments]
    status, file = begin(*named)
    error = capsys.readouterr().err
    assert (status, file.exists()) == (2, False)
    assert said in error
    assert "--topic" not in said or harness.topic("clicks") in error


def test_a_person_is_asked(harness, begin, monkeypatch, capsys):
    """Topics are listed, and chosen by name."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda *_: harness.topic("clicks"))
    status, file = begin()
    assert (status, list(read_stream(file).kafka.topics)) == (0, [harness.topic("clicks")])
    assert harness.topic("orders") in capsys.readouterr().out


def test_an_empty_cluster_is_told_with_commands_that_go_on(tmp_path, monkeypatch, capsys):
    """They work as they stand: a topic is there, and the next command finds it."""
    broker = Broker(tmp_path / "kafka").start()
    try:
        connection = {"bootstrap.servers": broker.bootstrap_servers}
        told = json.dumps({"conn_type": "kafka", "extra": connection})
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", told)
        file = tmp_path / "orders.yaml"
        assert main(["init", str(file)]) == 2
        _, create, again, *_ = capsys.readouterr().err.splitlines()
        subprocess.run(shlex.split(create), check=True, capture_output=True)
        program, *arguments = shlex.split(again)
        assert (program, main([*arguments, "--topic", "orders"])) == ("tideline", 0)
        assert read_stream(file).kafka.topics == ["orders"]
    finally:
        broker.stop()


def test_a_shell_completes_commands_and_options():
    """As argcomplete's shell function asks."""
    line = "tideline re"
    asking = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    program = "import os, sys; os.dup2(1, 8); from tideline.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **asking, "_ARGCOMPLETE_IFS": "\n", "PYTHONPATH": "plugins"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert {word.strip() for word in done.stdout.splitlines()} == {"redrive", "resolve", "rewind"}
