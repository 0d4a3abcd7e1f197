"""Real parts, each started once and shared by all tests of a process."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.broker import Broker
from devstack.connect_server import ConnectServer
from devstack.harness import StreamHarness
from devstack.object_store import S3Proxy, VersityGateway
from devstack.object_store_programs import GATEWAY
from devstack.registry import Registry
from devstack.spark_apps import ConnectSpark, InProcessSpark
from tests.worlds.object_stores import BUCKET, Bucket, Fronted, fronted
from tests.worlds.postgres import Postgres
from tests.worlds.secured_broker import SecuredBroker, secured_broker

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


@pytest.fixture(scope="session", autouse=True)
def lakes_in_a_store(request: pytest.FixtureRequest) -> Iterator[None]:
    """With TIDELINE_TEST_STORE=s3 every harness has its lake in the store, without a connection."""
    if os.environ.get("TIDELINE_TEST_STORE") != "s3":
        yield
        return
    server = request.getfixturevalue("object_store").store
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.options().items():
            patch.setenv(name, value)
        patch.setenv("TIDELINE_TEST_BUCKET", f"s3a://{BUCKET}")
        patch.setenv("TIDELINE_TEST_OBJECTS", str(server.folder / "objects" / BUCKET))
        yield


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """Another S3-compatible store, of other people, on a free port."""
    if not GATEWAY.can_be_had:
        pytest.skip("versitygw is built with Go, and there is no Go")
    with fronted(VersityGateway(tmp_path_factory.mktemp("gateway"))) as store:
        yield store


@pytest.fixture
def bucket(object_store: Fronted) -> Bucket:
    """A folder of its own in the store's bucket, behind a proxy that counts and makes faults."""
    return object_store.bucket(f"t{os.getpid()}-{next(_numbers)}")


@pytest.fixture(params=["object_store", pytest.param("gateway", marks=pytest.mark.slow)])
def any_bucket(request: pytest.FixtureRequest) -> Bucket:
    """The same on each kind of store."""
    fronted: Fronted = request.getfixturevalue(request.param)
    return fronted.bucket(f"t{os.getpid()}-{next(_numbers)}")


@pytest.fixture(scope="session")
def in_process_spark(request: pytest.FixtureRequest) -> Iterator[InProcessSpark]:
    """A Spark session in this process."""
    app = InProcessSpark(s3a=_needs_s3a(request))
    yield app
    app.stop()


@pytest.fixture(scope="session")
def connect_spark(
    request: pytest.FixtureRequest, connect_server: ConnectServer
) -> Iterator[ConnectSpark]:
    """A client of the Spark Connect server."""
    app = ConnectSpark(connect_server, s3a=_needs_s3a(request))
    yield app
    app.stop()


def _needs_s3a(request: pytest.FixtureRequest) -> bool:
    """Whether any test of this process has Spark in it read or write `s3a://`."""
    return any(item.get_closest_marker("s3a") for item in request.session.items)


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> InProcessSpark:
    """A real Spark that runs the same job file as spark-submit does.

    A session in this process, or with TIDELINE_TEST_SPARK=connect a Spark Connect server.
    """
    kind = "connect" if os.environ.get("TIDELINE_TEST_SPARK") == "connect" else "in_process"
    app: InProcessSpark = request.getfixturevalue(f"{kind}_spark")
    return app


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
