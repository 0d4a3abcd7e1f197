"""Tideline's commit protocol for Spark (ADR 28): what tasks write, and what the manifest names."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from devstack.store_faults import counted
from tests.worlds.raw_tables import named_files
from tideline.errors import BadInput
from tideline.model.spark_job import Output, SparkJob
from tideline.spark.failures import failed
from tideline.spark.raw_rows import write_rows
from tideline.spark.session import COMMIT_PROTOCOL

KEY = "spark.sql.sources.commitProtocolClass"


@pytest.fixture
def jvm(spark):
    return spark.session._jvm


@dataclass(frozen=True)
class Place:
    """An attempt's folder: for Spark, and as this process finds its files."""

    output: Output
    seen: Output

    @property
    def folder(self):
        return Path(self.seen.uri, self.seen.folder)

    @property
    def written(self):
        """Data files in the folder, named or not."""
        return sorted(self.folder.rglob("*.parquet"))

    @property
    def named(self):
        return sorted(named_files(self.seen))


IN_STORE = pytest.param("store", marks=[pytest.mark.slow, pytest.mark.s3a])


@pytest.fixture(params=["folder", IN_STORE])
def place(request, tmp_path):
    """On this disk, and in an object store."""
    seen = uri = str(tmp_path / "t")
    if request.param == "store":
        request.getfixturevalue("spark_in_store")
        bucket = request.getfixturevalue("bucket")
        uri, seen = bucket.uri("t"), str(bucket.path("t"))
    return Place(*(Output(u, "landed-p-1", ("part",)) for u in (uri, seen)))


def rows(spark, count=100):
    """Two tasks; each writes into both partitions of the table."""
    return spark.session.range(0, count, 1, 2).selectExpr("id", "id % 2 AS part")


def test_the_manifest_names_every_file_that_tasks_have_committed(spark, place):
    """Wherever the partition columns' values put them."""
    write_rows(rows(spark), place.output)
    assert place.named == place.written
    assert len(place.written) == 4


def test_without_rows_there_is_a_manifest_too(spark, place):
    """So its absence always says that something is wrong."""
    write_rows(rows(spark, 0), place.output)
    assert place.named == place.written == []


def made(jvm, *arguments):
    return getattr(jvm.tideline.spark, COMMIT_PROTOCOL.rpartition(".")[2])(*arguments)


def attempt_of(jvm, split, number):
    mapreduce = jvm.org.apache.hadoop.mapreduce
    kind = mapreduce.TaskType.MAP
    attempt = mapreduce.TaskAttemptID("20260101", 0, kind, split, number)
    return mapreduce.task.TaskAttemptContextImpl(
        jvm.org.apache.hadoop.conf.Configuration(), attempt
    )


def test_two_attempts_of_a_task_never_write_one_file(jvm):
    """Spark numbers task attempts through the life of its driver; splits begin anew in each job."""
    nothing = jvm.scala.Option.empty()
    names = set()
    for split, number in ((0, 7), (0, 8), (1, 8)):
        protocol = made(jvm, "job", "/lake/t/landed-p-1", False)
        task = attempt_of(jvm, split, number)
        protocol.setupTask(task)
        names.add(protocol.newTaskTempFile(task, nothing, ".parquet"))
    assert names == {
        f"/lake/t/landed-p-1/part-{split:05d}-{number}-job.parquet"
        for split, number in ((0, 7), (0, 8), (1, 8))
    }


def test_a_failed_task_deletes_what_it_wrote_and_no_manifest_is_written(spark, place):
    """Its files are whole or half; nobody may take them for rows."""
    spoilt = F.when(F.col("id") == 99, F.raise_error(F.lit("spoilt"))).otherwise(F.col("id"))
    with pytest.raises(Exception, match="spoilt"):
        write_rows(rows(spark).withColumn("id", spoilt), place.output)
    assert not [file for file in place.written if file.name.startswith("part-00001-")]
    assert not list(place.folder.rglob("_files.json"))


@pytest.mark.slow
@pytest.mark.s3a
def test_twenty_files_cost_few_requests(spark_in_store, bucket):
    """A put of each file and a look at its size, then the manifest; 42 when it was counted."""
    rows = spark_in_store.session.range(0, 2000, 1, 20)
    bucket.proxy.clear()
    write_rows(rows, Output(bucket.uri("t"), "landed-p-1", ()))
    requests = bucket.proxy.requests
    print(len(requests), dict(counted(requests)))
    written = [r for r in requests if r.operation == "PUT" and r.key.endswith(".parquet")]
    assert len(written) == 20
    assert len(requests) <= 60


def test_what_would_replace_files_is_refused(spark, place):
    """It only adds files; who replaces some has to say so to the run."""
    write = rows(spark).write.partitionBy("part").mode("overwrite")
    write = write.option("partitionOverwriteMode", "dynamic")
    with pytest.raises(Exception, match="only adds files; partitionOverwriteMode=dynamic"):
        write.parquet(f"{place.output.uri}/{place.output.folder}")


def test_a_spark_without_our_jar_is_bad_input(spark):
    """A server that others have started: a retry changes nothing; the message names the jar."""
    with pytest.raises(Exception, match="must be loadable") as lacking:
        spark.session.conf.set(KEY, f"{COMMIT_PROTOCOL}OfAnotherVersion")
    job = SparkJob("s", "r", "p", "/lake/t", "landed-p-1", (), "read_committed", (), {})
    result = failed(None, job, lacking.value)
    assert result.error == BadInput.__name__
    assert "tideline-committer-*.jar" in result.message
