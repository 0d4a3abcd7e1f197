"""Each task that acts on a stream asks first whether its user may."""

import re
from types import SimpleNamespace

import pytest

from tideline.airflow import operations, operators
from tideline.airflow.dags import operation_dags
from tideline.airflow.stream_dags import stream_dags

FILE = """\
stream: orders
kafka: {topics: [orders]}
table: {uri: /data/lake/orders}
ledger_uri: LEDGER
decode:
  value: {format: json}
  table: {uri: /data/lake/orders_decoded}
  quarantine: {uri: /data/lake/orders_quarantine}
airflow:
  operators: [olga]
  approvers: [carol]
  access_control: {Data: {DAGs: [can_read, can_edit], DAG Runs: [can_create]}}
"""
FORMS = {
    "tideline_audit": {},
    "tideline_maintenance": {},
    "tideline_redrive": {},
    "tideline_rewind": {"to_run": "one", "reason": "why", "confirm": "orders"},
}
DECISION = {"incident": "incident-1", "choice": "fail", "reason": "why"}


@pytest.fixture
def streams(tmp_path, monkeypatch):
    """A folder with one stream that names its people; its connection cannot be used."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "http"}')
    (tmp_path / "orders.yaml").write_text(FILE.replace("LEDGER", f"{tmp_path}/ledger"))
    return tmp_path


def run_by(user, conf=None, clears=0):
    """What a task is told about its run."""
    dag_run = SimpleNamespace(
        conf=conf or {},
        dag_id="dag",
        run_id="r",
        run_type="manual",
        triggering_user_name=user,
        clear_number=clears,
    )
    return {"dag_run": dag_run, "params": {}}


def refusal(task, context):
    """What the task fails with; that it did not begin is shown by what it fails with."""
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException) as failed:
        task.execute(context)
    return str(failed.value)


def test_every_task_of_a_stream_refuses_a_user_who_is_not_named(streams):
    """Whichever task they clear or start; with the right user it goes on, to the connection."""
    (dag,) = stream_dags(None, streams)
    assert len(dag.tasks) == 8
    for task in dag.tasks:
        assert "user otto is not among airflow.operators" in refusal(task, run_by("otto"))
        assert "connection kafka_default: type 'http'" in refusal(task, run_by("olga"))
        assert "connection kafka_default: type 'http'" in refusal(task, run_by(None))


@pytest.mark.parametrize("dag_id", FORMS)
def test_every_operation_refuses_a_user_whom_the_named_stream_does_not_name(streams, dag_id):
    """One right for the Dag is not a right for each stream."""
    (task,) = operation_dags(streams)[dag_id].tasks
    if dag_id == "tideline_audit":
        task.stream = "orders"  # rendered
    form = {"stream": "orders", **FORMS[dag_id]}
    assert "user otto is not among airflow.operators" in refusal(task, run_by("otto", form))
    assert "names no user" in refusal(task, run_by(None, form))
    assert "does not say by whom" in refusal(task, run_by("olga", form, clears=1))
    assert "connection kafka_default: type" in refusal(task, run_by("olga", form))


def test_a_loss_is_an_approver_s_to_accept(streams):
    """An operator may rewind, unless rows would be lost for good."""
    (task,) = operation_dags(streams)["tideline_rewind"].tasks
    form = {"stream": "orders", **FORMS["tideline_rewind"], "accept_loss": True}
    assert "user olga is not among airflow.approvers" in refusal(task, run_by("olga", form))


def test_an_erasure_is_for_who_may_operate_and_approve(streams, tmp_path, monkeypatch):
    """Of every stream that the form means, before any is touched; then the keys' file counts."""
    (task,) = operation_dags(streams)["tideline_erase"].tasks
    keys = tmp_path / "keys.csv"
    form = {"stream": "or*", "keys_from": str(keys), "reason": "why"}
    assert "user otto is not among airflow.operators" in refusal(task, run_by("otto", form))
    assert "user olga is not among airflow.approvers" in refusal(task, run_by("olga", form))
    assert "names no user" in refusal(task, run_by(None, form))
    both = FILE.replace("[carol]", "[carol, olga]").replace("LEDGER", f"{tmp_path}/ledger")
    (streams / "orders.yaml").write_text(both)
    assert "does not say by whom" in refusal(task, run_by("olga", form, clears=1))
    assert "keys_from: TIDELINE_ERASE_KEYS names no folder" in refusal(task, run_by("olga", form))
    monkeypatch.setenv("TIDELINE_ERASE_KEYS", str(tmp_path))
    assert "keys.csv: cannot be read" in refusal(task, run_by("olga", form))
    keys.write_text("id\n4711\n")
    assert "connection kafka_default: type" in refusal(task, run_by("olga", form))
    other = FILE.replace("LEDGER", f"{tmp_path}/other").replace("stream: orders", "stream: orphans")
    (streams / "orphans.yaml").write_text(other)
    assert "user olga is not among airflow.approvers" in refusal(task, run_by("olga", form))


def test_a_decision_is_an_approver_s(streams):
    """As in the form of `resolve_reset`: an operator is none, where approvers are named."""
    (task,) = operation_dags(streams)["tideline_resolve"].tasks
    form = {"stream": "orders", **DECISION}
    assert "user olga is not among airflow.approvers" in refusal(task, run_by("olga", form))
    assert "names no user" in refusal(task, run_by(None, form))
    assert "does not say by whom" in refusal(task, run_by("carol", form, clears=1))
    assert "incident: got 'incident-1'; allowed: none" in refusal(task, run_by("carol", form))


def test_a_dag_s_author_has_chosen_the_stream(streams):
    """On a schedule nobody is there to ask; whoever triggers it is asked for."""
    for kind in (operations.AuditStream, operations.MaintainStream, operations.RedriveRecords):
        task = kind(task_id="t", stream="orders", folder=streams)
        assert "connection kafka_default: type" in refusal(task, run_by(None))
        assert "user otto is not among" in refusal(task, run_by("otto"))


def test_an_answer_of_somebody_else_is_asked_again(streams, monkeypatch):
    """Airflow lets everybody answer who may edit the Dag's runs."""
    task = stream_dags(None, streams)[0].get_task("resolve_reset")
    asked, answered = [], []
    monkeypatch.setattr(operators.ResolveReset, "execute", lambda self, context: asked.append(1))
    monkeypatch.setattr(operators, "open_ledger", lambda stream: answered.append(1))
    event = {"chosen_options": ["accept_loss"], "params_input": {}}
    for user in ("olga", "otto", None):
        answer = {**event, "responded_by_user": user and {"id": "carol", "name": user}}
        task.execute_complete(run_by(None), answer)
    assert (len(asked), answered) == (3, [])


def test_the_dag_carries_the_roles_of_the_file(streams):
    """The auth manager that knows roles by Dag reads them there."""
    (dag,) = stream_dags(None, streams)
    expected = {"Data": {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_create"}}}
    assert dag.access_control == expected


OTHER = """\
stream: secret-salaries
kafka: {topics: [orders]}
table: {uri: /data/lake/salaries}
airflow: {operators: [carol]}
"""
MINE = OTHER.replace("secret-salaries", "mine").replace("carol", "olga").replace("/s", "/m")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("*", "stream: 2 of the 3 streams that are meant are not theirs: user olga is not among"),
        (
            "s*,mine",
            "stream: 1 of the 2 streams that are meant are not theirs: user olga is not among",
        ),
        ("orders", "stream orders: user olga is not among airflow.approvers"),
    ],
)
def test_a_pattern_tells_nobody_the_names_of_others_streams(streams, names, said):
    """They are told how many there are; a name that they have given themselves is no secret."""
    (streams / "salaries.yaml").write_text(OTHER)
    (streams / "mine.yaml").write_text(MINE)
    form = {"stream": names, "keys_from": "/k.csv", "reason": "why"}
    task = operations.EraseRecords(task_id="erase_records", folder=streams)
    found = refusal(task, run_by("olga", form))
    assert re.search(said, found)
    assert "salaries" not in found
