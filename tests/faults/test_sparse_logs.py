"""Rows 15-17: offsets without a record, and records that must not be read yet."""

import subprocess
import sys
import textwrap

import pytest

from devstack.process import wait_until
from tests.worlds.streams import gap_reasons, head, spans, table_rows

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


def test_aborted_records_and_trailing_markers(fault_case):
    """Count of committed rows, and evidence from the log for every offset without one."""
    fault_case.follow()
    fault_case.log.transact(fault_case.topic, (10, True), (10, False), (10, True), (5, False))
    record = fault_case.run()
    assert spans(record) == [(0, 0, 39)]
    assert gap_reasons(record) == {"marker": 4, "aborted": 15}
    fault_case.assert_exact()
    fault_case.judge(15, "aborted transactions, trailing marker")


@pytest.mark.slow
def test_ranges_of_markers_and_aborted_records_only(fault_case):
    """Evidence from the log: an empty read is a success where every offset is explained."""
    fault_case.follow(limits={"max_records_per_run": 10})
    fault_case.log.transact(fault_case.topic, (10, True), (9, False), (10, True))
    found = [gap_reasons(fault_case.run()) for _ in range(4)]
    assert found == [{}, {"marker": 1, "aborted": 9}, {"marker": 1}, {"marker": 1}]
    assert fault_case.run().status == "nothing_to_do"
    assert head(fault_case.stream) == {(fault_case.topic, 0): 32}
    fault_case.assert_exact()
    fault_case.judge(15, "ranges of markers and aborted records only")


@pytest.mark.slow
def test_an_open_transaction(fault_case):
    """Planning up to the last stable offset; a notice says what waits behind it."""
    fault_case.follow()
    fault_case.lands(10)
    with fault_case.log.open_transaction(fault_case.topic, 10):
        fault_case.send(5)
        record = fault_case.run()
        assert record.status == "nothing_to_do"
        (notice,) = record.notices
        assert notice.kind == "open_transaction"
        assert "last stable offset at 10; 15 offsets wait" in notice.text
        assert fault_case.is_untouched
        said = fault_case.said
    assert spans(fault_case.run()) == [(0, 10, 26)]
    fault_case.assert_exact()
    fault_case.said = said
    fault_case.judge(16, "open transaction")


@pytest.mark.slow
def test_a_transaction_whose_producer_died(fault_case):
    """Planning up to the last stable offset, until the coordinator has written the abort marker."""
    fault_case.follow()
    fault_case.lands(10)
    died = subprocess.run(
        [sys.executable, "-c", DIES, fault_case.harness.broker.bootstrap_servers, fault_case.topic],
        check=False,
        timeout=60,
    )
    assert died.returncode == -9
    fault_case.send(5)
    record = fault_case.run()
    assert record.status == "nothing_to_do"
    assert [n.kind for n in record.notices] == ["open_transaction"]
    assert fault_case.is_untouched
    said = fault_case.said

    def is_over():
        record = fault_case.run()
        return record.status == "done"

    wait_until(is_over, "the coordinator does not abort the transaction", 60, 1)
    assert head(fault_case.stream) == {(fault_case.topic, 0): 26}
    fault_case.assert_exact()
    fault_case.said = said
    fault_case.judge(16, "transaction whose producer died")


@pytest.fixture
def compacted(fault_case):
    """A topic that the cleaner has removed records from."""
    fault_case.follow(config=COMPACTED)
    fault_case.send(50, keys=KEYS)

    def was_cleaned():
        fault_case.send(1, keys=["tick"])  # a segment rolls when something is appended
        return len(fault_case.log.readable()[0]) < len(fault_case.log.acknowledged) - 20

    wait_until(was_cleaned, "the cleaner has removed nothing", 90, 0.3)
    fault_case.mark()
    return fault_case


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
    fault_case = compacted
    fault_case.stream = fault_case.harness.stream(gaps="compacted")
    record = fault_case.run()
    assert gap_reasons(record)["compacted"] >= 20
    assert fault_case.incidents_opened == 0
    landed = {key for (key,) in table_rows(fault_case.stream, "key")}
    assert landed == {key.encode() for key in [*KEYS, "tick"]}
    fault_case.judge(17, "compaction, gaps: compacted")
