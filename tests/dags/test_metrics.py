"""What tasks publish: the table's names, with the table's tags."""

import socket
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from statsd import StatsClient

from tests.worlds.build import ID, NOW, head, plan, planned, position
from tests.worlds.contract_objects import DONE, OPEN
from tideline.airflow import telemetry as published
from tideline.errors import ResetDetected, ServiceAway
from tideline.model import metrics
from tideline.model.catalog import NamedTable
from tideline.model.decoding import Decoding
from tideline.model.erasures import Erasing
from tideline.model.head import Headroom
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.run import TableCommit
from tideline.model.verdicts import DECODING, FOLDING, HALTING

STREAM = SimpleNamespace(stream="orders", decode="a section", catalog="a section")
BEHIND = replace(plan(planned(0, 100)), offset_lag=900)


@pytest.fixture
def gauges(monkeypatch):
    """What was set, by name and tags."""
    found = {}

    def gauge(name, value, *, tags):
        found[(name, *tags.values())] = value

    monkeypatch.setattr(published.Stats, "gauge", gauge)
    return found


def state_with(*incidents, headroom=(), decoding=None):
    return SimpleNamespace(
        open_incidents=incidents,
        head=head(position(0), headroom=tuple(headroom)),
        erasing=Erasing(),
        decoding=decoding or Decoding(),
    )


def test_an_age_and_a_headroom_are_those_of_the_oldest_unread_record(gauges, monkeypatch):
    """Two partitions: the older record sets the age, the nearer retention sets the headroom."""
    monkeypatch.setattr(published, "datetime", SimpleNamespace(now=lambda zone: NOW))
    hour = timedelta(hours=1)
    headroom = [
        Headroom("orders", 0, 7, NOW - 2 * hour, 10 * 3_600_000),
        Headroom("orders", 1, 7, NOW - hour, 4 * 3_600_000),
        Headroom("orders", 2, 7, None, None),
    ]
    frozen = replace(DONE, status="planned", plan=BEHIND)
    published.publish_detected(STREAM, state_with(headroom=headroom), frozen)
    assert gauges[metrics.LAG_SECONDS.name, "orders"] == 7200
    assert gauges[metrics.HEADROOM_SECONDS.name, "orders"] == 3 * 3600
    assert (metrics.SUCCEEDED_AT.name, "orders") not in gauges


def test_what_is_landed_and_not_decoded_is_told_from_the_first_offset(gauges):
    """A decoding that has never come through leaves all of it; without typed tables nothing is."""
    coverage = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(0, 30),)})
    decoding = Decoding(table_ids=("typed", "bad"))
    state = state_with(decoding=decoding)
    state.head = replace(state.head, coverage=coverage)
    idle = replace(DONE, status="nothing_to_do", plan=None, proposal=None)
    published.publish_detected(STREAM, state_with(), idle)
    assert (metrics.UNDECODED.name, "orders") not in gauges
    published.publish_detected(STREAM, state, idle)
    assert gauges[metrics.UNDECODED.name, "orders"] == 30
    state.decoding = replace(decoding, coverage=coverage)
    published.publish_detected(STREAM, state, idle)
    assert gauges[metrics.UNDECODED.name, "orders"] == 0


def test_alerts_about_a_section_that_was_taken_out_of_the_file_end(gauges):
    """Nobody decodes or names any more; a gauge that nobody sets keeps its value."""
    coverage = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(0, 30),)})
    state = state_with(decoding=Decoding(table_ids=("typed", "bad")))
    wrong = NamedTable("raw", "raw.t", "/t", None, NOW, "catalog_away", "it is away")
    state.head = replace(state.head, coverage=coverage, names=(wrong,))
    idle = replace(DONE, status="nothing_to_do", plan=None, proposal=None)
    for stream, expected in (
        (STREAM, (30, 1)),
        (SimpleNamespace(stream="orders", decode=None, catalog=None), (0, 0)),
    ):
        published.publish_detected(stream, state, idle)
        found = [gauges[m.name, "orders"] for m in (metrics.UNDECODED, metrics.WRONG_NAMES)]
        assert tuple(found) == expected


def test_a_run_with_nothing_new_says_that_it_ended_well_and_that_nothing_waits(gauges):
    """An older headroom in the head is not told again: nothing is unread any more."""
    idle = replace(DONE, status="nothing_to_do", plan=None, proposal=None)
    left = [Headroom("orders", 0, 7, NOW, 1000)]
    published.publish_detected(STREAM, state_with(headroom=left), idle)
    assert gauges[metrics.LAG_SECONDS.name, "orders"] == 0
    assert gauges[metrics.SUCCEEDED_AT.name, "orders"] == int(idle.updated_at.timestamp())
    assert (metrics.HEADROOM_SECONDS.name, "orders") not in gauges


def test_every_class_of_incident_is_set_so_that_an_alert_can_end(gauges):
    """The class of an open incident has its number, every other one has 0."""
    published.publish_incidents("orders", [OPEN, OPEN])
    by_class = {key[2]: value for key, value in gauges.items()}
    assert by_class.pop(OPEN.finding.kind) == 2
    assert set(by_class) | {OPEN.finding.kind} == {*HALTING, *DECODING, *FOLDING}
    assert set(by_class.values()) == {0}


@pytest.mark.parametrize(
    ("error", "incidents"), [(ResetDetected, True), (ServiceAway, False), (None, False)]
)
def test_a_step_says_how_long_it_worked_and_what_halts_it(gauges, error, incidents):
    """However it ends; only one that halts reads the ledger for what is open."""
    run = SimpleNamespace(
        stream=SimpleNamespace(stream="orders"), ledger=SimpleNamespace(read=lambda: 1 / 0)
    )
    if incidents:
        run.ledger.read = lambda: state_with(OPEN)
    task = SimpleNamespace(task_id="verify_ranges", try_number=3)
    ends = nullcontext() if error is None else pytest.raises(error)
    with ends, published.measured_step(run, task):
        if error is not None:
            raise error("no")
    assert gauges[metrics.STEP_RETRIES.name, "orders", "verify_ranges"] == 2
    assert gauges[metrics.STEP_SECONDS.name, "orders", "verify_ranges"] >= 0
    assert ((metrics.OPEN_INCIDENTS.name, "orders", OPEN.finding.kind) in gauges) == incidents


def test_a_backfill_tells_of_its_rows_and_nothing_of_the_streams_lag(gauges):
    """The gauges of lag and success are the live lane's."""
    landed = replace(
        DONE, lane="backfill", plan=BEHIND, table_commit=TableCommit("t", 3, 1, 40, 1234)
    )
    published.publish_landed("orders", landed)
    published.publish_unread("orders", landed)
    published.publish_detected(STREAM, state_with(), replace(landed, status="planned"))
    names = {key[0] for key in gauges}
    assert names == {metrics.ROWS.name, metrics.BYTES.name, metrics.OPEN_INCIDENTS.name}
    assert gauges[metrics.BYTES.name, "orders"] == 1234

    published.publish_landed("orders", replace(landed, lane="live"))
    assert gauges[metrics.OFFSET_LAG.name, "orders"] == 900


def test_a_metric_without_its_tags_is_a_mistake_of_ours(gauges):
    """The table says which tags there are; dashboards rely on them."""
    with pytest.raises(AssertionError, match=r"tideline\.step_retries: tags \['stream'\]"):
        published.publish(metrics.STEP_RETRIES, 1, stream="orders")
    assert not gauges


def otel_points(reader):
    """What an exporter would be given: name, attributes and value."""
    return {
        (metric.name, frozenset(point.attributes.items())): point.value
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


@pytest.fixture
def backend(monkeypatch):
    """Has Airflow's `Stats` speak to a client for the length of a test."""
    from airflow.sdk._shared.observability.metrics import stats

    def use(logger):
        monkeypatch.setattr(stats, "_backend", logger)

    return use


def test_opentelemetry_gets_the_table_s_names_with_their_tags(backend):
    """As in the page: Airflow's prefix, attributes, and the last value."""
    from airflow.sdk._shared.observability.metrics.otel_logger import SafeOtelLogger
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    backend(SafeOtelLogger(MeterProvider([reader])))
    for stream, value in (("orders", 5), ("clicks", 7), ("orders", -6.5)):
        published.publish(metrics.HEADROOM_SECONDS, value, stream=stream)
    name = "airflow.tideline.retention_headroom_seconds"
    assert otel_points(reader) == {
        (name, frozenset({("stream", "orders")})): -6.5,
        (name, frozenset({("stream", "clicks")})): 7,
    }


@pytest.mark.parametrize(
    ("tags", "sent"),
    [
        (True, "airflow.tideline.open_incidents,stream=orders,class=log_hole:1|g"),
        (False, "airflow.tideline.open_incidents:1|g"),
    ],
)
def test_statsd_gets_tags_only_if_airflow_is_told_to(backend, tags, sent):
    """The page says so, and which setting it is."""
    from airflow.sdk._shared.observability.metrics.statsd_logger import get_statsd_logger

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        host, port = server.getsockname()
        backend(
            get_statsd_logger(
                stats_class=StatsClient,
                host=host,
                port=port,
                prefix="airflow",
                influxdb_tags_enabled=tags,
                statsd_influxdb_enabled=tags,
            )
        )
        published.publish(metrics.OPEN_INCIDENTS, 1, stream="orders", **{"class": "log_hole"})
        assert server.recv(1000).decode() == sent
