"""Keys, values and headers of real records, up to 1 MB, as Spark's own writer stores them."""

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from tests.worlds.raw_tables import named_files
from tests.worlds.streams import is_clean, table_rows, table_version
from tideline.landing import attempts
from tideline.model.spark_job import Output, SparkResult
from tideline.spark.raw_rows import write_rows

SIZES = (None, 0, 10, 5_000, 900_000)


@pytest.mark.parametrize(
    "columns",
    [
        ["topic", "topic_id", "partition"],
        pytest.param(["generation", "partition"], marks=pytest.mark.slow),
        pytest.param(["topic_id", "generation", "topic", "partition"], marks=pytest.mark.slow),
        pytest.param([], marks=pytest.mark.slow),
    ],
    ids=",".join,
)
def test_large_records_under_every_number_of_partition_columns(harness, spark, columns):
    """Landed, read again, and taken away: Parquet's writer leaves their statistics out."""
    topic = harness.create(partitions=2, **{"max.message.bytes": "4000000"})
    sent = produce(harness, topic)
    stream = harness.stream(
        topics=["orders"], table={"uri": f"{harness.lake}/t", "partition_by": columns}
    )
    for run_id in ("one", "one"):
        assert harness.run(stream, run_id, spark).status == "done"
        assert stored(stream) == sent
    assert table_version(stream) == 2
    assert len(table_rows(stream)) == len(sent)
    assert is_clean(harness, stream)


def produce(harness, topic):
    """(partition, key, value, header) of every record, as sizes."""
    producer = KafkaProducer(
        bootstrap_servers=harness.broker.bootstrap_servers,
        max_request_size=4_000_000,
    )
    sent = []
    for key in SIZES:
        for value in SIZES:
            if key is value is None:  # kafka-python sends no such record
                continue
            partition, header = len(sent) % 2, SIZES[len(sent) % len(SIZES)]
            producer.send(
                topic,
                filled(value),
                filled(key),
                headers=[] if header is None else [("h", filled(header))],
                partition=partition,
            )
            sent.append((partition, key, value, header))
    producer.flush()
    producer.close()
    return sorted(sent, key=repr)


def filled(size):
    return None if size is None else b"\xff" * size


def stored(stream):
    names = ["partition", "key", "value", "headers"]
    rows = DeltaTable(stream.table.uri).to_pyarrow_table(columns=names).to_pylist()
    return sorted(
        (
            (
                row["partition"],
                size(row["key"]),
                size(row["value"]),
                size(row["headers"][0]["value"]) if row["headers"] else None,
            )
            for row in rows
        ),
        key=repr,
    )


def size(value):
    return None if value is None else len(value)


def test_large_rows_do_not_pile_up_in_memory(spark, tmp_path):
    """Parquet's writer would keep a hundred of them before it looks how large they are."""
    value = "aes_encrypt(repeat(CHAR(id % 64), 3000000), '0123456789abcdef') AS value"
    rows = spark.session.range(0, 60, 1, 1).selectExpr("0 AS part", "id AS offset", value)
    output = Output(str(tmp_path), "landed-p-1", ("part",))
    write_rows(rows, output)
    (path,) = named_files(output)
    footer = pq.ParquetFile(tmp_path / "landed-p-1" / path).metadata
    assert (footer.num_rows, footer.num_row_groups > 1) == (60, True)


def test_a_plan_is_read_in_one_task_for_want_of_memory(harness, spark, monkeypatch):
    """The frozen plan, all partitions one after the other; landed once."""
    harness.create(partitions=3)
    for partition in range(3):
        harness.send(100, partition=partition)
    stream = harness.stream()
    real, met = attempts.hand_over, []

    def starved(run, job, kind):
        met.append(job)
        if len(met) == 1:
            return SparkResult(error="ServiceAway", message="out of memory"), None
        return real(run, job, kind)

    monkeypatch.setattr(attempts, "hand_over", starved)
    record = harness.run(stream, "one", spark)
    assert (record.status, [job.in_one_task for job in met]) == ("done", [False, True])
    assert {r.as_coordinates for r in record.plan.ranges} == {*met[0].ranges} == {*met[1].ranges}
    assert len(DeltaTable(stream.table.uri).file_uris()) == 1
    assert len(table_rows(stream)) == len(set(table_rows(stream))) == 300
    assert is_clean(harness, stream)
