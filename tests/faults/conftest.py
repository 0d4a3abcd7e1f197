"""Fixtures of the fault suite, and the table of its rows at the end of the run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from devstack.broker import Broker
from devstack.harness import StreamHarness
from devstack.registry import Registry
from devstack.spark_apps import InProcessSpark
from tests.faults.crash import Crash
from tests.faults.fault_case import FaultCase
from tests.faults.ledgers import InPostgres
from tests.faults.looks import TOPIC, send, settings
from tests.faults.proxy import KafkaProxy, proxied_broker
from tests.faults.report import CrashRow, Report, Row, text_of
from tests.faults.typed_crash import TypedCrash, TypesCrash
from tests.worlds.ledgers import connect, disconnect
from tideline.kafka.kafka_cluster import KafkaCluster

_ROWS = pytest.StashKey[list[Row | CrashRow]]()

_numbers = itertools.count(1)

Proxied = tuple[Broker, KafkaProxy]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what every row of the faults catalogue came to."""
    rows = config.stash.get(_ROWS, [])
    for title, kind in (("fault rows", Row), ("crash matrix", CrashRow)):
        if any(isinstance(row, kind) for row in rows):
            terminalreporter.section(title)
            terminalreporter.write_line(text_of(kind, rows))


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    """Takes this test's row; the first line of the test's docstring names the check."""
    docstring = request.function.__doc__
    assert docstring, "a row's test says in its docstring which check makes it pass"
    rows = request.config.stash.setdefault(_ROWS, [])
    found = Report(rows, docstring.strip().splitlines()[0])
    yield found
    if not found.told:
        rows.append(Row("?", request.node.name, found.told_by, "NOT JUDGED", ""))


@pytest.fixture
def fault_case(harness: StreamHarness, spark: InProcessSpark, report: Report) -> FaultCase:
    """A stream of its own on the shared broker."""
    return FaultCase(harness, spark, report)


@pytest.fixture(params=["delta", pytest.param("airflow", marks=pytest.mark.slow)])
def ledger(request: pytest.FixtureRequest) -> str:
    """What the stream's file says about its ledger: every crash is tried with each."""
    return str(request.param)


@pytest.fixture
def database(request: pytest.FixtureRequest, ledger: str) -> Iterator[InPostgres | None]:
    """A PostgreSQL database for the ledger, if that is where the stream's is."""
    if ledger != "airflow":
        yield None
        return
    found = InPostgres(request.getfixturevalue("postgres"), f"crash-{next(_numbers)}")
    connect(found.url)
    yield found
    disconnect()


@pytest.fixture
def crash(
    harness: StreamHarness,
    spark: InProcessSpark,
    report: Report,
    ledger: str,
    database: InPostgres | None,
) -> Crash:
    """A stream of its own on the shared broker, one of whose runs dies."""
    found = Crash(harness, spark, report)
    found.ledger, found.database = ledger, database
    return found


@pytest.fixture
def typed_crash(
    harness: StreamHarness, registry: Registry, spark: InProcessSpark, report: Report
) -> TypedCrash:
    """A stream with typed tables; records of every kind wait."""
    found = TypedCrash(harness, registry, spark, report)
    found.brings()
    return found


@pytest.fixture
def types_crash(
    harness: StreamHarness, registry: Registry, spark: InProcessSpark, report: Report
) -> TypesCrash:
    """A stream with several event types; records of every kind wait."""
    found = TypesCrash(harness, registry, spark, report)
    found.brings()
    return found


@pytest.fixture(scope="session")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """A broker behind a proxy, with a small topic."""
    with proxied_broker(tmp_path_factory.mktemp("proxied")) as (broker, proxy):
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        admin.create_topics({TOPIC: {"num_partitions": 2}}, wait_for_metadata=True)
        admin.close()
        send(broker.bootstrap_servers, 10)
        yield broker, proxy


@pytest.fixture
def proxy(proxied: Proxied) -> Iterator[KafkaProxy]:
    """The proxy, without rules before and after."""
    yield proxied[1]
    proxied[1].clear()


@pytest.fixture
def linked(
    proxied: Proxied,
    proxy: KafkaProxy,
    tmp_path: Path,
    spark: InProcessSpark,
    report: Report,
) -> FaultCase:
    """A stream whose runs go through the proxy and give up soon; its producer goes past it."""
    found = FaultCase(
        StreamHarness(proxied[0], tmp_path, f"linked-{next(_numbers)}"), spark, report
    )
    found.harness.connect(
        proxy.bootstrap_servers, default_api_timeout_ms=4000, request_timeout_ms=1000
    )
    return found


@pytest.fixture
def cluster(proxy: KafkaProxy) -> Iterator[KafkaCluster]:
    """The adapter, through the proxy."""
    with KafkaCluster(settings(proxy.bootstrap_servers, 20_000)) as found:
        yield found


@pytest.fixture
def impatient(proxy: KafkaProxy) -> Iterator[KafkaCluster]:
    """The adapter, through the proxy; gives up after a second."""
    with KafkaCluster(settings(proxy.bootstrap_servers, 1000)) as found:
        yield found
