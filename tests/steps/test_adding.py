"""Between Spark's writing and the commit: what others do there, and what Spark has left undone."""

from pathlib import Path

import pytest

from tests.simulation.table import Row, Version
from tests.worlds.spark_doubles import HookedSpark, LossySpark
from tideline.documents import dump, load
from tideline.errors import AttemptFenced, ReplayUnavailable, ServiceAway, VerificationFailed
from tideline.landing import table_commit
from tideline.model.offsets import PartitionIdentity
from tideline.model.spark_job import SparkJob
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.table.schema import app_id


@pytest.fixture
def waiting(memory):
    """60 records in each of two partitions."""
    memory.grow(2)
    for partition in (0, 1):
        memory.send(60, partition)
    return memory


@pytest.fixture
def at_committing(monkeypatch):
    """Do something between the last look at the table and the commit, so many times."""

    def hook(act, times=1):
        left = iter(range(times))
        monkeypatch.setattr(
            table_commit,
            "reach",
            lambda place: act() if place == "table:committing" and next(left, -1) >= 0 else None,
        )

    return hook


def rewrite(world):
    """A commit of somebody else that changes no row."""
    world.table.add_foreign(world.table.rows(), "SET TBLPROPERTIES", removes_rows=False)


def put_rows(world):
    """Somebody lands the records before us."""
    ids = [PartitionIdentity(world.topic_id(), 0, partition) for partition in (0, 1)]
    rows = [Row(identity, offset, 1) for identity in ids for offset in range(60)]
    world.table.add_foreign(rows, "WRITE", removes_rows=False)


def test_a_commit_of_others_in_between_is_looked_at_and_passed(waiting, at_committing):
    """It changes no row at the coordinates: our files come after it."""
    at_committing(lambda: rewrite(waiting))
    assert waiting.run("one").status == "done"
    made = [version.operation for version in waiting.table.versions]
    assert made == ["CREATE TABLE", "SET TBLPROPERTIES", "WRITE"]
    assert len(waiting.rows()) == 120


def test_others_who_never_stop_committing_are_a_passing_fault(waiting, at_committing):
    """Nothing was added; the next try finds the table at rest."""
    at_committing(lambda: rewrite(waiting), times=100)
    with pytest.raises(ServiceAway, match="other programs have committed first"):
        waiting.run("one")
    assert waiting.rows() == []
    at_committing(lambda: None)
    assert waiting.run("one").status == "done"
    assert len(waiting.rows()) == 120


def test_rows_that_somebody_put_there_in_between_get_no_second_copy(waiting, at_committing):
    """The transaction holds for the version that was looked at; these rows are replaced (R2)."""
    at_committing(lambda: put_rows(waiting))
    waiting.run("one")
    assert len(waiting.rows()) == 120
    assert len({row.serial for row in waiting.table.rows()}) == 120


def test_more_rows_that_somebody_put_there_in_between_stay(waiting, at_committing):
    """R4 holds for whatever stands there: what was read has to hold all of it."""
    at_committing(lambda: put_rows(waiting))
    waiting.sparks = [lambda spark: LossySpark(spark, 2)]
    with pytest.raises(ReplayUnavailable, match="58 offsets were read where the table holds 60"):
        waiting.run("one")
    assert len(waiting.rows()) == 120
    assert set(waiting.head.values()) == {0}


def test_an_older_attempt_s_files_are_not_added(waiting, at_committing):
    """R5: a newer attempt has committed elsewhere in the table since the last look."""
    waiting.freeze("one")

    def newer():
        given = waiting.ledger().update(lambda s: s.with_next_token(999))
        ledger_id = given.control.ledger_id
        waiting.table.versions.append(Version({}, "WRITE", tokens={app_id(ledger_id): 1_000}))

    at_committing(newer)
    with pytest.raises(AttemptFenced):
        ingest_ranges(waiting.open("one"))
    assert waiting.rows() == []
    at_committing(lambda: None)
    assert waiting.run("one").status == "done"
    assert len(waiting.rows()) == 120


class Farther:
    """A reader that reads more than it was told to."""

    def __init__(self, spark):
        self.spark = spark

    def submit(self, job_path):
        job = load(SparkJob, Path(job_path).read_bytes(), "the job")
        text = dump(job).replace('"end_offset":50', '"end_offset":60')
        assert text != dump(job)
        Path(job_path).write_text(text)
        self.spark.submit(job_path)


def test_rows_that_were_not_planned_are_refused(waiting):
    """Nothing of the attempt is added, and the position stays."""
    waiting.configure(limits={"max_records_per_run": 100})
    waiting.sparks = [Farther]
    with pytest.raises(VerificationFailed, match="not at planned"):
        waiting.run("one")
    assert waiting.rows() == []
    assert waiting.run("one").status == "done"
    assert len(waiting.rows()) == 100


def test_what_a_failed_attempt_has_written_stays_outside_of_the_table(waiting):
    """An attempt's folder is its own."""

    def fail():
        raise ServiceAway("spark-submit ended with status 143")

    waiting.sparks = [lambda spark: HookedSpark(spark, after=fail)]
    with pytest.raises(ServiceAway):
        waiting.run("one")
    waiting.run("one")
    first, second = waiting.table.manifests
    assert first != second
    assert len(waiting.rows()) == 120


@pytest.mark.parametrize("gaps", ["explain", "transactional", "compacted"])
def test_a_file_that_is_lost_before_the_commit_is_missed(waiting, gaps):
    """Whatever gaps the stream admits: the manifest names it, and Spark counted its rows."""
    waiting.configure(gaps=gaps)
    lose = lambda: waiting.table.files.pop(next(iter(waiting.table.files)))  # noqa: E731
    waiting.sparks = [lambda spark: HookedSpark(spark, after=lose)]
    with pytest.raises(VerificationFailed, match="is missing"):
        waiting.run("one")
    assert waiting.rows() == []
    assert waiting.run("one").status == "done"
    assert len(waiting.rows()) == 120
