"""Real parts for the suites that promise them: one broker and one Spark session for all tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.broker import Broker
from tests.harness import ConnectSpark, InProcessSpark, StreamHarness
from tests.postgres import Postgres


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker on a free port."""
    found = Broker(tmp_path_factory.mktemp("kafka")).start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessSpark]:
    """A real Spark that runs the same job file as spark-submit does.

    A session in this process, or with TIDELINE_TEST_SPARK=connect a Spark Connect server.
    """
    if os.environ.get("TIDELINE_TEST_SPARK") == "connect":
        found: InProcessSpark = ConnectSpark(tmp_path_factory.mktemp("connect"))
    else:
        found = InProcessSpark()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL on a free port."""
    found = Postgres()
    try:
        yield found.start()
    finally:
        found.remove()


_numbers = itertools.count(1)


@pytest.fixture
def harness(broker: Broker, tmp_path: Path) -> StreamHarness:
    """Names of its own on the shared broker, a lake of its own."""
    return StreamHarness(broker, tmp_path, f"t{os.getpid()}-{next(_numbers)}")
