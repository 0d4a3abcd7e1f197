"""How ranges become Spark's tasks, and their size its JVM's options."""

import pytest

from tests.worlds.build import planned, spark_job
from tests.worlds.raw_tables import decode_job, decode_plan
from tests.worlds.raw_tables import planned as coordinates
from tideline.documents import dump
from tideline.launch.programs import ASKING, DECODE, INGEST, application_for
from tideline.launch.runtime import SPILLS
from tideline.launch.submit import configuration, is_small, job_submission
from tideline.launch.target import Target
from tideline.spark.raw_rows import split_and_packed


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
    job = spark_job(planned(0, end))
    path = tmp_path / "job.json"
    path.write_text(dump(job))
    assert is_small(str(path)) == small
    options = configuration("local[2]", is_small=small)["spark.driver.extraJavaOptions"]
    assert ("TieredStopAtLevel" in options) == small
    assert "Tiered" not in configuration("yarn", is_small=True)["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(("end", "small"), [(999_999, True), (1_000_000, False)])
def test_a_job_that_decodes_is_as_large_as_its_plan(tmp_path, end, small):
    """And its file says which application it is for; a job that lands says nothing."""
    path = tmp_path / "job.json"
    plan = decode_plan(tmp_path, [coordinates(0, end)], [])
    path.write_text(dump(decode_job(tmp_path, [], plan)))
    assert (is_small(str(path)), application_for(str(path))) == (small, DECODE)
    path.write_text('{"stream": "orders"}')
    assert application_for(str(path)) == INGEST
    path.write_text('{"application": "../other"}')
    with pytest.raises(ValueError, match="no such application"):
        application_for(str(path))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A function that writes the site's `spark-defaults.conf`."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv(SPILLS, raising=False)
    return (tmp_path / "spark-defaults.conf").write_text


@pytest.mark.parametrize(
    ("master", "asks"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,512]", False), ("yarn", False)],
)
def test_a_spark_of_one_jvm_asks_who_is_there(site, master, asks):
    """Several JVMs share a secret, which is the site's to give. What a site says holds."""
    assert (ASKING.items() <= configuration(master, is_small=True).items()) == asks
    site("spark.authenticate false")
    assert "spark.authenticate" not in configuration(master, is_small=True)


@pytest.mark.parametrize("says", [None, "file", "variable"])
def test_a_driver_s_blocks_lie_beside_its_job(site, tmp_path, monkeypatch, says):
    """That folder is private, and goes; Spark's own in `/tmp` can be read by all."""
    if says == "file":
        site("spark.local.dir /big/disk")
    if says == "variable":
        monkeypatch.setenv(SPILLS, "/big/disk")
    job = tmp_path / "job.json"
    job.write_text(dump(spark_job(planned(0, 5))))
    given = job_submission(Target("yarn"), str(job)).environment
    assert given.get(SPILLS) == (None if says else str(tmp_path))
