"""`make bench-fold`: changes into a current table, beside MERGE of Spark and of delta-rs.

The typed rows are made by Spark. The fold has a process of its own; MERGE runs in one warm session;
delta-rs merges in this process. Each way does each portion of changes once, on a table of its own,
and all have the same rows at the end. Writes its table into docs/current.md, between the two
comments that name this module.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.processor import used, with_jvms
from bench.report import write_between
from bench.tables import Table
from devstack.spark_apps import InProcessSpark
from tideline.delta.delta_io import files_of
from tideline.documents import load
from tideline.folding.arrow.folding import fold as fold_over_arrow
from tideline.launch.progress import logged_seldom
from tideline.model.current import CurrentColumn, Deletes, Folding, FoldPlan, FoldRecord, Layout
from tideline.model.fold_job import BucketFiles, FoldJob, FoldResult
from tideline.model.head import KnownCommit
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import Output
from tideline.table.written_files import Manifest

_PAGE = Path("docs/current.md")
_ID = "6a0b0c5e-0000-4000-8000-000000000001"
_CHANGES = 50_000
_ROUNDS = 3
_VALUES = 8
"""Columns of a row beside its key: as many numbers as texts."""
_WAYS = ("fold", "MERGE of Spark", "merge of delta-rs")


@dataclass
class Meter:
    """Wall time, processor time of a process and its JVM, and the memory of either at its peak."""

    seconds: float = 0.0
    processor: float = 0.0
    peak_mb: float = 0.0
    written_mb: float = 0.0


@dataclass
class Fold:
    """A current table as the ledger would know it.

    Args:
        execute: Folds.
        folder: Of the typed table and of the current one.
        buckets: How many.
    """

    execute: Callable[[FoldJob], FoldResult]
    folder: Path
    buckets: int
    head: Folding = field(default_factory=Folding)
    files: dict[int, list[str]] = field(default_factory=dict)
    count: int = 0

    @property
    def root(self) -> Path:
        """Of the current table."""
        return self.folder / "current"

    def fold(self, start: int, end: int) -> FoldResult:
        """Fold the typed rows at offsets; `end` is exclusive."""
        self.count += 1
        typed, folder = self.folder / "typed", f"landed-{self.count}"
        here = CoordinateRange("orders", _ID, 0, 0, start, end)
        plan = FoldPlan(
            plan_id=f"p{self.count}",
            run_id="run",
            frozen_at=datetime.now(UTC),
            typed_table_id="typed",
            typed_version=1,
            ranges=(here,),
            again=(),
            covered=(CoordinateRange("orders", _ID, 0, 0, 0, end),),
            is_anew=False,
            layout=Layout(("k",), self.buckets),
            columns=tuple(CurrentColumn(n, n, kind) for n, kind in _columns()),
            has_unavailable=False,
            has_truncates=False,
            deletes=Deletes(tombstones=False, column="op", equals="d"),
            eras=(_ID,),
            order="offset",
            barrier=None,
            table_uri=str(self.root),
        )
        job = FoldJob(
            typed_uri=str(typed),
            typed_files=tuple(
                str(path.relative_to(typed)) for path in sorted(typed.glob(f"{start}/*.parquet"))
            ),
            current_files=tuple(BucketFiles(b, tuple(f)) for b, f in self.files.items()),
            plan=plan,
            current=Output(plan.table_uri, folder, ("bucket",)),
            before=self.head.buckets,
        )
        result = self.execute(job)
        assert not result.refused, result.refused
        self._commit(folder, result)
        record = FoldRecord(plan, buckets=result.left)
        known = KnownCommit(self.count, 1, plan.plan_id, "run")
        self.head = self.head.opened(record).closed(record, known)
        return result

    def _commit(self, folder: str, result: FoldResult) -> None:
        root = self.root / folder
        manifest = load(Manifest, (root / "_files.json").read_bytes(), "the manifest")
        old = {b: self.files.pop(b, []) for b in result.touched}
        for file in manifest.files:
            bucket = int(file.split("/")[0].partition("=")[2])
            self.files.setdefault(bucket, []).append(f"{folder}/{file}")
        for path in (f for files in old.values() for f in files):
            (self.root / path).unlink()


class Here:
    """The fold over Arrow, in a process that does nothing else."""

    def __init__(self) -> None:
        self._process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._process.submit(_ready).result()
        self.meter = Meter()

    def execute(self, job: FoldJob) -> FoldResult:
        """Fold; `meter` tells what it took."""
        result, self.meter = self._process.submit(_fold_here, job).result()
        return result

    def close(self) -> None:
        """End the process."""
        self._process.shutdown()


def _ready() -> None:
    """The process has imported what it needs."""


def _fold_here(job: FoldJob) -> tuple[FoldResult, Meter]:
    root = Path(job.current.uri)
    root.mkdir(exist_ok=True)
    Path("/proc/self/clear_refs").write_text("5")
    began, before = time.monotonic(), time.process_time()
    result = fold_over_arrow(job, lambda uri: files_of(uri, {}), logged_seldom())
    meter = Meter(time.monotonic() - began, time.process_time() - before, _peak_mb(os.getpid()))
    new = (root / job.current.folder).rglob("*.parquet")
    meter.written_mb = sum(os.path.getsize(path) for path in new) / 1e6
    return result, meter


def folding(folder: Path, rows: int, buckets: int) -> Table:
    """Fold and merge the same changes, portion by portion."""
    spark = InProcessSpark(is_small=False)
    session = spark.session
    here = Here()
    fold = Fold(here.execute, folder, buckets)
    table = Table(
        "folding",
        f"{rows:,} rows of {_VALUES + 1} columns, {buckets} buckets; {_CHANGES:,} changes a portion"
        " (a tenth new keys, a twentieth deletes), warm; the last of three portions of each kind."
        " Wall and processor seconds; memory at its peak, of Spark's JVM or of the process that"
        " folds.",
        ("changes", "way", "seconds", "processor s", "MB", "written MB"),
    )
    _typed(session, folder, 0, session.range(rows).select(F.col("id").alias("k")))
    fold.fold(0, rows)
    _told(table, f"all {rows:,}, the first time", _WAYS[0], here.meter)
    for name in ("spark", "rust"):
        made = session.read.parquet(str(folder / "typed" / "0")).select(*(n for n, _ in _columns()))
        made.repartition(8).write.format("delta").save(str(folder / name))
    offset = rows
    for kind in ("random keys", "one range of keys", "1,000 of one bucket"):
        for number in range(_ROUNDS):
            keys = _keys(session, kind, rows, number, buckets)
            count = _typed(session, folder, offset, keys)
            fold.fold(offset, offset + count)
            meters = (here.meter, *_portion(session, folder, offset))
            offset += count
        for way, meter in zip(_WAYS, meters, strict=True):
            _told(table, kind, way, meter)
    _compare(session, fold)
    here.close()
    spark.stop()
    return table


def _portion(session: SparkSession, folder: Path, offset: int) -> tuple[Meter, ...]:
    """The same changes by each other way."""
    changes = folder / "typed" / str(offset)

    def by_rust() -> None:
        found = DeltaTable(str(changes.with_name(f"delta-{offset}"))).to_pyarrow_table()
        merge = DeltaTable(str(folder / "rust")).merge(found, "t.k = s.k", "s", "t")
        merge.when_matched_delete("s.op = 'd'").when_matched_update(
            {n: f"s.{n}" for n, _ in _columns()}
        ).when_not_matched_insert({n: f"s.{n}" for n, _ in _columns()}, "s.op <> 'd'").execute()

    def by_spark() -> None:
        session.read.parquet(str(changes)).createOrReplaceTempView("s")
        sets = ", ".join(f"t.{n} = s.{n}" for n, _ in _columns())
        names, values = (", ".join(f"{p}{n}" for n, _ in _columns()) for p in ("", "s."))
        session.sql(
            f"MERGE INTO delta.`{folder / 'spark'}` t USING s ON t.k = s.k"
            f" WHEN MATCHED AND s.op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET {sets}"
            f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({names}) VALUES ({values})"
        ).collect()

    copy = session.read.parquet(str(changes))
    copy.write.format("delta").save(str(changes.with_name(f"delta-{offset}")))
    return (
        _measured(folder / "spark", by_spark),
        _measured(folder / "rust", by_rust),
    )


def _keys(session: SparkSession, kind: str, rows: int, number: int, buckets: int) -> DataFrame:
    """Keys of one portion: a tenth of them are new, but for those of one bucket."""
    old, new = _CHANGES * 9 // 10, _CHANGES // 10
    if kind.startswith("1,000"):
        text = F.to_json(F.array(F.col("k").cast("string")))
        bucket = F.pmod(F.xxhash64(text), F.lit(buckets).cast("bigint"))
        known = session.range(rows).select(F.col("id").alias("k"))
        return known.filter(bucket == number % buckets).limit(1000)
    fresh = session.range(2 * rows + number * new, 2 * rows + (number + 1) * new)
    if kind.startswith("random"):
        found = session.range(rows).orderBy(F.rand(number)).limit(old)
    else:
        found = session.range(number * old, (number + 1) * old)
        fresh = session.range(3 * rows + number * new, 3 * rows + (number + 1) * new)
    return found.union(fresh).select(F.col("id").alias("k"))


def _typed(session: SparkSession, folder: Path, offset: int, keys: DataFrame) -> int:
    """Write changes of keys as typed rows from an offset on; how many they are."""
    path = folder / "typed" / str(offset)
    rows = _values(keys).withColumns(
        {
            "topic_id": F.lit(_ID),
            "generation": F.lit(0),
            "partition": F.lit(0),
            "timestamp": F.current_timestamp(),
            "op": F.when((F.col("k") % 20 == 7) & (F.lit(offset) > 0), "d").otherwise("u"),
        }
    )
    numbered = rows.rdd.zipWithIndex().map(lambda pair: (*pair[0], pair[1] + offset))
    if offset == 0:  # the keys are the offsets, and five million rows stay out of Python
        rows.withColumn("offset", F.col("k")).write.parquet(str(path))
    else:
        schema = rows.withColumn("offset", F.lit(0).cast("bigint")).schema
        session.createDataFrame(numbered, schema).coalesce(1).write.parquet(str(path))
    return session.read.parquet(str(path)).count()


def _columns() -> list[tuple[str, str]]:
    """The row's columns, and their types."""
    numbers = [(f"n{i}", "long") for i in range(_VALUES // 2)]
    return [("k", "long"), *numbers, *((f"t{i}", "string") for i in range(_VALUES // 2))]


def _values(keys: DataFrame) -> DataFrame:
    """A row of values for each key, another one at each call."""
    made = {
        name: F.xxhash64("k", F.lit(name), F.current_timestamp())
        if kind == "long"
        else F.concat(F.lit(f"{name}-"), F.hex(F.xxhash64("k", F.lit(name)) % 1_000_000))
        for name, kind in _columns()[1:]
    }
    return keys.withColumns(made)


def _measured(folder: Path, do: Callable[[], object]) -> Meter:
    processes, before = with_jvms(), {*folder.rglob("*.parquet")}
    jvms = processes[1:]
    for jvm in jvms:
        with suppress(OSError):  # where the kernel lacks it the peak is that of the whole run
            Path(f"/proc/{jvm.pid}/clear_refs").write_text("5")
    before_it, began = used(processes), time.monotonic()
    do()
    meter = Meter(time.monotonic() - began, used(processes) - before_it)
    meter.peak_mb = sum(_peak_mb(jvm.pid) for jvm in jvms)
    new = (path for path in folder.rglob("*.parquet") if path not in before)
    meter.written_mb = sum(os.path.getsize(path) for path in new) / 1e6
    return meter


def _peak_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1000
    return 0.0


def _told(table: Table, kind: str, way: str, meter: Meter) -> None:
    figures = (meter.seconds, meter.processor)
    memory = f"{meter.peak_mb:,.0f}" if "delta-rs" not in way else "-"
    table.add(kind, way, *(f"{f:.1f}" for f in figures), memory, f"{meter.written_mb:,.0f}")


def _compare(session: SparkSession, fold: Fold) -> None:
    """All three tables have the same rows."""
    names = [n for n, _ in _columns()]
    files = [str(fold.root / f) for found in fold.files.values() for f in found]
    folded = session.read.parquet(*files).filter("NOT is_deleted").select(*names)
    for other in ("spark", "rust"):
        merged = session.read.format("delta").load(str(fold.folder / other)).select(*names)
        sums = [
            rows.agg(F.count("k"), F.sum(F.xxhash64(*names) % 1_000_000_007)).collect()
            for rows in (folded, merged)
        ]
        assert sums[0] == sums[1], (other, sums)
    shutil.rmtree(fold.folder, ignore_errors=True)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="bench.folding")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--buckets", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        table = folding(Path(folder), options.rows, options.buckets)
    write_between(_PAGE, "bench.folding", table)


if __name__ == "__main__":
    main()
