"""Records that Spark cannot read: found by offset, skipped by a decision, recorded as lost."""

import struct

import pytest

import ingest_range
from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.worlds.spark_doubles import HookedSpark
from tests.worlds.streams import (
    attempts_left,
    closed_incidents,
    decide,
    gap_reasons,
    halts,
    head,
    is_clean,
    table_rows,
)
from tideline.errors import ResetDetected, ServiceAway
from tideline.model.offsets import OffsetRange, total
from tideline.spark import failures as unreadable
from tideline.spark import raw_rows as source
from tideline.wiring import open_ledger

NANOSECONDS = 1_790_000_000_000_000_000
"""A CreateTime in nanoseconds, which Spark's clock of microseconds cannot hold."""
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
"""A topic that takes such records; the default of newer brokers is one hour."""


def offsets(stream, partition=0):
    """Landed offsets of a partition."""
    return sorted(o for p, o in table_rows(stream, "partition", "offset") if p == partition)


def lost(stream):
    """How many offsets are recorded as lost, and how many of them as unreadable."""
    known = open_ledger(stream).read().head
    return [total(r for _, r in part.pieces) for part in (known.accepted_loss, known.unreadable)]


@pytest.fixture
def stream(harness):
    """A stream of a topic with one partition, and nothing in it yet."""
    harness.create(partitions=1, **ANY_TIME)
    return harness.stream()


@pytest.mark.parametrize(
    "at",
    [
        pytest.param([4], id="middle"),
        pytest.param([0], id="start", marks=pytest.mark.slow),
        pytest.param([9], id="end", marks=pytest.mark.slow),
        pytest.param([3, 7], id="two"),
        pytest.param([4, 5, 6], id="adjacent", marks=pytest.mark.slow),
    ],
)
def test_exactly_the_unreadable_offsets_are_named_and_skipped(harness, stream, spark, at):
    """The run halts at once, later ones start no Spark, and a decision loses these alone."""
    harness.send_stamped(10, dict.fromkeys(at, NANOSECONDS))
    with pytest.raises(ResetDetected, match="ArithmeticException: long overflow") as found:
        harness.run(stream, "halted", spark)
    (incident,) = found.value.incidents
    assert incident.finding.kind == "unreadable_record"
    assert [o for r in incident.finding.intervals for o in range(r.start_offset, r.end_offset)] == (
        at
    )
    assert attempts_left(stream) == []
    submits = spark.submits
    assert halts(harness, stream, spark, "later") == ["unreadable_record"]
    assert spark.submits == submits
    assert head(stream) == {(harness.topic(), 0): 0}
    decide(stream, "accept_loss", by="ann")
    record = harness.run(stream, "decided", spark)
    assert (record.status, record.plan.run_id, spark.submits) == ("done", "halted", submits + 1)
    assert gap_reasons(record) == {"accepted": len(at)}
    assert offsets(stream) == [o for o in range(10) if o not in at]
    assert lost(stream) == [len(at)] * 2
    (incident,) = closed_incidents(stream)
    assert (incident.decision.by, incident.outcome[:5]) == ("ann", "lost:")
    assert is_clean(harness, stream)


def damage_second_batch(harness):
    """Change a byte on the stopped broker's disk, inside the records of the second batch."""
    (segment,) = (harness.broker.data / f"{harness.topic()}-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    (size,) = struct.unpack_from(">i", data, 8)  # of the first batch, behind offset and size
    data[12 + size + 70] ^= 0xFF  # behind the header of 61 bytes
    segment.write_bytes(data)


def test_a_date_past_the_year_9999_lands(harness, stream, spark):
    """Spark's clock of microseconds holds it; rows, verification and audit do not mind."""
    harness.send_stamped(5, {2: (2**63 - 1) // 1000})
    assert harness.run(stream, "run", spark).status == "done"
    assert offsets(stream) == list(range(5))
    assert is_clean(harness, stream)


@pytest.fixture
def own(tmp_path):
    """A harness with a broker of its own, to be stopped and damaged."""
    server = Broker(tmp_path / "own").start()
    yield StreamHarness(server, tmp_path, "own")
    server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_damaged_batch(own, spark, compression):
    """A broken disk: its whole batch is unreadable, and what is around it lands."""
    own.create(partitions=1)
    for count in (4, 3, 4):
        own.send_batch(count, compression=compression)
    own.broker.stop()
    damage_second_batch(own)
    own.broker.start()
    stream = own.stream()
    with pytest.raises(ResetDetected, match="unreadable_record") as found:
        own.run(stream, "halted", spark)
    (incident,) = found.value.incidents
    assert incident.finding.intervals == (OffsetRange(4, 7),)
    decide(stream, "accept_loss")
    assert own.run(stream, "decided", spark).status == "done"
    assert offsets(stream) == [0, 1, 2, 3, 7, 8, 9, 10]
    assert is_clean(own, stream)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before reading", "while looking for the offset"])
def test_a_broker_that_is_away_is_no_unreadable_record(own, spark, when, monkeypatch):
    """It passes: exit status 4, no incident; the same run goes on when it is back."""
    own.create(partitions=1, **ANY_TIME)
    own.send_stamped(10, {} if when == "before reading" else {4: NANOSECONDS})
    stream = own.stream()
    fast = {"kafkaConsumer.pollTimeoutMs": "3000", "kafka.default.api.timeout.ms": "3000"}
    fast["kafka.request.timeout.ms"] = "2000"
    monkeypatch.setattr(source, "READER_OPTIONS", {**source.READER_OPTIONS, **fast})
    real, stopped = unreadable.bisect, []

    def bisect(*args, **kwargs):
        stop()
        return real(*args, **kwargs)

    def stop():
        if not stopped:
            stopped.append(own.broker.stop())

    if when != "before reading":
        monkeypatch.setattr(unreadable, "bisect", bisect)
    hooked = HookedSpark(spark, before=stop if when == "before reading" else None)
    with pytest.raises(ServiceAway):
        own.run(stream, "run", hooked)
    assert stopped
    assert open_ledger(stream).read().control.incidents == ()
    own.broker.start()
    if when == "before reading":
        assert own.run(stream, "run", spark).status == "done"
        assert offsets(stream) == list(range(10))
    else:
        assert halts(own, stream, spark, "run") == ["unreadable_record"]


def test_an_error_that_does_not_come_again_is_no_unreadable_record(
    harness, stream, spark, monkeypatch
):
    """The application failed as at a record; read again, all of it can be read."""
    harness.send(10)
    real = ingest_range.execute

    def execute(session, job):
        monkeypatch.setattr(ingest_range, "execute", real)
        raise RuntimeError("java.lang.ArithmeticException: long overflow")

    monkeypatch.setattr(ingest_range, "execute", execute)
    with pytest.raises(ServiceAway, match="long overflow"):
        harness.run(stream, "run", spark)
    assert open_ledger(stream).read().control.incidents == ()
    assert harness.run(stream, "run", spark).status == "done"
    assert offsets(stream) == list(range(10))
