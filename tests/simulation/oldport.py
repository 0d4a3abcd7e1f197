"""The write port of before: Spark commits. Goes when the one way to write is there."""

from __future__ import annotations

from pathlib import Path

from tests.simulation.spark import SimulatedSpark
from tests.simulation.table import SimulatedTable, grouped, is_inside
from tideline.documents import dump, load
from tideline.errors import ServiceAway
from tideline.launch import job as jobs


class OldTable(SimulatedTable):
    """As it was."""

    def add_files(self, job, checked_version):
        self._tick("table.add<")
        s = self._state
        if s.newest is None or s.newest.tokens.get(job.app_id, 0) >= job.token:
            return
        if any(is_inside(job.ranges, r) for r in s.rows()):
            return
        rows = s.files.get((job.plan_id, job.token), ())
        self._append(job.app_id, job.ledger_id, job.plan_id, job.token, job.ranges, rows)
        if s.lost_answers:
            s.lost_answers -= 1
            raise ServiceAway("no answer")
        self._tick("table.add>")

    def remove_staging(self, token):
        pass


class OldSpark(SimulatedSpark):
    """As it was."""

    def submit(self, path):
        job = load(jobs.SparkJob, Path(path).read_bytes(), "job")
        self._tick(f"spark.{job.action}<")
        if self._state.fails and job.action != "remove":
            self._state.fails -= 1
            raise ServiceAway("Spark ended with status 1")
        result = jobs.SparkResult()
        rows = ()
        if job.action in ("append_files", "stage", "replace_where"):
            rows = []
            for r in job.ranges:
                rows += self._read(r, job.isolation_level)
                self._tick("spark.read")
        t = self._table
        if job.action == "append_files":
            t.files[job.plan_id, job.token] = tuple(rows)
        elif job.action == "stage":
            t.files["staged", job.token] = tuple(rows)
            result = jobs.SparkResult(
                len(rows),
                tuple(
                    jobs.StagedRows(i, len({r.offset for r in g})) for i, g in grouped(rows).items()
                ),
            )
        else:
            if job.action == "publish":
                rows = t.files["staged", job.token]
            if t.newest.tokens.get(job.app_id, 0) < job.token:
                SimulatedTable(t)._append(
                    job.app_id, job.ledger_id, job.plan_id, job.token, job.ranges, rows
                )
        Path(job.result_path).write_text(dump(result))
        self._tick(f"spark.{job.action}>")
