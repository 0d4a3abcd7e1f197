"""Small jobs are interpreted, large ones compiled: the rows are the same."""

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from tideline.spark import session


@pytest.fixture
def records(harness):
    """Records with everything that a record may have or lack."""
    harness.create(partitions=2, **{"retention.ms": "-1"})
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
    topic = harness.topic()
    for n in range(40):
        producer.send(
            topic,
            key=None if n % 3 and n % 5 else b"k%d" % n,
            value=None if n % 5 == 0 else bytes(range(n)),
            headers=[("h", b"1"), ("none", b""), ("h", bytes([n]))] if n % 2 else [],
            partition=n % 2,
            timestamp_ms=1_700_000_000_000 + n,
        )
    producer.close()


def test_interpreted_and_compiled_jobs_write_the_same_rows(harness, spark, records, monkeypatch):
    tables = []
    for name, few in ("interpreted", 41), ("compiled", 40):
        monkeypatch.setattr(session, "_FEW", few)
        stream = harness.stream(name=name)
        harness.run(stream, "one", spark)
        assert spark.session.conf.get("spark.sql.codegen.wholeStage") == str(few == 40).lower()
        table = DeltaTable(stream.table.uri).to_pyarrow_table()
        kept = [c for c in table.column_names if c != "plan_id"]
        tables.append(
            table.select(kept).sort_by([("partition", "ascending"), ("offset", "ascending")])
        )
    assert tables[0].num_rows == 40
    assert tables[0].equals(tables[1])
