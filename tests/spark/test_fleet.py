"""A fleet against a real broker: found, landed, halted topic by topic, and taken out again."""

import json

import pytest
import yaml
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.worlds.streams import head, is_clean, table_rows
from tideline.cli.main import main
from tideline.fleet.batch import Batch
from tideline.fleet.discovery import discover
from tideline.model.request import RunRequest
from tideline.stream.contents import known_topics
from tideline.stream.files import read_file, read_fleet, read_stream


@pytest.fixture
def fleet(harness, tmp_path):
    """A fleet file of all topics of this test."""

    def write(**changes):
        data = {
            "fleet": "all",
            "topic_pattern": f"{harness.name}-.*",
            "threads": 3,
            "stream": {
                "stream": "{topic}",
                "kafka": {"connection": harness.connection},
                "table": {"uri": f"{harness.lake}/{{topic}}"},
                "spark": {"keep_warm_seconds": 0},
                "patience_seconds": 2,
            },
            **changes,
        }
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    return write


def landed(path, run_id, spark, **arguments):
    batch = Batch(run_id, RunRequest(), threads=3, spark=spark, **arguments)
    return {run.stream: run for run in batch.run(read_fleet(path).streams)}


def test_a_fleet_lands_and_each_trouble_is_named(harness, fleet, spark):
    """One re-created, one gone, one halted by retention: all others land, exactly."""
    names = [harness.create(f"t{n}", partitions=1) for n in range(7)]
    for n in range(7):
        harness.send(20 + n, f"t{n}")
    path = fleet(leave_out=[names[6]])
    found = discover(path)
    assert found.new == tuple(names[:6])
    assert str(found).startswith(f"6 topics; 6 new: {names[0]}, ")
    first = landed(path, "first", spark)
    assert {name: (r.state, r.rows) for name, r in first.items()} == {
        name: ("done", 20 + n) for n, name in enumerate(names[:6])
    }
    assert {r.state for r in landed(path, "second", spark).values()} == {"nothing_to_do"}

    harness.delete("t0")
    harness.delete("t1")
    harness.create("t1", partitions=1)
    harness.send(3, "t1")
    harness.send(9, "t2")
    harness.delete_records(before=25, suffix="t2")
    for n in (3, 4, 5):
        harness.send(5, f"t{n}")
    names.append(harness.create("t7", partitions=1))
    harness.send(4, "t7")
    again = discover(path)
    assert (again.new, again.gone) == ((names[7],), (names[0],))
    assert discover(path).gone == ()  # it is told once
    third = landed(path, "third", spark)
    states = {name.rpartition("-")[2]: r.state for name, r in third.items()}
    assert states == {
        "t0": "halted",
        "t1": "halted",
        "t2": "halted",
        "t3": "done",
        "t4": "done",
        "t5": "done",
        "t7": "done",
    }
    for name, said in (("t0", "topic_missing"), ("t1", "topic_recreated"), ("t2", "retention")):
        assert said in str(third[harness.topic(name)].error)
    for n in (3, 4, 5, 7):
        stream = read_stream(path, harness.topic(f"t{n}"))
        assert len(set(table_rows(stream))) == len(table_rows(stream)) == {7: 4}.get(n, 25 + n)
        assert is_clean(harness, stream)

    left = landed(path, "third", spark, only_left=True)
    assert {r.state for r in left.values()} == {"closed_before", "halted"}
    assert [r.rows for r in left.values()] == [0] * 7
    assert known_topics(read_file(path).fleet, path).topics[0].gone_since is not None


def test_a_topic_leaves_and_takes_its_ledger_along(harness, fleet, spark, tmp_path):
    """Its own file goes on where the fleet has stopped; the fleet no longer lands it."""
    name = harness.create("t0", partitions=1)
    harness.create("t1", partitions=1)
    harness.send(10, "t0")
    path = fleet()
    discover(path)
    landed(path, "first", spark)
    harness.send(5, "t0")
    data = yaml.safe_load(path.read_text())["stream"]
    own = {**data, "stream": name, "kafka": {**data["kafka"], "topics": [name]}}
    own["table"] = {"uri": f"{harness.lake}/{name}"}
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(own))
    assert set(landed(path, "second", spark)) == {harness.topic("t1")}
    stream = read_stream(tmp_path / f"{name}.yaml")
    assert head(stream) == {(name, 0): 10}
    harness.run(stream, "third", spark)
    assert head(stream) == {(name, 0): 15}
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 15
    assert is_clean(harness, stream)


def test_more_topics_than_allowed_are_not_taken_up(harness, fleet, spark, capsys):
    """What is known goes on landing; the command says so, and ends with an error's status."""
    for n in range(3):
        harness.create(f"t{n}", partitions=1)
    path = fleet(max_topics=2)
    assert main(["discover", str(path)]) == 2
    assert "3 topics match" in capsys.readouterr().err
    assert not (path.parent / "all.topics.json").exists()
    assert main(["run", str(path), "--json"]) == 2
    fleet(max_topics=3)
    discover(path)
    harness.create("t3", partitions=1)
    assert main(["run", str(path), "--json", "--parallel", "2"]) == 2
    out = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [s["status"] for s in out["streams"]] == ["nothing_to_do"] * 3
    assert "4 topics match" in out["problems"][0]
    assert out["status"] == "failed"


def test_the_command_lands_a_fleet(harness, fleet, connect_server, monkeypatch, capsys):
    """A line for each topic, then the sum; JSON has the same; one of them is asked for by name."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connect_server.connection))
    names = [harness.create(f"t{n}", partitions=1) for n in range(3)]
    for n in range(3):
        harness.send(10, f"t{n}")
    path = fleet()
    assert main(["run", str(path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("discovered: 3 topics; 3 new: ")
    assert sum("10 rows" in line for line in told) == 3
    assert told[-1] == "3 streams: 3 done; 30 rows"
    harness.send(1, "t0")
    harness.delete_records(before=11, suffix="t0")
    assert main(["run", str(path), "--json"]) == 3
    out = json.loads(capsys.readouterr().out)
    assert (out["status"], out["streams"][0]["status"]) == ("halted", "halted")
    assert out["streams"][0]["error"] == "ResetDetected"
    assert main(["status", str(path), "--json"]) == 0
    assert {s["stream"] for s in json.loads(capsys.readouterr().out)["streams"]} == set(names)
    assert main(["incident", str(path), "--stream", names[0]]) == 0
    assert "retention_loss" in capsys.readouterr().out
    assert main(["audit", str(path)]) == 2
    assert "name one of its streams with --stream" in capsys.readouterr().err
    assert main(["run", str(path), "--stream", names[1]]) == 0
    assert main(["run", str(path), "--parallel", "0"]) == 2
    moved = f"{harness.lake}/moved"
    command = ["move-ledger", str(path), "--stream", names[1], "--to", "delta", "--at", moved]
    capsys.readouterr()
    assert main(command) == 0
    assert f"in `overrides`, {names[1]}, of {path}" in capsys.readouterr().out


@pytest.mark.slow
def test_topics_that_may_not_be_read_hold_up_no_other(spark, tmp_path):
    """One may be described, and not read; of the other nothing is shown."""
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    broker = Broker(tmp_path / "kafka", settings=rights).start()
    try:
        harness = StreamHarness(broker, tmp_path, "rights")
        names = [harness.create(f"t{n}", partitions=1) for n in range(4)]
        for n in range(4):
            harness.send(10, f"t{n}")
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        for name, operations in {names[1]: [ACLOperation.DESCRIBE], names[2]: []}.items():
            place = ResourcePattern(ResourceType.TOPIC, name)
            denied = [("User:ANONYMOUS", ACLOperation.READ, ACLPermissionType.DENY)]
            allowed = [("User:ANONYMOUS", o, ACLPermissionType.ALLOW) for o in operations]
            acls = [ACL(who, "*", what, how, place) for who, what, how in denied + allowed]
            admin.create_acls(acls)
        admin.close()
        path = tmp_path / "all.yaml"
        kafka = {"connection": harness.connection}
        stream = {
            "stream": "{topic}",
            "kafka": kafka,
            "table": {"uri": f"{harness.lake}/{{topic}}"},
        }
        stream |= {"patience_seconds": 2, "spark": {"keep_warm_seconds": 0}}
        path.write_text(yaml.safe_dump({"fleet": "all", "topics": names, "stream": stream}))
        found = landed(path, "first", spark)
        states = {name.rpartition("-")[2]: r.state for name, r in found.items()}
        assert (states["t0"], states["t3"]) == ("done", "done")
        for name in (names[1], names[2]):
            error = found[name].error
            assert found[name].state in ("failed", "halted"), states
            assert error is not None
            assert name in error.message
    finally:
        broker.stop()
