"""Who may have what, as tables: each operation, each way that Airflow runs a task, each role."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tideline.airflow.dags import operation_dags
from tideline.airflow.fleet_dags import _not_entitled
from tideline.airflow.forms import window_form
from tideline.airflow.step_operators import request_of
from tideline.airflow.stream_dags import stream_dags
from tideline.errors import BadInput
from tideline.stream.files import find_stream

FILE = """\
stream: orders
kafka: {topics: [orders]}
table: {uri: /data/lake/orders}
ledger_uri: LEDGER
decode:
  value: {format: json}
  table: {uri: /data/lake/orders_decoded}
  quarantine: {uri: /data/lake/orders_quarantine}
airflow: AIRFLOW
"""
FILES = {
    "both": "{operators: [olga, bea], approvers: [carol, bea]}",
    "approvers": "{approvers: [carol, bea]}",
    "operators": "{operators: [olga, bea]}",
    "open": "{retries: 1}",
}
RANGES = {"ranges": [{"topic": "orders", "partition": 0, "start_offset": 3, "end_offset": 9}]}
WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
AS_SHOWN = {"from": None, "to": None, "ranges": None, "plan_only": False, "reason": ""}
REWIND = {"to_run": "one", "reason": "why", "confirm": "orders"}
FORMS = {
    "live run": {},
    "form as it is shown": AS_SHOWN,
    "ranges": RANGES,
    "only a reason": {"reason": "why"},
    "shard": {},
    "shard, a window": WINDOW,
    "resolve": {"incident": "incident-1", "choice": "fail", "reason": "why"},
    "audit": {},
    "maintenance": {},
    "redrive": {},
    "rewind": REWIND,
    "rewind, a loss": {**REWIND, "accept_loss": True},
    "erase": {"keys_from": "/nowhere/keys.csv", "reason": "why"},
}
WAYS = {
    # Of a person: who has triggered the run, and perhaps somebody else's clear.
    "trigger": {"run_type": "manual", "run_id": "manual__1"},
    "materialize": {"run_type": "asset_materialization", "run_id": "asset_materialization__1"},
    "retry": {"run_type": "manual", "run_id": "manual__1", "try_number": 2},
    "clear": {"run_type": "manual", "run_id": "manual__1", "clear_number": 1},
    # By the API with `reset_dag_runs: false`: Airflow counts no clear of the run.
    "clear of the task alone": {"run_type": "manual", "run_id": "manual__1", "max_tries": 1},
    "other dag": {"run_type": "operator_triggered", "run_id": "manual__1"},
    "backfill": {"run_type": "backfill", "run_id": "backfill__1"},
    "reprocess a person's": {"run_type": "backfill", "run_id": "manual__1", "clear_number": 1},
    # Of nobody.
    "schedule": {"run_type": "scheduled", "run_id": "scheduled__1"},
    "asset event": {"run_type": "asset_triggered", "run_id": "asset_triggered__1"},
    "reprocess": {"run_type": "backfill", "run_id": "scheduled__1", "clear_number": 1},
}
OF_NOBODY = ("schedule", "asset event", "reprocess")
PEOPLE = {"bea": "b", "carol": "c", "olga": "o", "otto": "x"}
"""Operator and approver, approver, operator, neither: by the file that names both."""

# Who gets through, by letter; for ways of nobody `yes` or nothing.
LIVE = (*["bo"] * 7, "bcox", "yes", "yes", "yes")
ASKS = (*["bo"] * 6, "", "", "", "", "")
ALL, OF_SENDER = "bcox", ("bo", "bo", "bo", "", "", "bo", "bo", "", "", "", "")
ANY_LIVE = (*[ALL] * 8, "yes", "yes", "yes")
ANY_ASKS = (*[ALL] * 6, "", "", "yes", "yes", "")


def deciders(who):
    """A decision is its sender's: nobody knows who has cleared a run, or changed its conf."""
    return (who, who, who, "", "", who, who, "", "", "", "")


NAMED = {
    "live run": LIVE,
    "form as it is shown": LIVE,
    "ranges": ASKS,
    "only a reason": (*["bo"] * 7, "", "", "", ""),
    "shard": LIVE,
    "shard, a window": ASKS,
    "audit": OF_SENDER,
    "maintenance": OF_SENDER,
    "redrive": OF_SENDER,
    "rewind": OF_SENDER,
}
"""Where operators are named."""
UNNAMED = {
    "live run": ANY_LIVE,
    "form as it is shown": ANY_LIVE,
    "ranges": ANY_ASKS,
    "only a reason": (*[ALL] * 7, "", "yes", "yes", ""),
    "shard": ANY_LIVE,
    "shard, a window": ANY_ASKS,
    "audit": ANY_LIVE,
    "maintenance": ANY_LIVE,
    "redrive": ANY_LIVE,
    "rewind": ANY_LIVE,
}
"""Where none are."""
TABLES = {
    "both": NAMED
    | {"resolve": deciders("bc"), "rewind, a loss": deciders("b"), "erase": deciders("b")},
    "approvers": UNNAMED
    | {"resolve": deciders("bc"), "rewind, a loss": deciders("bc"), "erase": deciders("bc")},
    "operators": NAMED
    | {"resolve": deciders("bo"), "rewind, a loss": deciders("bo"), "erase": deciders("bo")},
    "open": UNNAMED | {"resolve": ANY_LIVE, "rewind, a loss": ANY_LIVE, "erase": ANY_LIVE},
}
NAMES_IT = ("resolve", "audit", "maintenance", "redrive", "rewind", "erase")
"""Operations whose form names the stream."""
DAGS = {"maintenance": "tideline_maintenance", "rewind, a loss": "tideline_rewind"}


@pytest.fixture(params=FILES)
def named(request, tmp_path, monkeypatch):
    """A folder whose stream names its people so, and which file that is; nothing is reached."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "http"}')
    text = FILE.replace("LEDGER", f"{tmp_path}/ledger").replace("AIRFLOW", FILES[request.param])
    (tmp_path / "orders.yaml").write_text(text)
    return request.param, tmp_path


def tries_of(folder):
    """How each operation is tried: a call that a run is given to."""
    from airflow.sdk.exceptions import AirflowFailException

    (dag,) = stream_dags(None, folder)
    stream, operations = find_stream("orders", folder), operation_dags(folder)

    def executed(task):
        def execute(run):
            if hasattr(task, "form"):
                task.stream = "orders"  # rendered
            tries = getattr(run, "max_tries", 0) + task.retries
            number = min(getattr(run, "try_number", 1), 1 + task.retries)
            ti = SimpleNamespace(max_tries=tries, try_number=number, task=task)
            context = {"dag_run": run, "ti": ti}
            with pytest.raises(AirflowFailException) as failed:
                task.execute(context | {"params": {}})
            return str(failed.value)

        return execute

    def shard(run):
        try:
            request_of(run, [*window_form()])
        except BadInput as error:
            return error.message
        return "".join(str(found.error) for found in _not_entitled([stream], run))

    tries = {}
    for name in FORMS:
        if name.startswith("shard"):
            tries[name] = shard
        elif name in ("live run", "form as it is shown", "ranges", "only a reason"):
            tries[name] = executed(dag.get_task("plan_offset_ranges"))
        else:
            (task,) = operations[DAGS.get(name, f"tideline_{name}")].tasks
            tries[name] = executed(task)
    return tries


REFUSALS = (
    *("not among airflow.", "names no user", "does not say by whom"),
    *("a backfill runs it again", "a backfill's data interval is its window"),
)
DAY = {"data_interval_start": datetime(2026, 1, 1, tzinfo=UTC)}
DAY["data_interval_end"] = DAY["data_interval_start"] + timedelta(days=1)


def let_in(attempt, way, form):
    """Who gets through, of whom Airflow names for a way."""
    people = {None: "yes"} if way in OF_NOBODY else PEOPLE
    facts = {"dag_id": "dag", "clear_number": 0, **DAY, **WAYS[way]}
    said = {
        letter: attempt(SimpleNamespace(conf=form, triggering_user_name=user, **facts))
        for user, letter in people.items()
    }
    return "".join(k for k, text in said.items() if not any(r in text for r in REFUSALS))


def test_who_gets_through(named):
    """What asks for something of its own needs a known person, and one who may have it."""
    file, folder = named
    wrong = {}
    for operation, attempt in tries_of(folder).items():
        names_it = operation.partition(",")[0] in NAMES_IT
        form = {"stream": "orders", **FORMS[operation]} if names_it else FORMS[operation]
        for way, expected in zip(WAYS, TABLES[file][operation], strict=True):
            found = let_in(attempt, way, form)
            if found != expected:
                wrong[operation, way] = f"got {found}, expected {expected}"
    assert not wrong
