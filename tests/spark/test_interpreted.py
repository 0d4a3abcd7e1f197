"""Small jobs are interpreted, large ones compiled: the rows are the same.

Almost every other suite has small jobs, so this one covers what compiled plans do.
"""

from itertools import pairwise

import pytest
from kafka import KafkaProducer

import ingest_range
from tests.worlds.raw_tables import rows_of
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import Output, SparkJob
from tideline.spark import session

RECORDS = 60
"""In each of two partitions of each of two topics."""


@pytest.fixture
def records(harness):
    """Records with everything that a record may have or lack."""
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
    for suffix in ("orders", "refunds"):
        topic = harness.create(suffix, partitions=2, **{"retention.ms": "-1"})
        for n in range(2 * RECORDS):
            producer.send(
                topic,
                key=None if n % 3 and n % 5 else b"k%d" % n,
                value=None if n % 5 == 0 else bytes(range(n)),
                headers=[("h", b"1"), ("none", b""), ("h", bytes([n]))] if n % 4 > 1 else [],
                partition=n % 2,
                timestamp_ms=1_700_000_000_000 + n,
            )
    producer.close()


def pieces(harness, suffix, partition, *bounds):
    """Adjacent ranges of a partition, each of another generation."""
    return [
        CoordinateRange(
            harness.topic(suffix), harness.topic_id(suffix), generation, partition, start, end
        )
        for generation, (start, end) in enumerate(pairwise(bounds))
    ]


SHAPES = {
    "one topic": [("orders", 0, 0, 60), ("orders", 1, 10, 60)],
    "two topics": [("orders", 0, 0, 60), ("refunds", 0, 5, 60), ("refunds", 1, 0, 1)],
    "generations inside partitions": [
        *(("orders", 0, 0, 7, 9, 40, 60), ("orders", 1, 0, 60)),
        *(("refunds", 0, 3, 30, 60), ("refunds", 1, 0, 59, 60)),
    ],
}
PARTITIONED = (("topic_id",), ("topic_id", "generation", "partition"), ("topic",), ())


@pytest.mark.parametrize("partition_by", PARTITIONED, ids="/".join)
@pytest.mark.parametrize("shape", SHAPES)
def test_interpreted_and_compiled_jobs_write_the_same_rows(
    harness, spark, records, monkeypatch, tmp_path, shape, partition_by
):
    """Two ranges are read around, and the rows are those that the ranges name."""
    ranges = [piece for planned in SHAPES[shape] for piece in pieces(harness, *planned)]
    left_out = (*pieces(harness, "orders", 0, 8, 20), *pieces(harness, "orders", 0, 50, 51))
    wanted = {
        (r.topic_id, r.generation, r.partition, offset)
        for r in ranges
        for offset in offsets_of(r)
        if not any(
            r.topic_partition == u.topic_partition and offset in offsets_of(u) for u in left_out
        )
    }
    written = {}
    for name, few in ("interpreted", 1_000_000), ("compiled", 0):
        monkeypatch.setattr(session, "_FEW", few)
        job = SparkJob(
            stream="orders",
            plan_id="plan",
            run_id=name,
            table_uri=str(tmp_path),
            folder=name,
            partition_by=partition_by,
            isolation_level="read_committed",
            ranges=tuple(ranges),
            kafka_options={"kafka.bootstrap.servers": harness.broker.bootstrap_servers},
            unreadable=left_out,
        )
        result = ingest_range.execute(spark.session, job)
        is_compiled = spark.session.conf.get("spark.sql.codegen.wholeStage")
        assert is_compiled == str(name == "compiled").lower()
        assert result.rows == len(wanted)
        written[name] = whole(rows_of(Output(job.table_uri, job.folder)))
    assert written["interpreted"] == written["compiled"]
    found = [(r["topic_id"], r["generation"], r["partition"], r["offset"]) for r in written[name]]
    assert found == sorted(wanted)


def offsets_of(coordinates):
    return range(coordinates.start_offset, coordinates.end_offset)


def whole(rows):
    """Rows with the numbers in their folders' names as numbers, sorted."""
    rows = [{**r, **{k: int(r[k]) for k in ("generation", "partition")}} for r in rows]
    return sorted(rows, key=lambda r: (r["topic_id"], r["generation"], r["partition"], r["offset"]))
