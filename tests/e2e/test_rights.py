"""Four kinds of users of a real Airflow, two streams, every action: the table in docs/rights.md."""

import secrets
from datetime import datetime
from pathlib import Path

import pytest

from devstack.airflow_client import AirflowClient
from devstack.airflow_harness import started
from devstack.process import wait_until
from tests.worlds.streams import closed_incidents, head, table_version
from tideline.errors import ServiceAway
from tideline.wiring import open_ledger

DOCS = Path(__file__).parents[2] / "docs" / "rights.md"
USERS = ("nobody", "vera", "olga", "admin")
DAGS = {
    "resolve": (
        "tideline_resolve",
        "resolve_incidents",
        {"incident": "no-such-incident", "choice": "fail", "reason": "a test"},
    ),
    "audit": ("tideline_audit", "audit_stream", {}),
    "rewind": (
        "tideline_rewind",
        "rewind_stream",
        {"to_run": "no-such-run", "reason": "a test", "confirm": "{stream}"},
    ),
    "maintain": ("tideline_maintenance", "maintain_stream", {"dry_run": True}),
    "redrive": ("tideline_redrive", "redrive_records", {}),
}
REFUSED = "refused by Tideline"
NOT_NAMED = "is not among airflow."


def people(*names):
    """The section of a stream file that names operators, who approve as well."""
    return {"operators": [*names], "retries": 1, "retry_delay_seconds": 1}


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


@pytest.fixture
def users(stack):
    """A client for each kind: without a login, may look, operates one stream, administrator."""
    nobody = AirflowClient(stack.airflow.url, "nobody", secrets.token_urlsafe(12))
    return {"nobody": nobody} | {name: stack.airflow.client(name) for name in USERS[1:]}


def asking(harness, client, name, section):
    """A stream that has landed [0, 10), lost [10, 30), and has a run that asks about it."""
    harness.create(name, partitions=1)
    harness.send(10, name)
    ask = {"retention_loss": "approve"}
    topics = {"topics": [harness.topic(name)]}
    stream = started(
        harness, client, name, kafka=topics, on_reset=ask, on_incident="proceed", airflow=section
    )
    client.trigger(name, "lands")
    assert client.wait_for_run(name, "lands") == "success"
    harness.send(40, name)
    harness.delete_records(before=30, suffix=name)
    client.trigger(name, "asks")
    client.wait_for_question(name, "asks")
    return stream


def outcome(client, dag_id, run_id, task_id):
    """What became of a run that Airflow has taken: whether its task has refused the user."""
    client.wait_for_run(dag_id, run_id)
    return REFUSED if NOT_NAMED in client.log(dag_id, run_id, task_id) else "yes"


def operated(client, user, stream, operation, run_id):
    """Trigger an operation on a stream as a user; what it comes to is told by a call."""
    dag_id, task_id, form = DAGS[operation]
    conf = {k: stream if v == "{stream}" else v for k, v in form.items()}
    return triggered(client, user, dag_id, run_id, {"stream": stream, **conf}, task_id)


def triggered(client, user, dag_id, run_id, conf, task_id):
    """Trigger a run as a user; what it comes to is told by a call."""
    taken = attempted(lambda: user.trigger(dag_id, run_id, conf))
    return lambda: outcome(client, dag_id, run_id, task_id) if taken == "yes" else taken


def refused_by_airflow(error):
    """The status with which Airflow refuses somebody."""
    (status,) = (s for s in ("401", "403") if f"Airflow answers {s}" in str(error))
    return f"refused by Airflow, {status}"


def ready(client, *operations):
    """Unpause the operations' Dags."""
    for operation in operations:
        client.wait_for_dag(DAGS[operation][0])
        client.pause(DAGS[operation][0], False)


def test_only_those_whom_the_file_names_rewind_and_decide(harness, client, users):
    """Airflow lets everybody trigger and answer who may do it with any Dag; then we look."""
    stream = asking(harness, client, "named", people("admin"))
    ready(client, "rewind", "resolve")
    before = head(stream)
    assert operated(client, users["olga"], "named", "resolve", "decided-by-olga")() == REFUSED
    assert operated(client, users["vera"], "named", "resolve", "by-vera")().endswith("403")
    assert operated(client, users["olga"], "named", "rewind", "by-olga")() == REFUSED
    assert operated(client, users["vera"], "named", "rewind", "by-vera")().endswith("403")

    users["olga"].answer("named", "asks", ["accept_loss"], "it is gone")
    client.wait_for_question("named", "asks", times=2)
    (incident,) = open_ledger(stream).read().open_incidents
    assert (incident.decision, head(stream)) == (None, before)

    users["admin"].answer("named", "asks", ["accept_loss"], "it is gone")
    assert client.wait_for_run("named", "asks") == "success"
    (closed,) = closed_incidents(stream)
    assert (closed.decision.by, closed.decision.reason) == ("admin", "it is gone")
    assert open_ledger(stream).find_run("asks").request.by == "admin"


@pytest.mark.slow
def test_every_user_every_action_on_ones_own_stream_and_on_another(harness, client, users):
    """What happens is the table in the documents, line by line."""
    streams = {"hers": people("olga", "admin"), "others": people("otto", "admin")}
    for name, section in streams.items():
        asking(harness, client, name, section)
    ready(client, *DAGS)
    lines = {(user, stream): [] for user in USERS for stream in streams}
    for (name, stream), cells in lines.items():
        cells += cells_of(client, users[name], name, stream)
    told = ((line, [cell() for cell in cells]) for line, cells in lines.items())
    table = "\n".join(f"| {' | '.join((*line, *cells))} |" for line, cells in told)
    print(table)
    assert table in DOCS.read_text()


def cells_of(client, user, name, stream):
    """One line: see, trigger, clear, approve, and the operations; each is told by a call."""
    seen = attempted(lambda: user.run(stream, "lands"))
    conf, run_id = {"plan_only": True}, f"look-by-{name}"
    looks = triggered(client, user, stream, run_id, conf, "plan_offset_ranges")
    again = attempted(lambda: cleared(client, user, stream))
    answer = approved(client, user, stream, asks_again=name != [*USERS][-1])
    rest = [operated(client, user, stream, o, f"{stream}-by-{name}") for o in DAGS]
    return [lambda: seen, looks, lambda: again, lambda: answer, *rest]


def attempted(call):
    """Whether Airflow takes a call."""
    try:
        call()
    except ServiceAway as error:
        return refused_by_airflow(error)
    return "yes"


def cleared(client, user, stream):
    """Clear the last task of the run that has landed; it reads nothing again."""
    user.clear(stream, "lands", ["advance_offsets"])
    client.wait_for_run(stream, "lands")


def approved(client, user, stream, *, asks_again):
    """Answer `fail`, which moves nothing. If it counts, the run ends, and asks the next user."""

    def refusals():
        tries = client.tasks(stream, "asks")["resolve_reset"]["try_number"]
        return client.log(stream, "asks", "resolve_reset", tries).count("asking again")

    before = refusals()
    answer = attempted(lambda: user.answer(stream, "asks", ["fail"], "a test"))
    if answer != "yes":
        return answer

    def has_read_it():
        return client.run(stream, "asks")["state"] == "failed" or refusals() > before

    wait_until(has_read_it, "nobody reads the answer", 120, 1.0)
    if client.run(stream, "asks")["state"] == "failed":
        if asks_again:
            client.clear(stream, "asks", ["resolve_reset"])
            client.wait_for_question(stream, "asks")
        return "yes"
    client.wait_for_question(stream, "asks", times=refusals() + 1)
    return REFUSED


def cleared_by(client, user, dag_id, run_id, task_id):
    """Clear an operation's task as somebody else; what the task says then."""
    before = client.tasks(dag_id, run_id)[task_id]["try_number"]
    user.clear(dag_id, run_id, [task_id])
    wait_until(
        lambda: client.tasks(dag_id, run_id)[task_id]["try_number"] > before, "not cleared", 60, 1.0
    )
    client.wait_for_run(dag_id, run_id)
    return client.log(dag_id, run_id, task_id, before + 1)


@pytest.mark.slow
def test_who_asks_and_what_is_asked_come_from_one_place(harness, client, users, stack, tmp_path):
    """Airflow's backfill puts a conf into a run of nobody; a clear leaves the name of another.

    `otto` has Airflow's right for all of it, and stands in neither stream's file.
    """
    otto, olga = stack.airflow.client("otto"), users["olga"]
    ready(client, "rewind")
    client.wait_for_dag("tideline_erase")
    client.pause("tideline_erase", False)
    harness.create("sched", partitions=1)
    harness.send(10, "sched")
    topics = {"topics": [harness.topic("sched")]}
    stream = started(
        harness,
        client,
        "sched",
        kafka=topics,
        schedule="0 0 * * *",
        airflow=people("admin"),
    )
    wait_until(lambda: client.runs("sched"), "no run on the schedule", 120, 1.0)
    (run,) = client.runs("sched")
    run_id, day = run["dag_run_id"], datetime.fromisoformat(run["logical_date"])
    assert client.wait_for_run("sched", run_id) == "success"
    before, version = open_ledger(stream).find_run(run_id), table_version(stream)
    conf = {
        "ranges": [
            {"topic": harness.topic("sched"), "partition": 0, "start_offset": 3, "end_offset": 9}
        ]
    }
    again = otto.backfill("sched", day, day, reprocess="completed", conf=conf)
    client.wait_for_backfill(again)
    assert client.run("sched", run_id)["state"] == "failed"
    said = client.log("sched", run_id, "plan_offset_ranges", 2)
    assert "names no user" in said
    assert (open_ledger(stream).find_run(run_id), table_version(stream)) == (before, version)

    harness.create("losses", partitions=1)
    harness.send(10, "losses")
    topics = {"topics": [harness.topic("losses")]}
    section = {"approvers": ["olga"], "retries": 0}
    stream = started(harness, client, "losses", kafka=topics, airflow=section)
    client.trigger("losses", "lands")
    assert client.wait_for_run("losses", "lands") == "success"
    form = {
        "stream": "losses",
        "to_run": "lands",
        "reason": "a test",
        "confirm": "losses",
        "accept_loss": True,
    }
    of_olga = ("tideline_rewind", "of-olga", "rewind_stream")
    olga.trigger(*of_olga[:2], form)
    assert client.wait_for_run(*of_olga[:2]) == "success"
    harness.send(10, "losses")
    client.trigger("losses", "lands-more")
    assert client.wait_for_run("losses", "lands-more") == "success"
    version = table_version(stream)
    assert "does not say by whom" in cleared_by(client, otto, *of_olga)

    keys = tmp_path / "keys.csv"
    keys.write_text("kafka_key\nno-such-key\n")
    erases = ("tideline_erase", "of-olga", "erase_records")
    form = {"stream": "losses", "keys_from": str(keys), "reason": "a test"}
    olga.trigger(*erases[:2], form)
    client.wait_for_run(*erases[:2])
    assert "does not say by whom" not in client.log(*erases)
    assert "does not say by whom" in cleared_by(client, otto, *erases)
    assert table_version(stream) == version
