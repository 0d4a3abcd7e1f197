"""The real Spark, with something that goes wrong around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from devstack.spark_apps import InProcessSpark
from tideline.documents import dump, load
from tideline.model.spark_job import SparkJob


class HookedSpark:
    """Spark, with something that happens right before or right after it reads."""

    is_here = False

    def __init__(
        self,
        spark: InProcessSpark,
        *,
        before: Callable[[], object] | None = None,
        after: Callable[[], object] | None = None,
    ) -> None:
        self.spark, self.before, self.after = spark, before, after

    def submit(self, job_path: str) -> None:
        """Run the job file as spark-submit would."""
        if self.before is not None:
            self.before()
        self.spark.submit(job_path)
        if self.after is not None:
            self.after()


class LossySpark:
    """A reader that loses records: the job's ranges end early, and it reports success."""

    def __init__(self, spark, lost, partitions=(0,)):
        self.spark, self.lost, self.partitions = spark, lost, partitions

    @property
    def submits(self):
        return self.spark.submits

    def submit(self, job_path):
        job = load(SparkJob, Path(job_path).read_bytes(), "the job")
        shorter = [
            replace(r, end_offset=r.end_offset - self.lost) if r.partition in self.partitions else r
            for r in job.ranges
        ]
        Path(job_path).write_text(dump(replace(job, ranges=tuple(shorter))))
        self.spark.submit(job_path)


class Session:
    """A Spark session that keeps its settings, and no more."""

    def __init__(self):
        self.settings = {}

    @property
    def conf(self):
        """Where settings go."""
        return self

    def set(self, name, value):
        """Keep one."""
        self.settings[name] = value
