"""A real Airflow's metrics, told to Prometheus' engine: a topic is re-created, the alert fires."""

import re
import time

import pytest

from devstack.airflow_harness import started, states
from tests.worlds.prometheus import Evaluation, name_of, panels
from tideline.model.metrics import METRICS, STEP_SECONDS, SUCCEEDED_AT
from tideline.wiring import open_ledger

# Go may have to build promtool first, which takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PHASE = 60
"""Minutes that each state lasts: every rule's `for` is over by its end."""
PUBLISHED = {name_of(m) for m in METRICS if m.when != "`verify_decoded`"}


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


def names(gauges):
    return {re.sub(r"\{.*", "", key) for key in gauges}


def test_a_recreated_topic_fires_its_alert_and_a_decision_ends_it(
    harness, client, statsd, tmp_path
):
    """Nothing fires before the incident; then exactly its alert; nothing once it is carried out.

    Each run's gauges, as the StatsD server has them after it, are an hour of series.
    """
    began = int(time.time())

    def after(run_id, state):
        client.trigger("watched", run_id)
        assert client.wait_for_run("watched", run_id) == state
        last = "advance_offsets" if state == "success" else "detect_earliest_reset"
        task = client.tasks("watched", run_id)[last]
        assert task["state"] == ("success" if state == "success" else "failed"), states(
            client, "watched", run_id
        )
        return statsd.gauges("airflow_tideline_", stream="watched")

    harness.create(partitions=2)
    harness.send(100)
    stream = started(harness, client, "watched")
    landed = after("first", "success")
    assert names(landed) == PUBLISHED
    assert landed['airflow_tideline_rows{stream="watched"}'] == 100
    assert landed['airflow_tideline_offset_lag{stream="watched"}'] == 0
    assert landed['airflow_tideline_bytes{stream="watched"}'] > 100
    assert {s for s in landed if s.startswith(name_of(STEP_SECONDS))} == {
        f'{name_of(STEP_SECONDS)}{{step="{step}",stream="watched"}}'
        for step, was in states(client, "watched", "first").items()
        if was == "success"
    }

    harness.delete()
    harness.create(partitions=2)
    harness.send(30)
    halted = after("second", "failed")
    harness.stream(name="watched", on_reset={"topic_recreated": "restart"})
    healed = after("third", "success")
    assert [i.finding.kind for i in open_ledger(stream).find_run("third").resolved] == [
        "topic_recreated"
    ]
    assert healed['airflow_tideline_rows{stream="watched"}'] == 30

    evaluation = Evaluation(in_series([landed, halted, healed], began))
    incident = {"stream": "watched", "class": "topic_recreated"}
    evaluation.fires(PHASE - 5, {})
    evaluation.fires(2 * PHASE - 5, {"TidelineIncidentOpen": [incident]})
    evaluation.fires(3 * PHASE - 5, {})
    for title, results in shown(healed).items():
        evaluation.finds(3 * PHASE - 5, panels()[title], results)
    assert evaluation.judge(tmp_path) == ""


def in_series(phases, began):
    """Each phase's values for an hour; times are counted from the beginning, as promtool does."""
    texts = {}
    for key in phases[-1]:
        offset = began if key.startswith(name_of(SUCCEEDED_AT)) else 0
        hours = [
            f"{phase[key] - offset}x{PHASE - 1}" if key in phase else f"_x{PHASE}"
            for phase in phases
        ]
        texts[key] = " ".join(hours)
    return texts


def shown(gauges):
    """How many results each panel has: one for each series of its metric, or none."""
    counted = {}
    for title, query in panels().items():
        (metric,) = set(re.findall(r"airflow_tideline_\w+", query))
        series = sum(key.startswith(metric + "{") for key in gauges)
        if series:
            counted[title] = 1 if title == "Open incidents" else series
    assert len(counted) == len(panels()) - 2, "typed tables have two panels; this stream has none"
    return counted
