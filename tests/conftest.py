"""Real parts, each started once and shared by all tests of a process."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from devstack.broker import Broker
from devstack.cloud_emulators import FAKE_GCS_SERVER, Azurite, FakeGcs
from devstack.connect_server import ConnectServer
from devstack.harness import StreamHarness
from devstack.object_store import S3Proxy, VersityGateway
from devstack.object_store_programs import GATEWAY
from devstack.postgres import Postgres
from devstack.registry import Registry
from devstack.spark_apps import ConnectSpark, InProcessSpark
from tests.worlds.object_stores import BUCKET, Bucket, Fronted, fronted
from tests.worlds.secured_broker import SecuredBroker, secured_broker
from tideline.model.addresses import StoreKind

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def ends_by_signal() -> Iterator[None]:
    """A command line in this process leaves a handler behind; pytest would survive SIGTERM by it.

    Its broker, its Spark and its store would not.
    """
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker on a free port."""
    server = Broker(tmp_path_factory.mktemp("kafka")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A real broker with every kind of listener that asks who connects."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A warm Spark Connect server on a free port."""
    server = ConnectServer(tmp_path_factory.mktemp("connect"), "local[2]").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A real schema registry on a free port, its schemas in memory."""
    server = Registry(tmp_path_factory.mktemp("registry")).start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """A real S3-compatible store on a free port."""
    with fronted(S3Proxy(tmp_path_factory.mktemp("store"))) as store:
        yield store


STORES = {"s3": "object_store", "azure": "azurite", "google": "fake_gcs"}
"""Fixtures, by what TIDELINE_TEST_STORE may say."""


@pytest.fixture(scope="session", autouse=True)
def lakes_in_a_store(request: pytest.FixtureRequest) -> Iterator[None]:
    """With TIDELINE_TEST_STORE every harness has its lake in that store, without a connection."""
    if (kind := os.environ.get("TIDELINE_TEST_STORE")) is None:
        yield
        return
    server = request.getfixturevalue(STORES[kind]).store
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.options().items():
            patch.setenv(name, value)
        patch.setenv("TIDELINE_TEST_BUCKET", server.address(BUCKET, "").rstrip("/"))
        if (objects := server.objects(BUCKET)) is not None:
            patch.setenv("TIDELINE_TEST_OBJECTS", str(objects))
        yield


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """Another S3-compatible store, of other people, on a free port."""
    if not GATEWAY.can_be_had:
        pytest.skip("versitygw is built with Go, and there is no Go")
    with fronted(VersityGateway(tmp_path_factory.mktemp("gateway"))) as store:
        yield store


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """What stands in for Azure's store, on a free port."""
    if shutil.which("npm") is None:
        pytest.skip("azurite comes by npm, and there is no npm")
    with fronted(Azurite(tmp_path_factory.mktemp("azurite"))) as store:
        yield store


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """What stands in for Google's store, on a free port."""
    if not FAKE_GCS_SERVER.can_be_had:
        pytest.skip("fake-gcs-server is built with Go, and there is no Go")
    with fronted(FakeGcs(tmp_path_factory.mktemp("gcs"))) as store:
        yield store


@pytest.fixture
def bucket(object_store: Fronted) -> Bucket:
    """A folder of its own in the store's bucket, behind a proxy that counts and makes faults."""
    return object_store.bucket(f"t{os.getpid()}-{next(_numbers)}")


@pytest.fixture(
    params=[
        "object_store",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("gateway", "azurite", "fake_gcs")),
    ]
)
def any_bucket(request: pytest.FixtureRequest) -> Bucket:
    """The same on each kind of store."""
    fronted: Fronted = request.getfixturevalue(request.param)
    return fronted.bucket(f"t{os.getpid()}-{next(_numbers)}")


@pytest.fixture(scope="session")
def in_process_spark(request: pytest.FixtureRequest) -> Iterator[InProcessSpark]:
    """A Spark session in this process."""
    app = InProcessSpark(store=_store_of(request))
    yield app
    app.stop()


@pytest.fixture(scope="session")
def connect_spark(
    request: pytest.FixtureRequest, connect_server: ConnectServer
) -> Iterator[ConnectSpark]:
    """A client of the Spark Connect server."""
    app = ConnectSpark(connect_server, store=_store_of(request))
    yield app
    app.stop()


def _store_of(request: pytest.FixtureRequest) -> StoreKind | None:
    """Where any test of this process has Spark in it read or write `s3a://`: that."""
    has = any(item.get_closest_marker("s3a") for item in request.session.items)
    return "s3a" if has else None


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> InProcessSpark:
    """A real Spark that runs the same job file as spark-submit does.

    A session in this process, or with TIDELINE_TEST_SPARK=connect a Spark Connect server.
    """
    kind = "connect" if os.environ.get("TIDELINE_TEST_SPARK") == "connect" else "in_process"
    app: InProcessSpark = request.getfixturevalue(f"{kind}_spark")
    return app


@pytest.fixture
def command(
    spark: InProcessSpark, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """`tideline` in this process, with the tests' Spark: exit status, and what it has printed."""
    from tideline.cli.main import main

    monkeypatch.setattr("tideline.cli.runs._spark", lambda stream, line: spark)

    def call(*arguments: str) -> tuple[int, str]:
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            status = main(list(arguments))
        return status, said.getvalue()

    return call


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """File by file, as in the store, one may hold slow tests only."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and "TIDELINE_TEST_STORE" in os.environ:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL on a free port."""
    found = Postgres()
    try:
        yield found.start()
    finally:
        found.remove()


@pytest.fixture
def harness(broker: Broker, tmp_path: Path) -> StreamHarness:
    """Names of its own on the shared broker, a lake of its own."""
    return StreamHarness(broker, tmp_path, f"t{os.getpid()}-{next(_numbers)}")
