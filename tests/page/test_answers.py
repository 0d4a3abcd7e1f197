"""What the page's API says of real ledgers and brokers; whoever calls may read everything here."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from shlex import split

import pytest
from fastapi.testclient import TestClient

from devstack.harness import StreamHarness
from devstack.page_api import description
from devstack.process import wait_until
from tests.worlds.build import OTHER_ID
from tideline.cli.main import main
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import kafka_settings
from tideline.model.head import KnownCommit, LandedDay, PartitionPosition
from tideline.model.incident import Finding
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord
from tideline.page import routes as access
from tideline.page import sources
from tideline.page.app import build_app
from tideline.stream.files import read_stream
from tideline.wiring import open_ledger

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def harness(broker, tmp_path, request):
    return StreamHarness(broker, tmp_path, request.node.name.replace("_", "-")[5:40])


@pytest.fixture
def stream(harness):
    """Two partitions with ten records each; its run has landed some, and lost some."""
    harness.create("orders", partitions=2)
    harness.send(10, partition=0)
    harness.send(10, partition=1)
    return harness.stream()


@pytest.fixture
def api(stream, harness):
    """A client of the application; Airflow is not asked who calls."""
    app = build_app(harness.folder)
    app.dependency_overrides[access.LOGGED_IN.dependency] = lambda: None
    app.dependency_overrides[access.MAY_READ.dependency] = lambda: None
    app.dependency_overrides[access._readable] = lambda: {stream.stream, "another"}
    with TestClient(app, base_url="http://testserver/api/v1") as client:
        yield client


def settled(api, path):
    """The answer once nothing is being asked in the background."""
    answers = []

    def is_settled():
        answer = api.get(path)
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
        return not answers[-1]["refreshing"]

    wait_until(is_settled, f"{path} is not settled", 60)
    return answers[-1]


def steady(partition):
    """A partition's answer without its headroom: a later look measures or estimates it anew."""
    return {key: value for key, value in partition.items() if key != "headroom"}


def identity(stream):
    """The cluster's id and the topic's."""
    with KafkaCluster(kafka_settings(stream.kafka.connection)) as cluster:
        observed = cluster.observe(stream.kafka.topics, {})
    return observed.cluster_id, observed.topics[0].topic_id


def write_ledger(stream, **facts):
    """A head as runs leave it: [0, 4) landed of partition 0, [2, 6) of partition 1."""
    cluster, found = identity(stream)
    topic = stream.kafka.topics[0]
    logs = [PartitionIdentity(found, 0, p) for p in (0, 1)]

    def change(state):
        head = state.head
        return state.with_head(
            replace(
                head,
                cluster_id=cluster,
                positions=(
                    PartitionPosition(topic, found, 0, 0, 4, 0),
                    PartitionPosition(topic, found, 0, 1, 6, 0),
                ),
                coverage=Places(
                    {
                        logs[0]: (OffsetRange(0, 4),),
                        logs[1]: (OffsetRange(0, 1), OffsetRange(2, 6)),
                        PartitionIdentity(OTHER_ID, 0, 0): (OffsetRange(0, 7),),
                    }
                ),
                backfilled=Places({logs[0]: (OffsetRange(0, 2),)}),
                days=(LandedDay(date(2026, 1, 1), 9, 900),),
                **facts,
            )
        )

    open_ledger(stream).update(change)
    return found


def bands(partition):
    return {
        (log["topic_id"], log["current"]): [
            (b["kind"], b["start_offset"], b["end_offset"]) for b in log["bands"]
        ]
        for log in partition["logs"]
    }


def test_before_the_first_run_there_is_nothing_to_show(api, stream):
    """The ledger is empty, and nothing is created by looking."""
    answer = settled(api, f"/streams/{stream.stream}")
    assert answer["status"]["state"] == "never_run"
    assert (answer["actions"][0]["title"], answer["incidents"]) == ("Run now", [])
    assert settled(api, f"/streams/{stream.stream}/partitions")["total"] == 0
    assert api.get(f"/streams/{stream.stream}/runs").json() == {"runs": [], "more": False}


def test_one_stream_as_the_ledger_and_the_brokers_tell_it(api, stream):
    """Positions, ends, bands of both generations, and offsets to land as the form wants them."""
    found = write_ledger(stream)
    page = settled(api, f"/streams/{stream.stream}/partitions?sort=partition")
    first, second = page["partitions"]
    assert [
        (p["next_offset"], p["log_start_offset"], p["end_offset"], p["lag"])
        for p in (first, second)
    ] == [(4, 0, 10, 6), (6, 0, 10, 4)]
    assert page["skew"] == {"total": 10, "largest": 6, "median": 4, "p99": 6}
    assert bands(first) == {
        (OTHER_ID, False): [("landed", 0, 7)],
        (found, True): [("backfilled", 0, 2), ("landed", 2, 4), ("unread", 4, 10)],
    }
    assert bands(second)[found, True][:3] == [("landed", 0, 1), ("gap", 1, 2), ("landed", 2, 6)]
    again = settled(api, f"/streams/{stream.stream}/partitions")["partitions"][0]
    assert steady(again) == steady(first)
    stream_page = settled(api, f"/streams/{stream.stream}")
    assert stream_page["days"] == [
        {"day": "2026-01-01", "rows": 9, "bytes": 900, "unread": 0, "headroom_seconds": None}
    ]
    (fill,) = [json.loads(a["fill"]) for a in stream_page["actions"] if "skipped" in a["title"]]
    topic = stream.kafka.topics[0]
    assert fill == [{"topic": topic, "partition": 1, "start_offset": 1, "end_offset": 2}]


def test_the_page_and_the_command_line_agree(api, stream, harness, capsys, monkeypatch):
    """One model for both."""
    write_ledger(stream)
    settled(api, "/streams")
    api.app.state.sources._brokers._asked.clear()  # a look that knows the ledger: it measures
    answer = settled(api, "/streams")
    monkeypatch.setenv("TIDELINE_STREAMS", str(harness.folder))
    assert main(["status", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["streams"]
    (shown,) = [s["status"] for s in answer["streams"]]
    left = [one.pop("headroom_seconds") for one in (shown, told)]
    assert 0 < left[1] <= left[0] < left[1] + 300
    assert shown["headroom_estimated"]
    assert shown == told
    file = str(harness.folder / f"{stream.stream}.yaml")
    place = (stream.kafka.topics[0], "0", "3")
    assert main(["explain", file, *place, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert api.get(f"/streams/{stream.stream}/records/{'/'.join(place)}").json() == told


def test_an_incident_leads_to_airflow_s_own_form(api, stream, harness):
    """The run that asks; where none does, the Dag that decides, and the command with its file."""
    found = write_ledger(stream)
    topic = stream.kafka.topics[0]
    finding = Finding("retention_loss", "4", "6", topic, found, 0, (OffsetRange(4, 6),))
    ledger = open_ledger(stream)
    ledger.update(lambda s: s.with_incidents([finding], "scheduled__1+00:00", NOW))
    answer = settled(api, f"/streams/{stream.stream}")
    assert answer["status"]["state"] == "halted"
    first = answer["actions"][0]
    assert (first["url"], first["incident"]) == ("dags/tideline_resolve", "incident-1")
    assert [c["choice"] for c in first["choices"]] == ["accept_loss"]
    file = str(harness.folder / f"{stream.stream}.yaml")
    assert split(first["command"])[:4] == ["tideline", "resolve", file, "--incident"]
    ledger.update(lambda s: s.with_question(s.open_incidents, "scheduled__1+00:00"))
    shown = wait_until_asked(api, stream)
    assert shown["actions"][0]["url"] == (
        f"dags/{stream.stream}/runs/scheduled__1%2B00%3A00/tasks/resolve_reset/required_actions"
    )
    (incident,) = api.get(f"/streams/{stream.stream}/incidents").json()["incidents"]
    assert (incident["class"], incident["lost_start"], incident["lost_end"]) == (
        "retention_loss",
        4,
        6,
    )
    partitions = settled(api, f"/streams/{stream.stream}/partitions?sort=partition")["partitions"]
    assert ("at_stake", 4, 6) in bands(partitions[0])[found, True]


def wait_until_asked(api, stream):
    found = {}

    def is_waiting():
        found.update(api.get(f"/streams/{stream.stream}").json())
        return found["status"]["state"] == "waiting"

    wait_until(is_waiting, "the page does not see the question", 60)
    return found


def test_runs_are_the_newest_first_and_a_shell_s_run_has_no_page(api, stream):
    """Open runs come before closed ones."""
    ledger = open_ledger(stream)
    for name, by in (("one", None), ("two", "os:ann")):
        record = RunRecord(name, "live", "planned", "d", NOW, request=RunRequest(by=by))
        ledger.update(lambda s, r=record: s.with_run(r))
        ledger.update(lambda s, r=record: s.with_run(replace(r, status="nothing_to_do")))
    ledger.update(lambda s: s.with_run(RunRecord("now", "live", "planned", "d", NOW)))
    answer = api.get(f"/streams/{stream.stream}/runs").json()
    assert [(r["run_id"], r["url"]) for r in answer["runs"]] == [
        ("now", f"dags/{stream.stream}/runs/now"),
        ("two", None),
        ("one", f"dags/{stream.stream}/runs/one"),
    ]
    assert api.get(f"/streams/{stream.stream}/runs?count=2").json()["more"] is True


def test_a_run_that_halts_says_at_which_incidents(api, stream):
    """Its record stays a proposal, which is no word for it."""
    found = write_ledger(stream)
    topic = stream.kafka.topics[0]
    finding = Finding("retention_loss", "4", "6", topic, found, 0, (OffsetRange(4, 6),))
    ledger = open_ledger(stream)
    ledger.update(lambda s: s.with_run(RunRecord("halts", "live", "proposed", "d", NOW)))
    (run,) = api.get(f"/streams/{stream.stream}/runs").json()["runs"]
    assert (run["status"], run["incidents"]) == ("proposed", [])
    ledger.update(lambda s: s.with_incidents([finding], "halts", NOW))
    (run,) = api.get(f"/streams/{stream.stream}/runs").json()["runs"]
    assert run["incidents"] == ["incident-1"]


def test_brokers_that_are_away_leave_what_they_said_last(api, stream, harness, monkeypatch):
    """With its age, and with what is wrong; the ledger is asked all the same."""
    monkeypatch.setattr(sources, "_BROKER_PATIENCE", 0.5)
    write_ledger(stream)
    before = settled(api, f"/streams/{stream.stream}")
    assert before["brokers"]["problem"] is None
    harness.connect("127.0.0.1:1")
    api.app.state.sources._brokers._asked.clear()
    api.get(f"/streams/{stream.stream}")
    after = settled(api, f"/streams/{stream.stream}")
    assert "127.0.0.1:1" in after["brokers"]["problem"]
    assert after["brokers"]["asked_at"] == before["brokers"]["asked_at"]
    assert after["status"]["offset_lag"] == before["status"]["offset_lag"] == 10
    assert after["ledger"]["problem"] is None


def test_a_ledger_that_cannot_be_read_is_said_and_the_others_are_shown(api, stream, harness):
    """Damaged, moved or away: in its own row."""
    write_ledger(stream)
    other = harness.stream(name="another", table={"uri": f"{harness.lake}/another"})
    ledger = open_ledger(other)
    ledger.update(lambda s: s.with_next_token())
    base = ledger.store.read()
    ledger.store.commit(base, put={"head": "{}}"})
    damaged, sound = settled(api, "/streams")["streams"]
    assert (damaged["stream"], damaged["status"]) == ("another", None)
    assert "document head" in damaged["ledger"]["problem"]
    assert (sound["status"]["state"], sound["ledger"]["problem"]) == ("behind", None)


def test_looking_writes_nothing(api, stream, harness):
    """Every route, then every file is as it was."""
    write_ledger(stream)
    before = {p: p.stat().st_mtime_ns for p in harness.folder.rglob("*") if p.is_file()}
    for path in (
        "",
        "/partitions",
        "/runs",
        "/incidents",
        f"/records/{stream.kafka.topics[0]}/0/0",
    ):
        assert api.get(f"/streams/{stream.stream}{path}").status_code == 200
    settled(api, "/streams")
    assert {p: p.stat().st_mtime_ns for p in harness.folder.rglob("*") if p.is_file()} == before


def test_many_streams_ask_their_brokers_once(api, stream, harness, monkeypatch):
    """However many streams there are and however many people look: one look in ten seconds."""
    looks = []
    observe = KafkaCluster.observe

    def counted(self, topics, epochs):
        topics = set(topics)
        found = observe(self, topics, epochs)
        looks.append((len(topics), self.requests))
        return found

    monkeypatch.setattr(KafkaCluster, "observe", counted)
    text = (harness.folder / f"{stream.stream}.yaml").read_text()
    names = {f"many-{n}" for n in range(100)}
    for name in names:
        (harness.folder / f"{name}.yaml").write_text(text.replace(stream.stream, name))
    api.app.dependency_overrides[access._readable] = lambda: names
    for _ in range(20):
        api.get("/streams")
        api.get("/streams/many-1")
    answer = settled(api, "/streams")
    assert len(answer["streams"]) == 100
    assert len(looks) == 1
    assert looks[0][1] <= 6, "one request for each leader and kind, whatever the streams"


def test_the_description_of_the_api_is_that_of_the_application():
    """`make schema` writes it; paths and fields change with the code only."""
    assert (ROOT / "docs/page.openapi.json").read_text() == description()


@pytest.fixture
def rare_looks(monkeypatch):
    """The brokers are asked so rarely that a busy machine has time for the rest in between."""
    monkeypatch.setattr(sources, "_BROKERS_EVERY", 25)


def test_a_run_that_lands_between_two_looks_raises_no_doubt(rare_looks, api, stream):
    """The ledger is asked more often: its next offset may lie above the end that was seen."""
    write_ledger(stream)
    before = settled(api, f"/streams/{stream.stream}")
    assert (before["status"]["problem"], before["status"]["is_measured"]) == (None, True)

    def land(state):
        first, *others = state.head.positions
        return state.with_head(
            replace(state.head, positions=(replace(first, next_offset=30), *others))
        )

    open_ledger(stream).update(land)
    found = []

    def has_landed():
        found.append(api.get(f"/streams/{stream.stream}").json())
        return found[-1]["status"]["offset_lag"] == 4

    wait_until(has_landed, "the page does not see the new position", 20)
    assert found[-1]["brokers"]["asked_at"] == before["brokers"]["asked_at"]
    assert {one["status"]["problem"] for one in found} == {None}
    # Nothing has been written: the next look finds the log cut.
    wait_until(
        lambda: "ends at 10" in str(settled(api, f"/streams/{stream.stream}")["status"]["problem"]),
        "a cut log is not told",
        60,
    )


def test_a_ledger_that_moves_is_read_where_the_file_says(api, stream, harness):
    """The stream file names another location, whose ledger happens to have the same version."""
    write_ledger(stream)
    assert settled(api, f"/streams/{stream.stream}")["status"]["offset_lag"] == 10
    moved = harness.stream(table={"uri": f"{harness.lake}/elsewhere"})
    open_ledger(moved).update(lambda state: state.with_head(state.head))
    assert open_ledger(moved).read().version == open_ledger(stream).read().version

    def is_there():
        page = settled(api, f"/streams/{stream.stream}")
        return page["table"].endswith("elsewhere") and page["status"]["state"] == "never_run"

    wait_until(is_there, "the page shows the ledger of before", 30)


def test_streams_of_a_fleet_belong_to_the_dag_that_lands_them(harness):
    """With shards that is the fleet's: rights, links and commands go by it."""
    topic = harness.create("one", partitions=1)
    harness.send(3, suffix="one")
    text = f"""\
fleet: herd
shards: 2
topics: [{topic}]
stream:
  stream: "{{topic}}"
  kafka: {{connection: {harness.connection}}}
  table: {{uri: "{harness.lake}/{{topic}}"}}
"""
    (harness.folder / "herd.yaml").write_text(text)
    stream = read_stream(harness.folder / "herd.yaml", topic)
    cluster, found = identity(stream)
    position = PartitionPosition(topic, found, 0, 0, 1, 0)
    covered = Places({PartitionIdentity(found, 0, 0): (OffsetRange(0, 1),)})
    commit = KnownCommit(1, 1, "plan-1", "run-1", ())
    facts = {"cluster_id": cluster, "positions": (position,), "coverage": covered}
    open_ledger(stream).update(
        lambda state: state.with_head(replace(state.head, **facts, commits=(commit,)))
    )
    app = build_app(harness.folder)
    app.dependency_overrides[access.LOGGED_IN.dependency] = lambda: None
    app.dependency_overrides[access._readable] = lambda: {"herd", topic}
    app.dependency_overrides[access.MAY_READ.dependency] = lambda: None
    with TestClient(app, base_url="http://testserver/api/v1") as client:
        (listed,) = settled(client, "/streams")["streams"]
        assert (listed["stream"], listed["fleet"]) == (topic, "herd")
        one = settled(client, f"/streams/{topic}")
        assert one["dag_id"] == app.state.sources.dag_of(topic) == "herd"
        commands = [split(a["command"]) for a in one["actions"] if a["command"]]
        file = str(harness.folder / "herd.yaml")
        again = ["tideline", "run", file, "--stream", topic, "--run-id", "run-1"]
        assert again in commands
        assert all(a["url"].startswith(("dags/herd", "dags/tideline_")) for a in one["actions"])
    app.dependency_overrides[access._readable] = lambda: {topic}
    with TestClient(app, base_url="http://testserver/api/v1") as client:
        assert client.get("/streams").json()["streams"] == []
