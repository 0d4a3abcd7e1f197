"""How ranges become Spark's tasks, and their size its JVM's options."""

import pytest

from tests.unit.build import planned
from tideline.documents import dump
from tideline.launch.job import SparkJob
from tideline.launch.submit import configuration, is_small
from tideline.spark.source import split_and_packed


@pytest.mark.parametrize(
    ("counts", "pieces", "tasks"),
    [
        ([10], 1, 1),
        ([2_000_000], 1, 1),
        ([2_000_001], 2, 2),
        ([4_000_000, 4_000_000], 4, 4),
        ([9_000_000, 10, 10, 10], 8, 8),
        ([2_500] * 4, 4, 4),
        ([10] * 5, 5, 4),
        ([10] * 1_000, 1_000, 20),
        ([60_000] * 100, 100, 100),
        ([25_000] * 100, 100, 50),
    ],
)
def test_long_ranges_are_split_and_short_ones_share(counts, pieces, tasks):
    """So neither one core does it all, nor does every partition become a file."""
    assert split_and_packed(counts) == (pieces, tasks)


@pytest.mark.parametrize(("end", "small"), [(999_999, True), (1_000_000, False)])
def test_a_small_job_gets_a_jvm_that_starts_quickly(tmp_path, end, small):
    """A large one gets a JVM that compiles well; on a cluster the driver does neither."""
    job = SparkJob(
        stream="orders",
        plan_id="p",
        run_id="r",
        table_uri="/lake/orders",
        folder="landed-p-1",
        partition_by=("topic_id",),
        isolation_level="read_committed",
        ranges=(planned(0, end),),
        kafka_options={},
        result_path="result",
    )
    path = tmp_path / "job.json"
    path.write_text(dump(job))
    assert is_small(str(path)) == small
    options = configuration("local[2]", is_small=small)["spark.driver.extraJavaOptions"]
    assert ("TieredStopAtLevel" in options) == small
    assert "Tiered" not in configuration("yarn", is_small=True)["spark.driver.extraJavaOptions"]
