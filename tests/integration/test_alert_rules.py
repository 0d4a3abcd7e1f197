"""When each alert fires and ends, as Prometheus evaluates the rules of docs/observability."""

import pytest

from tests.worlds.prometheus import Evaluation, check_rules, panels, rules, series_name

ORDERS = {"stream": "orders"}
KAFKA = {"connection": "kafka_default"}
DAY = 24 * 60
# Go may have to build promtool first, which takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def series(name, values, **tags):
    return {series_name(f"airflow.tideline.{name}", {**ORDERS, **tags}): values}


def test_prometheus_accepts_the_rules():
    """With all of its lints."""
    assert f"SUCCESS: {len(rules())} rules found" in check_rules()


CASES = {
    "an incident opens, and a decision closes it": (
        series("open_incidents", "0x9 1x9 0x9", **{"class": "topic_recreated"})
        | series("open_incidents", "0x29", **{"class": "truncation"}),
        {
            5: {},
            15: {"TidelineIncidentOpen": [{**ORDERS, "class": "topic_recreated"}]},
            25: {},
        },
    ),
    "by OpenTelemetry a gauge ends with its task, and the incident stays open": (
        series("open_incidents", "1x2 stale", **{"class": "log_hole"}),
        {DAY - 60: {"TidelineIncidentOpen": [{**ORDERS, "class": "log_hole"}]}, 2 * DAY: {}},
    ),
    "retention comes near while records are unread; once they are read it does not matter": (
        series("retention_headroom_seconds", "90000x9 20000x19")
        | series("offset_lag", "500x19 0x9"),
        {5: {}, 15: {"TidelineRetentionNear": [ORDERS]}, 25: {}},
    ),
    "overdue is near": (
        series("retention_headroom_seconds", "-60x9") | series("offset_lag", "1x9"),
        {5: {"TidelineRetentionNear": [ORDERS]}},
    ),
    "behind for half an hour; a run that lands old records and leaves none is not": (
        series("lag_seconds", "7200x120") | series("offset_lag", "5x60 0x60"),
        {20: {}, 50: {"TidelineBehind": [ORDERS]}, 70: {}},
    ),
    "the last success is a day old": (
        series("succeeded_timestamp_seconds", f"0x{2 * DAY}"),
        {DAY - 1: {}, DAY + 1: {"TidelineNoRunSucceeded": [ORDERS]}},
    ),
    "a step is tried for the third time": (
        series("step_retries", "0x9 1x9 2x9 0x9", step="ingest_ranges")
        | series("step_retries", "0x39", step="verify_ranges"),
        {
            15: {},
            28: {"TidelineRetrying": [{**ORDERS, "step": "ingest_ranges"}]},
            35: {},
        },
    ),
    "records go into quarantine": (
        series("quarantined", "0x9 7x9", **{"class": "malformed"}),
        {5: {}, 15: {"TidelineQuarantined": [{**ORDERS, "class": "malformed"}]}},
    ),
    "records are set aside that are no fault": (
        {
            **series("quarantined", "0x9 7x9", **{"class": "no_change"}),
            **series("quarantined", "0x9 7x9", **{"class": "other_type"}),
        },
        {5: {}, 15: {}},
    ),
    "rows fail an expectation, until a decoding has none": (
        series("expectation_failed", "0x9 3x9 0x9", expectation="positive"),
        {
            5: {},
            15: {"TidelineExpectationFails": [{**ORDERS, "expectation": "positive"}]},
            25: {},
        },
    ),
    "landed records stay undecoded for more than three hours": (
        series("undecoded", "0x9 30x240 0x9"),
        {120: {}, 220: {"TidelineUndecoded": [ORDERS]}, 255: {}},
    ),
    "a name points elsewhere for more than an hour": (
        series("wrong_names", "0x9 1x90 0x9"),
        {30: {}, 80: {"TidelineNameElsewhere": [ORDERS]}, 105: {}},
    ),
    "an erasure is not through": (
        series("erasures_overdue", "0x9 1x9 0x9"),
        {5: {}, 15: {"TidelineErasureOverdue": [ORDERS]}, 25: {}},
    ),
    "the triggerer is blind for ten minutes; one poll that fails is no alert": (
        {series_name("airflow.tideline.lag_watch_errors", KAFKA): "0x5 1x2 0x10 1 2 3x30 0x30"},
        {8: {}, 25: {}, 40: {"TidelineLagWatchBlind": [KAFKA]}, 60: {}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_alert_fires_when_it_should_and_ends(case, tmp_path):
    """Exactly the alerts that are named fire, at each of the minutes."""
    values, moments = CASES[case]
    evaluation = Evaluation(values)
    for minute, expected in moments.items():
        evaluation.fires(minute, expected)
    assert evaluation.judge(tmp_path) == ""


def test_every_rule_has_a_case():
    """One that fires."""
    fired = {name for _, moments in CASES.values() for found in moments.values() for name in found}
    assert fired == {rule["alert"] for rule in rules()}


def test_an_alert_that_is_expected_and_does_not_fire_is_noticed(tmp_path):
    """The judge is able to say no, about alerts and about queries."""
    evaluation = Evaluation(series("open_incidents", "0x9", **{"class": "log_hole"}))
    evaluation.fires(5, {"TidelineIncidentOpen": [{**ORDERS, "class": "log_hole"}]})
    evaluation.finds(5, panels()["Lag in offsets"], 1)
    said = evaluation.judge(tmp_path)
    assert "alertname: TidelineIncidentOpen" in said
    assert "airflow_tideline_offset_lag" in said


def test_the_panel_of_incidents_shows_a_tile_for_each_class_or_the_sum(tmp_path):
    """A dashboard without an incident shows a zero, and not that there is no data."""
    evaluation = Evaluation(
        series("open_incidents", "0x9 2x9", **{"class": "log_hole"})
        | series("open_incidents", "0x9 1x9", **{"class": "truncation"})
    )
    evaluation.finds(5, panels()["Open incidents"], 1)
    evaluation.finds(15, panels()["Open incidents"], 3)
    assert evaluation.judge(tmp_path) == ""
