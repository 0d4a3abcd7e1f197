"""The page where only Airflow's database has the connections, and brokers that refuse topics."""

import json
import os

import httpx
import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from devstack.airflow_services import EmbeddedAirflow
from devstack.harness import StreamHarness
from devstack.process import wait_until
from tests.worlds.build import head
from tests.worlds.secured_broker import PASSWORD, connect
from tideline.page.page_answers import build_list
from tideline.page.sources import Sources
from tideline.wiring import open_ledger

pytestmark = pytest.mark.slow


@pytest.fixture
def harness(secured, tmp_path, request):
    """Streams whose connection may do all."""
    made = StreamHarness(secured.broker, tmp_path, request.node.name.replace("_", "-")[5:25])
    connect(made, secured.settings("SASL_SSL"))
    made.create("orders", partitions=2)
    return made


def write_head(stream):
    open_ledger(stream).update(lambda state: state.with_head(head()))


def test_one_topic_that_may_not_be_read_hides_no_other(harness, secured):
    """Two streams share a connection, and its user lacks a right to the topic of one."""
    harness.create("closed")
    for stream in (harness.stream(name="shown"), harness.stream(["closed"], name="closed")):
        write_head(stream)
    connect(harness, secured.settings("SASL_SSL", sasl_username="guest"))
    pattern = ResourcePattern(ResourceType.TOPIC, harness.topic())
    operations = (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
    with harness.admin() as admin:
        admin.create_acls(
            [ACL("User:guest", "*", o, ACLPermissionType.ALLOW, pattern) for o in operations]
        )
    sources = Sources(harness.folder)
    wait_until(lambda: is_settled(sources), "the streams are not settled", 60)
    closed, shown = build_list(sources.views(sources.names())).streams
    assert (closed.stream, shown.stream) == ("closed", "shown")
    said = f"topic {harness.topic('closed')}: TopicAuthorizationFailedError"
    assert (closed.status.is_measured, closed.status.problem) == (False, said)
    assert (shown.status.is_measured, shown.status.problem) == (True, None)


def is_settled(sources):
    views = sources.views(sources.names())
    return all(v.ledger.value and v.brokers.value and not v.is_pending for v in views)


@pytest.fixture
def site(harness, object_store, monkeypatch):
    """An Airflow whose server has no connection in its environment, and two streams."""
    variable = f"AIRFLOW_CONN_{harness.connection.upper()}"
    connections = {
        harness.connection: json.loads(os.environ[variable]),
        "store": object_store.store.connection(),
    }
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(connections["store"]))
    in_a_store = harness.stream(
        name="in_a_store", table={"uri": "s3a://lake/page/in_a_store", "connection": "store"}
    )
    in_airflow = harness.stream(name="in_airflow", ledger="airflow", ledger_connection="books")
    airflow = EmbeddedAirflow(harness.folder / "home", harness.folder, {})
    connections["books"] = json.loads(airflow.ledger_connection)
    monkeypatch.setenv("AIRFLOW_CONN_BOOKS", airflow.ledger_connection)
    airflow.start_pages()
    for stream in (in_a_store, in_airflow):
        write_head(stream)
    token = httpx.post(f"{airflow.url}/auth/token", json=airflow.login("admin")).json()
    bearer = {"Authorization": f"Bearer {token['access_token']}"}
    cookies = {"_token": token["access_token"]}
    with httpx.Client(base_url=airflow.url, headers=bearer, cookies=cookies) as client:
        yield client, connections
    airflow.stop()


def test_connections_are_found_in_airflow_s_database(site, harness):
    """Missing, then made, then with a wrong password, then right: the page follows each."""
    client, connections = site

    def listed():
        answer = client.get("/tideline/api/v1/streams")
        assert answer.status_code == 200
        return {one["stream"]: one for one in answer.json()["streams"]}

    def wait(fits, what):
        wait_until(lambda: fits(listed()), f"{what}: {json.dumps(listed(), indent=1)}", 90)

    wait(
        lambda found: (
            all(
                name in found[stream]["ledger"]["problem"]
                for stream, name in (("in_a_store", "store"), ("in_airflow", "books"))
            )
            if all(one["ledger"]["problem"] for one in found.values())
            else False
        ),
        "no connection is missed",
    )
    for name, connection in connections.items():
        extra = json.dumps(connection.get("extra", {}))
        body = {**connection, "connection_id": name, "extra": extra}
        assert client.post("/api/v2/connections", json=body).status_code == 201
    wait(
        lambda found: all(
            one["ledger"]["problem"] is None
            and one["status"]["is_measured"]
            and one["brokers"]["problem"] is None
            for one in found.values()
        ),
        "not everything answers",
    )

    def change(password):
        extra = {**connections[harness.connection]["extra"], "sasl.password": password}
        path = f"/api/v2/connections/{harness.connection}"
        body = {"connection_id": harness.connection, "conn_type": "kafka"}
        answer = client.patch(path, json={**body, "extra": json.dumps(extra)})
        assert answer.status_code == 200, answer.text

    change("wrong")
    wait(
        lambda found: all("authentication" in str(o["brokers"]["problem"]) for o in found.values()),
        "no refusal is told",
    )
    assert all(one["brokers"]["asked_at"] for one in listed().values())
    change(PASSWORD)
    wait(
        lambda found: all(one["brokers"]["problem"] is None for one in found.values()),
        "the right password is not used",
    )
