"""Typed rows, the fold over them, and what a current table has to hold by its definition."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.worlds.build import ID
from tests.worlds.fold_plans import AT, fold_plan
from tests.worlds.rows import LOG
from tideline.delta.delta_io import files_of
from tideline.documents import load
from tideline.folding.arrow.folding import fold
from tideline.folding.fold_rules import Due, comes_below, drops_of
from tideline.launch.progress import logged_seldom
from tideline.model.current import (
    SUMS,
    CurrentColumn,
    Deletes,
    Folding,
    FoldRecord,
    Layout,
)
from tideline.model.fold_job import BucketFiles, FoldJob
from tideline.model.head import KnownCommit
from tideline.model.offsets import (
    CoordinateRange,
    Incarnations,
    OffsetRange,
    PartitionIdentity,
    intersect,
    union,
)
from tideline.model.places import Places
from tideline.model.spark_job import Output
from tideline.table.written_files import Manifest

TYPED = pa.schema(
    [
        *LOG,
        ("is_tombstone", pa.bool_()),
        ("op", pa.string()),
        ("unavailable_columns", pa.list_(pa.string())),
        ("k", pa.string()),
        ("v", pa.string()),
        ("w", pa.int64()),
    ]
)
COLUMNS = tuple(
    CurrentColumn(n, n, k) for n, k in (("k", "string"), ("v", "string"), ("w", "long"))
)

SEQUENCE = {
    "order": "sequence",
    "layout": Layout(("k",), 4, sequence=("w",)),
    "sequence": (CurrentColumn("sequence_1", "w", "long"),),
}
"""Of a plan: the row's own `w` orders its changes."""


def change(offset, k, op="u", v=None, w=None, *, partition=0, topic_id=ID, generation=0, lacks=()):
    """A typed row; without `op` a tombstone."""
    return {
        "topic_id": topic_id,
        "generation": generation,
        "topic": "orders",
        "partition": partition,
        "offset": offset,
        "timestamp": AT + timedelta(seconds=offset),
        "is_tombstone": op is None,
        "op": op,
        "unavailable_columns": [*lacks] or None,
        "k": k,
        "v": v,
        "w": w,
    }


def is_whole(result):
    """Whether a result is to be committed: it has written all rows that it has left."""
    return bool(result.written.rows) or not result.left


def folded(job):
    """Fold a job; of a fold that is done again, or refused, no file stays."""
    Path(job.current.uri).mkdir(exist_ok=True)
    result = fold(job, lambda uri: files_of(uri, {}), logged_seldom())
    if result.refused or result.anew or result.needs_all or not is_whole(result):
        shutil.rmtree(Path(job.current.uri, job.current.folder), ignore_errors=True)
    return result


class Folds:
    """A typed table that one may change at will, and the current table that is folded from it.

    Args:
        folder: For both tables.
        keeps: Whether rows of keys that are gone are kept.
        plan: Other facts of each plan.
    """

    def __init__(self, folder, *, buckets=3, keeps=True, **plan):
        self.folder, self.keeps = folder, keeps
        self.plan = {
            "layout": Layout(("k",), buckets),
            "columns": COLUMNS,
            "has_unavailable": True,
            "has_truncates": True,
            "deletes": Deletes(tombstones=True, column="op", equals="d"),
            "eras": (ID,),
            "order": "offset",
            "sums": SUMS,
            **plan,
        }
        self.execute = folded
        self.head = Folding()
        self.rows = {}
        self.files = {}
        self.folds, self.last = 0, None

    def has(self, *changes):
        """Typed rows come, or take the place of others at their coordinates."""
        self.rows |= {place(row): row for row in changes}

    def lose(self, ranges):
        """Typed rows go, after a rewind."""
        gone = {p for p in self.rows if any(is_at(p, r) for r in ranges)}
        self.rows = {p: row for p, row in self.rows.items() if p not in gone}

    def fold(self, ranges, again=(), *, anew=(), is_anew=False):
        """One fold, given again with the buckets that it asks for; its result."""
        self.folds += 1
        typed = self.folder / "typed"
        typed.mkdir(parents=True, exist_ok=True)
        name = f"typed-{self.folds}.parquet"
        pq.write_table(pa.Table.from_pylist([*self.rows.values()], TYPED), typed / name)
        covered = self.head.coverage | Places.of(ranges)
        is_anew |= comes_below(
            Due(tuple(ranges), tuple(again)), self.head.drops, Incarnations(self.plan["eras"])
        )
        drops = () if is_anew else self.head.drops
        if not self.keeps:
            drops = drops_of(self.head, self.plan["order"], is_anew=is_anew)
        plan = fold_plan(
            plan_id=f"p{self.folds}",
            ranges=tuple(pieces(covered)) if is_anew else tuple(ranges),
            again=tuple(again),
            covered=tuple(pieces(covered)),
            is_anew=is_anew,
            barrier=None if is_anew else self.head.barrier,
            table_uri=str(self.folder / "current"),
            drops=drops,
            is_drop=drops != self.head.drops,
            **self.plan,
        )
        self.last = plan
        result, needed = None, tuple(anew)
        while result is None or (result.anew and not result.refused):
            folder = f"landed-p{self.folds}-{len(needed)}"
            job = FoldJob(
                typed_uri=str(typed),
                typed_files=(name,),
                every_file=(name,),
                current_files=tuple(BucketFiles(b, tuple(f)) for b, f in self.files.items()),
                plan=plan,
                current=Output(plan.table_uri, folder, ("bucket",)),
                anew=needed,
                before=() if is_anew else self.head.buckets,
            )
            result = self.execute(job)
            needed = tuple({*needed, *result.anew})
        if not result.refused and is_whole(result):
            self._commit(folder, result)
            record = FoldRecord(plan, buckets=result.left, barrier=result.barrier)
            known = KnownCommit(self.head.folds + 1, 1, plan.plan_id, "run")
            self.head = self.head.opened(record).closed(record, known)
        return result

    def _commit(self, folder, result):
        root = Path(self.folder, "current", folder)
        manifest = load(Manifest, (root / "_files.json").read_bytes(), "the manifest")
        files = {}
        for file in manifest.files:
            files.setdefault(int(file.split("/")[0].partition("=")[2]), []).append(file)
        for bucket in result.touched:
            self.files.pop(bucket, None)
            if bucket in files:
                self.files[bucket] = [f"{folder}/{name}" for name in files[bucket]]

    def table(self):
        """The current table's rows by key; each key stands once."""
        found = {}
        for bucket, files in self.files.items():
            for file in files:
                for row in pq.ParquetFile(self.folder / "current" / file).read().to_pylist():
                    assert row["k"] not in found, row
                    found[row["k"]] = row | {"bucket": bucket}
        return found

    def expected(self):
        """What the definition says: of all folded changes the last one of each key counts."""
        covered, at = self.head.coverage, {f.partition: f.offset for f in self.head.drops}
        rows = self._folded(row for p, row in self.rows.items() if is_in(p, covered))
        is_dropped = {
            k: row["is_deleted"] and row["offset"] < at.get(row["partition"], 0)
            for k, row in rows.items()
        }
        return {k: row for k, row in rows.items() if not is_dropped[k]}

    def expected_of_all(self):
        """The same of all changes, folded or not."""
        return self._folded(self.rows.values())

    def _folded(self, rows):
        log, found = sorted(rows, key=self._order), {}
        for row in log:
            if row["op"] == "t":
                found = {k: gone(old) for k, old in found.items()}
            elif row["k"] is not None:
                found[row["k"]] = self._after(found.get(row["k"]), row)
        return found

    def _after(self, before, row):
        if row["op"] in (None, "d"):
            return gone(row)
        made = {n: row[n] for n in ("topic_id", "generation", "partition", "offset", "timestamp")}
        made |= {"v": row["v"], "w": row["w"], "is_deleted": False}
        made["unavailable_columns"] = row["unavailable_columns"]
        for name in row["unavailable_columns"] or ():
            made[name] = None if before is None else before[name]
        return made

    def _order(self, row):
        order = Incarnations(self.plan["eras"], self.plan.get("returns", ()))
        era = order.of(PartitionIdentity(*place(row)[:3]))
        if self.plan["order"] == "sequence":
            return (row["w"], era, row["generation"], row["partition"], row["offset"])
        return (era, row["generation"], row["offset"], row["partition"])


def gone(row):
    """A row of a key that is gone: it stays at its own last change."""
    names = ("topic_id", "generation", "partition", "offset", "timestamp")
    values = {"v": None, "w": None, "unavailable_columns": None, "is_deleted": True}
    return {n: row[n] for n in names} | values


def place(row):
    """A row's coordinates."""
    return (row["topic_id"], row["generation"], row["partition"], row["offset"])


def at(start, end, partition=0, generation=0, topic_id=ID):
    """A range of coordinates."""
    return CoordinateRange("orders", topic_id, generation, partition, start, end)


def is_at(where, wanted):
    """Whether a row stands in a range."""
    return (
        where[:3] == wanted.coordinates[:3] and wanted.start_offset <= where[3] < wanted.end_offset
    )


def is_in(where, covered):
    """Whether a row stands at covered coordinates."""
    one = at(where[3], where[3] + 1, where[2], where[1], where[0])
    return bool(intersect([one.offsets], covered.get(one.identity, ())))


def pieces(coverage):
    """A coverage as ranges."""
    for log, r in coverage.pieces:
        yield at(r.start_offset, r.end_offset, log.partition, log.generation, log.topic_id)


def runs_of(offsets):
    """Offsets as disjoint ranges."""
    return union(OffsetRange(o, o + 1) for o in offsets)


def same(found, expected):
    """Both tables, in the columns that the definition says."""
    names = ("v", "w", "is_deleted", "offset", "partition", "generation", "topic_id")
    picked = {k: tuple(row[n] for n in names) for k, row in found.items()}
    return picked, {k: tuple(row[n] for n in names) for k, row in expected.items()}


def text(row):
    """A row for a message."""
    return json.dumps(row, default=str)
