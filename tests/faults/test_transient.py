"""Row 18: what another look may find gone is retried within bounds, and is never a verdict."""

import signal
import threading
import time
from contextlib import contextmanager
from uuid import uuid4

import pytest

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.faults import rules
from tests.faults.disk import QUICK_RESTART, started
from tests.faults.fault_case import LANDED, FaultCase
from tests.worlds.spark_doubles import HookedSpark
from tests.worlds.streams import head, spans
from tideline.errors import ServiceAway, Transient

HALF_A_MINUTE = 30
PATIENCE = 2.5
ONE_LOOK = {"metadata": 2, "offsets": 3, "epoch": 1}
"""How many answers of a kind one look at the cluster takes."""

FAULTS = {
    "no leader": ("metadata", lambda t, **n: rules.partition_metadata(t, 0, **n)),
    "no leader, no error": ("metadata", lambda t, **n: rules.partition_metadata(t, 0, 0, **n)),
    "error 5": ("offsets", lambda t, **n: rules.offsets_error(t, 0, 5, **n)),
    "error 6": ("offsets", lambda t, **n: rules.offsets_error(t, 0, 6, **n)),
    "error 78": ("offsets", lambda t, **n: rules.offsets_error(t, 0, 78, **n)),
    "error 3": ("offsets", lambda t, **n: rules.offsets_error(t, 0, 3, **n)),
    "error 100": ("offsets", lambda t, **n: rules.offsets_error(t, 0, 100, **n)),
    "stale epoch": ("offsets", lambda t, **n: rules.offsets_epoch(t, 0, 0, **n)),
    "lagging leader": ("offsets", lambda t, **n: rules.offsets_are(t, 0, LANDED // 2, **n)),
    "fenced epoch": ("epoch", lambda t, **n: rules.epoch_error(t, 0, 74, **n)),
}
QUICK = "error 78"


@pytest.mark.parametrize(
    "fault", [f if f == QUICK else pytest.param(f, marks=pytest.mark.slow) for f in FAULTS]
)
def test_a_passing_fault(proxied, proxy, linked, fault):
    """Detection: passing; looked at again for patience_seconds, then left to a later run."""
    answers, build = FAULTS[fault]
    linked.follow(patience_seconds=PATIENCE)
    if fault == "stale epoch":  # there has to be an older one
        proxied[0].stop()
        proxied[0].start()
    linked.lands()
    linked.send(20)
    with proxy.applying(build(linked.topic)) as rule:
        began = time.monotonic()
        error = linked.fails(ServiceAway)
        assert PATIENCE < time.monotonic() - began < PATIENCE + 20
    assert "no stable answer" in error.message
    assert rule.applied > 2 * ONE_LOOK[answers]
    assert linked.is_untouched
    said = linked.said
    rule = proxy.add(build(linked.topic, times=2 * ONE_LOOK[answers]))
    assert spans(linked.run()) == [(0, LANDED, LANDED + 20)]
    assert rule.applied == rule.times
    linked.assert_exact()
    linked.said = said
    linked.judge(18, f"{fault}: for good, then for two observations")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "build"),
    [
        ("error 3: no such topic", lambda t: rules.topic_error(t, 3, times=2)),
        ("error 100: no such topic", lambda t: rules.topic_error(t, 100, times=2)),
        ("another topic id", lambda t: rules.topic_id(t, uuid4(), times=2)),
        ("a log start past the position", lambda t: rules.offsets_are(t, 0, 110, times=3)),
        ("an old epoch's end", lambda t: rules.epoch_end(t, 0, 50, times=1)),
    ],
    ids=["error 3", "error 100", "topic id", "log start", "epoch end"],
)
def test_one_look_proves_nothing(proxy, linked, fault, build):
    """Agreement (R14): a verdict needs two observations in a row that show the same."""
    linked.follow(patience_seconds=PATIENCE)
    linked.lands()
    linked.send(20)
    rule = proxy.add(build(linked.topic))
    assert spans(linked.run()) == [(0, LANDED, LANDED + 20)]
    assert rule.applied == rule.times
    linked.assert_exact()
    linked.judge(18, f"{fault}, in one look")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "build"),
    [
        ("Metadata", lambda t: rules.topic_error(t, 29)),
        ("ListOffsets", lambda t: rules.offsets_error(t, 0, 29)),
        ("OffsetForLeaderEpoch", lambda t: rules.epoch_error(t, 0, 29)),
    ],
    ids=["Metadata", "ListOffsets", "OffsetForLeaderEpoch"],
)
def test_authorization_lost(proxy, linked, call, build):
    """Detection: unknown, which fails closed; a missing right is not a missing topic."""
    linked.follow(patience_seconds=PATIENCE)
    linked.lands()
    linked.send(20)
    with proxy.applying(build(linked.topic)):
        incident = linked.halts("unknown")
        assert "TopicAuthorizationFailed" in incident.finding.actual
        assert linked.is_untouched
    linked.judge(18, f"TOPIC_AUTHORIZATION_FAILED at {call}")
    assert spans(linked.run()) == [(0, LANDED, LANDED + 20)]


@pytest.mark.slow
def test_a_reader_is_told_that_its_offset_is_out_of_range(proxy, linked):
    """No reset policy decides; Spark fails, and the next run reads at the same offset."""
    linked.follow()
    linked.lands()
    linked.send(20)
    rule = rules.out_of_range(times=1)
    linked.fails(ServiceAway, HookedSpark(linked.spark, before=lambda: proxy.add(rule)))
    assert rule.applied == 1
    assert linked.is_untouched
    said = linked.said
    assert spans(linked.run()) == [(0, LANDED, LANDED + 20)]
    linked.assert_exact()
    linked.said = said
    linked.judge(18, "OFFSET_OUT_OF_RANGE at Fetch")


@contextmanager
def half_a_minute_later(back):
    """A timer to start when the broker goes away; whatever happens, it brings the broker back."""
    timer = threading.Timer(HALF_A_MINUTE, back)
    try:
        yield timer
    finally:
        if timer.ident is not None:
            timer.join()


def lands_after_all(fault_case, timer, spark=None):
    """The run waits and completes, or asks to be tried again and the next one goes on."""
    before = head(fault_case.stream)
    try:
        fault_case.run(spark)
    except Transient as error:
        said = f"{type(error).__name__}: {error.message}"
        assert head(fault_case.stream) == before
        fault_case.run()
        fault_case.said = said
    assert timer.finished.is_set()
    assert head(fault_case.stream) == {(fault_case.topic, 0): LANDED + 20}
    fault_case.assert_exact()


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["planned", "read", "verified"])
def test_half_a_minute_away(proxy, linked, moment):
    """The adapter's and the stream's own patience, 60 s each; offsets stay the ledger's.

    Connections are cut and refused, as when brokers are restarted one after the other.
    """
    linked.follow()
    linked.harness.connect(proxy.bootstrap_servers)
    linked.lands()
    linked.send(20)
    with half_a_minute_later(proxy.restore) as timer:

        def go_away():
            proxy.refuse()
            timer.start()

        if moment == "planned":
            go_away()
            lands_after_all(linked, timer)
        else:
            when = {"read": "before", "verified": "after"}[moment]
            lands_after_all(linked, timer, HookedSpark(linked.spark, **{when: go_away}))
    linked.judge(18, f"half a minute without a broker while it is {moment}")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["planned", "read"])
def test_half_a_minute_frozen(tmp_path, spark, report, moment):
    """The adapter's and the stream's own patience, 60 s each; offsets stay the ledger's.

    SIGSTOP: connections stay open and nobody answers, as when sessions are lost.
    """
    with started(Broker(tmp_path / "kafka", settings=QUICK_RESTART)) as broker:
        fault_case = FaultCase(StreamHarness(broker, tmp_path, "frozen"), spark, report)
        fault_case.follow()
        fault_case.lands()
        fault_case.send(20)
        with half_a_minute_later(lambda: broker.server.signal(signal.SIGCONT)) as timer:

            def freeze():
                broker.server.signal(signal.SIGSTOP)
                timer.start()

            if moment == "planned":
                freeze()
                lands_after_all(fault_case, timer)
            else:
                lands_after_all(fault_case, timer, HookedSpark(fault_case.spark, before=freeze))
        fault_case.judge(18, f"half a minute of a frozen broker while it is {moment}")
