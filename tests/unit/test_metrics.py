"""The table of metrics, and everything that names them."""

import json
import re

import pytest

from tests.worlds.prometheus import DASHBOARD, OBSERVABILITY, RULES, name_of, panels, rules
from tests.worlds.statsd_server import statsd_server
from tideline.model.decoding import NO_FAULT
from tideline.model.metrics import BEGIN, METRICS, with_table

PAGE = OBSERVABILITY.parent / "observability.md"
TAGS = {name_of(metric): set(metric.tags) for metric in METRICS}
PROMQL = {
    "and", "by", "last_over_time", "max", "min", "on", "or", "sum", "time",
}  # fmt: skip
"""Words of PromQL that the files use; another word is a metric or a label."""


def words(query):
    """Metrics and labels of a query: words beside PromQL's own, outside of texts and durations."""
    bare = re.sub(r'"[^"]*"|\[[^]]*\]', "", query)
    return {w for w in re.findall(r"[a-zA-Z_]\w*", bare) if w not in PROMQL}


def mistakes(query):
    """Words of a query that the table does not know."""
    found = words(query)
    used = found & TAGS.keys()
    known = set.union(set(), *(TAGS[name] for name in used))
    return (found - used - known) | (set() if used else {"no metric"})


def test_the_page_has_the_table_of_metrics():
    """`make metrics` writes it."""
    page = PAGE.read_text()
    assert with_table(page) == page
    assert all(f"`{metric.name}`" in page for metric in METRICS)


def test_a_page_without_its_marks_is_not_written():
    with pytest.raises(ValueError, match="metrics: end"):
        with_table(f"# A page\n{BEGIN}\n")


def test_a_name_says_its_unit_and_can_be_sent():
    """StatsD and OpenTelemetry allow these letters; Prometheus' names stay apart."""
    for metric in METRICS:
        assert re.fullmatch(r"tideline\.[a-z_]+", metric.name)
        assert metric.name.endswith("_seconds") == metric.unit.startswith("seconds")
        assert metric.tags[0] in ("stream", "connection")
    assert len(TAGS) == len(METRICS)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_names_only_metrics_and_labels_of_the_table(rule):
    """Its text as well: a label that is not there would be an empty word in a page at night."""
    assert mistakes(rule["expr"]) == set()
    (by,) = {frozenset(re.split(r", ", g)) for g in re.findall(r" by \(([^)]*)\)", rule["expr"])}
    labels = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    assert labels == by


def test_what_is_set_aside_and_no_fault_alerts_nobody():
    """Most who read a topic of several event types want some of them."""
    (rule,) = (rule for rule in rules() if rule["alert"] == "TidelineQuarantined")
    assert f'quarantined{{class!~"{"|".join(NO_FAULT)}"}}[' in rule["expr"]


@pytest.mark.parametrize("title", panels())
def test_a_panel_names_only_metrics_and_labels_of_the_table(title):
    assert mistakes(panels()[title]) == set()


def test_the_dashboard_shows_every_metric():
    """None is published for nobody."""
    assert set.union(*(words(query) & TAGS.keys() for query in panels().values())) == set(TAGS)
    found = json.loads(DASHBOARD.read_text())
    assert "airflow_tideline_open_incidents" in json.dumps(found["templating"])
    places = [tuple(panel["gridPos"].values()) for panel in found["panels"]]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("airflow_tideline_rowz > 0", {"airflow_tideline_rowz", "no metric"}),
        ("max by (steam) (airflow_tideline_rows)", {"steam"}),
        ("max by (class) (airflow_tideline_rows)", {"class"}),
        ("rate(airflow_tideline_rows[5m])", {"rate"}),
    ],
)
def test_a_wrong_name_is_noticed(query, wrong):
    """A slip in the name, in a label, a label of another metric, a function for counters."""
    assert mistakes(query) == wrong


def test_the_rules_are_named_on_the_page():
    """What an alert means and what to do stands where its receiver looks."""
    page = PAGE.read_text()
    assert [r["alert"] for r in rules() if f"`{r['alert']}`" not in page] == []
    assert RULES.name in page
    assert DASHBOARD.name in page


def test_the_statsd_server_of_the_tests_keeps_what_an_exporter_would():
    """The client sends a negative value as 0 and a change; timers are no gauges."""
    with statsd_server() as server:
        for line in ("a.b,stream=x:7|g", "a.b,stream=x:0|g", "a.b,stream=x:-5|g", "a.c:3|ms"):
            server.take(line)
        assert server.gauges("a_b", stream="x") == {'a_b{stream="x"}': -5.0}
        assert server.gauges("a_", stream="y") == {}
        assert server.gauges("a_c") == {}
