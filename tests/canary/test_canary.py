"""No secret is anywhere but where it has to be; and a planted leak is found."""

import json
import os
import textwrap
from collections.abc import Iterator

import pytest

from tests.canary.scene import Scene, scene
from tests.canary.searching import Findings, watched
from tests.worlds.neighbour import listeners, table, tries

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
HANDED_OVER = {
    "the services themselves": {"the store's secret", "Azure's key"},
    "Spark Connect's server": {"the token of Spark Connect"},
    "Spark's driver": {"the store's secret", "Azure's key"},
    "Spark's Python": {
        *("the store's secret", "Azure's key", "Google's key"),
        "the token of Spark Connect",
    },
    "other processes": set(),
}
"""What stands in environments by design. Airflow and a person have their connections there."""
LEAK = """
    import base64, os
    from airflow.sdk import dag, task

    @dag(schedule=None)
    def leak():
        @task
        def tell():
            secret = json.loads(os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"]["sasl.password"]
            print(base64.b64encode(b"x" + secret.encode()).decode())
            return secret[::-1][::-1]

        tell()

    import json
    leak()
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory, postgres) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("canary"), postgres) as found:
        yield found


def test_no_secret_is_anywhere(stage, capsys):
    """Runs that end well, that are killed, that are refused; under Airflow and from a shell."""
    findings = Findings()
    with watched(stage.canaries, findings, str(stage.temporary)):
        stage.send(20)
        stage.stream("canary")
        assert stage.run("canary", "one") == "success"
        stage.send(20)
        assert stage.run("canary", "killed", dies=True) == "success"
        for cloud in stage.clouds:
            stage.stream(cloud)
            assert stage.run(cloud, "one") == "success"
        stage.send(20)
        assert stage.run("google", "killed", dies=True) == "success"
        wrong = {"connection": "kafka_wrong", "topics": [stage.harness.topic()]}
        stage.stream("wrong", kafka=wrong)
        assert stage.run("wrong", "one") == "failed"
        topics = [stage.harness.topic()]
        table = {"uri": str(stage.harness.folder / "connected")}
        server = {"connection": "spark_server"}
        tokens = {"connection": "kafka_tokens", "topics": topics}
        stage.stream("connected", table=table, spark=server, kafka=tokens)
        assert stage.run("connected", "one") == "success"
        stage.send(20)
        file = str(stage.stack.streams / "canary.yaml")
        assert stage.command("run", file, "--verbose", "--json") == 0
        refused = str(stage.stack.streams / "wrong.yaml")
        assert stage.command("run", refused, "--verbose") == 2
        connection = stage.store.connection() | {"password": "none-of-the-canaries"}
        bad = {"AIRFLOW_CONN_LAKE": json.dumps(connection)}
        assert stage.command("audit", file, "--verbose", **bad) == 2
        assert stage.command("audit", file, "--json") == 0
    rest = stage.search()
    with capsys.disabled():
        print(f"\n{findings.table()}\n{rest.table()}")
    assert not findings.found["arguments of processes"]
    for kind, allowed in HANDED_OVER.items():
        there = findings.found.pop(f"environment of {kind}", set())
        assert {found.partition(",")[0] for found in there} <= allowed, there
    assert not rest.found, dict(rest.found)
    assert all(count > 0 for count in rest.looked_at.values())


def test_a_planted_leak_is_found(stage):
    """A task that prints a password in base64 and returns it in clear."""
    (stage.stack.dags / "leak.py").write_text(textwrap.dedent(LEAK))
    stage.client.wait_for_dag("leak")
    stage.client.pause("leak", False)
    assert stage.run("leak", "one") == "success"
    found = stage.search().found
    assert {"logs of Airflow's tasks", "Airflow's page and API"} <= found.keys()
    assert found["database: XCom"] == {"Kafka's password, xcom"}


SILENT = {"embedded broker", "stand-in of a cloud's store"}
"""Processes that ask nobody who is there, with what they hold: sample data (docs/security.md). The
second is of this suite alone: what stands in for Google's store takes no key."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gets_in_nowhere_else(stage, capsys):
    """Every port and socket of a whole stack at work, each tried with each protocol."""
    stage.send(20)
    stage.stream("neighbour", spark={"keep_warm_seconds": 300})
    assert stage.run("neighbour", "one") == "success"  # its warm driver waits for the next
    found = listeners(stage.processes().items())
    done = tries(found)
    with capsys.disabled():
        print(f"\n{table(done)}")
    assert {one.where for one in done} == {one.where for one in found}
    every = {one.process for one in found}
    assert every >= {"Airflow", "PostgreSQL", "Spark Connect", "object store", *SILENT}, every
    assert every >= {"warm driver", "JVM of the warm driver"}, every
    assert {one.process for one in done if one.let_in} == SILENT
