"""Rows 15-17: offsets without a record, and records that must not be read yet."""

import subprocess
import sys
import textwrap

import pytest

from devstack.process import wait_until
from tests.real import head, spans, table_rows
from tests.spark.test_gaps import reasons

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "delete.retention.ms": "100",
}
KEYS = [f"key-{n}" for n in range(10)]

DIES = textwrap.dedent("""
    import os, signal, sys
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=sys.argv[1], transactional_id=sys.argv[2], transaction_timeout_ms=5000
    )
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(10):
        producer.send(sys.argv[2], b"never committed", partition=0)
    producer.flush()
    os.kill(os.getpid(), signal.SIGKILL)
""")


def test_aborted_records_and_trailing_markers(trial):
    """Count of committed rows, and evidence from the log for every offset without one."""
    trial.follow()
    trial.log.transact(trial.topic, (10, True), (10, False), (10, True), (5, False))
    record = trial.run()
    assert spans(record) == [(0, 0, 39)]
    assert reasons(record) == {"marker": 4, "aborted": 15}
    trial.assert_exact()
    trial.judge(15, "aborted transactions, trailing marker")


@pytest.mark.slow
def test_ranges_of_markers_and_aborted_records_only(trial):
    """Evidence from the log: an empty read is a success where every offset is explained."""
    trial.follow(limits={"max_records_per_run": 10})
    trial.log.transact(trial.topic, (10, True), (9, False), (10, True))
    found = [reasons(trial.run()) for _ in range(4)]
    assert found == [{}, {"marker": 1, "aborted": 9}, {"marker": 1}, {"marker": 1}]
    assert trial.run().status == "nothing_to_do"
    assert head(trial.stream) == {(trial.topic, 0): 32}
    trial.assert_exact()
    trial.judge(15, "ranges of markers and aborted records only")


@pytest.mark.slow
def test_an_open_transaction(trial):
    """Planning up to the last stable offset; a notice says what waits behind it."""
    trial.follow()
    trial.lands(10)
    with trial.log.open_transaction(trial.topic, 10):
        trial.send(5)
        record = trial.run()
        assert record.status == "nothing_to_do"
        (notice,) = record.notices
        assert notice.kind == "open_transaction"
        assert "last stable offset at 10; 15 offsets wait" in notice.text
        assert trial.is_untouched
        said = trial.said
    assert spans(trial.run()) == [(0, 10, 26)]
    trial.assert_exact()
    trial.said = said
    trial.judge(16, "open transaction")


@pytest.mark.slow
def test_a_transaction_whose_producer_died(trial):
    """Planning up to the last stable offset, until the coordinator has written the abort marker."""
    trial.follow()
    trial.lands(10)
    died = subprocess.run(
        [sys.executable, "-c", DIES, trial.world.broker.bootstrap_servers, trial.topic],
        check=False,
        timeout=60,
    )
    assert died.returncode == -9
    trial.send(5)
    record = trial.run()
    assert record.status == "nothing_to_do"
    assert [n.kind for n in record.notices] == ["open_transaction"]
    assert trial.is_untouched
    said = trial.said

    def is_over():
        record = trial.run()
        return record.status == "done"

    wait_until(is_over, "the coordinator does not abort the transaction", 60, 1)
    assert head(trial.stream) == {(trial.topic, 0): 26}
    trial.assert_exact()
    trial.said = said
    trial.judge(16, "transaction whose producer died")


@pytest.fixture
def compacted(trial):
    """A topic that the cleaner has removed records from."""
    trial.follow(config=COMPACTED)
    trial.send(50, keys=KEYS)

    def was_cleaned():
        trial.send(1, keys=["tick"])  # a segment rolls when something is appended
        return len(trial.log.readable()[0]) < len(trial.log.acknowledged) - 20

    wait_until(was_cleaned, "the cleaner has removed nothing", 90, 0.3)
    trial.mark()
    return trial


@pytest.mark.slow
def test_compaction_nobody_declared(compacted):
    """Count of committed rows: the log shows neither record nor marker there."""
    incident = compacted.halts("log_hole")
    assert incident.finding.offsets_at_stake >= 20
    assert "gaps: compacted" in compacted.said
    assert head(compacted.stream) == {(compacted.topic, 0): 0}
    compacted.judge(17, "compaction, gaps: explain")


@pytest.mark.slow
def test_compaction_that_was_declared(compacted):
    """Gaps: compacted admits missing offsets, and the run records them."""
    trial = compacted
    trial.stream = trial.world.stream(gaps="compacted")
    record = trial.run()
    assert reasons(record)["compacted"] >= 20
    assert trial.incidents_opened == 0
    landed = {key for (key,) in table_rows(trial.stream, "key")}
    assert landed == {key.encode() for key in [*KEYS, "tick"]}
    trial.judge(17, "compaction, gaps: compacted")
