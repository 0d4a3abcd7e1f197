"""The broker killed with -9 and started again while a run plans, reads and verifies."""

import threading

import pytest

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.faults.crash import Crash
from tests.faults.disk import QUICK_RESTART, kill, started
from tests.worlds.spark_doubles import HookedSpark
from tideline.errors import ServiceAway

pytestmark = pytest.mark.slow


@pytest.fixture
def own(tmp_path, spark, report, ledger, database):
    """A stream on a broker of its own."""
    with started(Broker(tmp_path / "kafka", settings=QUICK_RESTART)) as broker:
        found = Crash(StreamHarness(broker, tmp_path, "own"), spark, report)
        found.ledger = ledger
        found.harness.connect(broker.bootstrap_servers, default_api_timeout_ms=20_000)
        yield found


@pytest.mark.parametrize(
    ("place", "meanwhile"),
    [
        ("lease:live", "the plan"),
        ("plan:proposed", "detection"),
        ("ingest:released", "verification"),
    ],
)
def test_the_broker_is_away_and_comes_back(own, place, meanwhile):
    """R14: silence is no verdict; the run waits for the broker, or may be tried again."""
    own.waits()
    with own.start("one", point=f"{place}:stop") as run:
        run.stopped()
        kill(own.harness.broker)
        run.resume()
        own.harness.broker.start()
        status = run.ended()
        assert status in (0, 4), run.said
    if status:
        own.repeat()
    own.judge_crash(f"broker killed and back during {meanwhile}", lands_more=False)


@pytest.mark.parametrize("place", ["lease:live", "ingest:leased", "ingest:released"])
def test_the_broker_stays_away(own, place):
    """The run ends as retriable; nothing has moved."""
    own.waits()
    own.harness.connect(own.harness.broker.bootstrap_servers, default_api_timeout_ms=3000)
    with own.start("one", point=f"{place}:stop") as run:
        run.stopped()
        kill(own.harness.broker)
        run.resume()
        assert run.ended(240) == 4, run.said
    own.harness.broker.start()
    own.repeat()
    own.judge_crash(f"broker away from {place} on, back for the next attempt", lands_more=False)


def test_the_broker_is_killed_while_spark_reads(own):
    """Spark waits for it, or fails: read again, the rows are there once."""
    own.waits()
    own.send(200_000, size=500)
    restarts = threading.Thread(target=own.harness.broker.start)

    def killed_soon():
        kill(own.harness.broker)
        restarts.start()

    timer = threading.Timer(1.5, killed_soon)
    own.attempts += 1
    try:
        own.harness.run(own.stream, "one", HookedSpark(own.spark, before=timer.start))
        status = "done"
    except ServiceAway:
        status = "retry"
    timer.join()
    restarts.join()
    if status == "retry":
        own.repeat()
    own.judge_crash("broker killed and back while Spark reads", lands_more=False)
