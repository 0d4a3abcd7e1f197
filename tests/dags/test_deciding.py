"""Decisions by the form of `tideline_resolve`: about one incident, about several, about none."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.worlds.build import OTHER_ID
from tideline.airflow.dags import operation_dags
from tideline.model.incident import Finding
from tideline.model.offsets import OffsetRange
from tideline.stream.files import find_stream
from tideline.wiring import open_ledger

AT = datetime(2026, 1, 1, tzinfo=UTC)
FORM = {"stream": "orders", "incident": "incident-1", "choice": "accept_loss", "reason": "tests"}


@pytest.fixture
def ledger(tmp_path):
    """Of a stream that says nothing about resets; two of its partitions have halted a run."""
    text = f"stream: orders\nkafka: {{topics: [orders]}}\ntable: {{uri: {tmp_path}/orders}}\n"
    (tmp_path / "orders.yaml").write_text(text)
    found = open_ledger(find_stream("orders", tmp_path))
    lost = [
        Finding("retention_loss", "4", "6", "orders", OTHER_ID, p, (OffsetRange(4, 6),))
        for p in (0, 1)
    ]
    found.update(lambda state: state.with_incidents(lost, "one", AT))
    return found


@pytest.fixture
def send(ledger, tmp_path):
    """Send the form as a user."""
    (task,) = operation_dags(tmp_path)["tideline_resolve"].tasks

    def send(**changes):
        conf = {**FORM, **changes}
        run = SimpleNamespace(conf=conf, triggering_user_name="ann", clear_number=0)
        return task.execute({"dag_run": run})

    return send


def decisions(ledger):
    return [
        d and (d.choice, d.by, d.reason) for d in (i.decision for i in ledger.read().open_incidents)
    ]


def test_a_default_stream_is_answered(ledger, send):
    """Its policy is `fail`; the decision waits for a run, with who decided and why."""
    assert send() == ["incident-1"]
    assert decisions(ledger) == [("accept_loss", "ann", "tests"), None]


def test_one_form_answers_several(ledger, send):
    """Like incidents share a choice."""
    assert send(incident="incident-1, incident-2") == ["incident-1", "incident-2"]
    assert decisions(ledger) == [("accept_loss", "ann", "tests")] * 2


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"incident": "incident-1,incident-9"},
            "got 'incident-9'; allowed: incident-1, incident-2",
        ),
        ({"incident": " , "}, "incident: got ' , ', which names nothing"),
        ({"choice": "restart"}, "choice: got 'restart'; allowed: accept_loss"),
        ({"reason": " "}, "reason: got nothing"),
        ({"reason": "x" * 2001}, "reason: got 2,001 characters"),
        ({"reason": None}, "reason: got nothing; it is needed"),
        ({"who": "ann"}, "who: unknown key; allowed: stream, incident, choice, reason"),
    ],
)
def test_a_form_that_is_not_right_decides_nothing(ledger, send, changes, problem):
    """Not even about the incidents that are named rightly."""
    with pytest.raises(AirflowFailException) as refused:
        send(**changes)
    assert problem in str(refused.value)
    assert decisions(ledger) == [None, None]
