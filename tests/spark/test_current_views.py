"""Views over a current table between two folds: what they show is what the next fold makes.

DuckDB and Spark read the same files; Trino's text is not run.
"""

import random
from dataclasses import replace
from datetime import timedelta

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.folds import AT, COLUMNS, SEQUENCE, TYPED, Folds, at, change, runs_of
from tideline.folding.views import DIALECTS, Query
from tideline.model.current import Floor
from tideline.model.offsets import PartitionIdentity

NAMES = ("topic_id", "generation", "partition", "offset", "v", "w")


@pytest.fixture
def folds(tmp_path):
    return Folds(tmp_path)


@pytest.fixture(autouse=True)
def session(spark, monkeypatch):
    """Asked for the views."""
    monkeypatch.setattr(Engines, "spark", spark.session)


class Engines:
    """Both tables as DuckDB and Spark see them now."""

    spark = None

    def __init__(self, folds, zone="UTC"):
        self.folds = folds
        root = folds.folder / "current"
        files = [str(root / f) for paths in folds.files.values() for f in paths]
        typed = str(folds.folder / "all_typed.parquet")
        pq.write_table(pa.Table.from_pylist([*folds.rows.values()], TYPED), typed)
        self.duck = duckdb.connect()
        self.duck.execute(f"SET TimeZone = '{zone}'")
        for name, paths in (("current_rows", files), ("typed_rows", [typed])):
            self.duck.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({paths})")
            self.spark.read.parquet(*paths).createOrReplaceTempView(name)

    def query(self, engine):
        return Query(self.folds.last, DIALECTS[engine], "current_rows", "typed_rows")

    def run(self, engine, sql):
        if engine == "duckdb":
            found = self.duck.execute(sql)
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        return [row.asDict() for row in self.spark.sql(sql).collect()]


def rows_of(found):
    assert len({row["k"] for row in found}) == len(found)
    return {row["k"]: tuple(row[n] for n in NAMES) for row in found}


def show_the_next_fold(folds, head=None, lacking=(), zone="UTC"):
    """Both engines, by a view that is made now or was made at an earlier head."""
    head, engines, known = head or folds.head, Engines(folds, zone), folds.expected_of_all()
    wanted = rows_of([{"k": k, **row} for k, row in known.items() if not row["is_deleted"]])
    for engine in ("duckdb", "spark"):
        sql = replace(engines.query(engine), lacking=lacking).now(head.coverage, head.barrier)
        assert rows_of(engines.run(engine, sql)) == wanted, engine


def test_changes_that_are_not_folded_yet(folds):
    """Of rows that are there, of new ones, deletes, and a row that comes again."""
    folds.has(*(change(n, "abcd"[n], "c", "x" * n, n) for n in range(4)), change(4, "d", "d"))
    folds.fold([at(0, 5)])
    show_the_next_fold(folds)
    folds.has(change(5, "a", "u", "y", 9), change(6, "b", "d"), change(7, "e", "c", "it's \\ \""))
    folds.has(change(8, "d", "c", None, 1), change(9, "c", None), change(10, None, "c", "keyless"))
    show_the_next_fold(folds)
    before = folds.head
    folds.fold([at(5, 11)])
    show_the_next_fold(folds, before)
    show_the_next_fold(folds)


def test_a_column_that_the_table_gets_by_the_next_fold(folds):
    """Null for rows that have no change since; of any type."""
    folds.plan["columns"] = COLUMNS[:1]
    folds.has(change(0, "a", "c"), change(1, "b", "c"))
    folds.fold([at(0, 2)])
    folds.has(change(2, "a", "u", "y", 9), change(3, "c", "u", None, 9, lacks=["v"]))
    folds.last = replace(folds.last, columns=COLUMNS)
    show_the_next_fold(folds, lacking=("v", "w"))


def test_a_declared_order(tmp_path):
    folds = Folds(tmp_path, **SEQUENCE)
    folds.has(change(0, "a", "c", "x", 5), change(1, "b", "c", "x", 5), change(2, "c", "c", "x", 3))
    folds.fold([at(0, 3)])
    folds.has(
        change(3, "a", "u", "older", 4, partition=1),
        change(4, "b", "d", None, 6, partition=1),
        change(5, "c", "u", "newer", 4),
        change(6, "c", "u", "between", 3),
    )
    show_the_next_fold(folds)


@pytest.mark.slow  # the random logs have them
def test_values_that_did_not_come(folds):
    """From the table, from a change before, over a delete; or null."""
    folds.has(*(change(n, "abc"[n], "c", f"long {n}", n) for n in range(3)))
    folds.fold([at(0, 3)])
    folds.has(change(3, "a", "u", None, 7, lacks=["v"]), change(4, "b", "u", "new", 1))
    folds.has(change(5, "b", "u", None, 8, lacks=["v"]), change(6, "c", "d"))
    folds.has(change(7, "c", "c", None, 9, lacks=["v"]), change(8, "z", "u", None, lacks=["v"]))
    show_the_next_fold(folds)
    before = folds.head
    folds.fold([at(3, 9)])
    show_the_next_fold(folds, before)


def test_all_rows_went(folds):
    """Folded or not, and a change below that comes later."""
    folds.has(*(change(n, str(n), "c", "x") for n in range(1, 5)))
    folds.fold([at(1, 5)])
    folds.has(change(5, None, "t"), change(6, "1", "c", "y"))
    show_the_next_fold(folds)
    folds.fold([at(5, 7)])
    folds.has(change(0, "late", "c", "z"), change(7, "2", "c", "w"))
    show_the_next_fold(folds)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
def test_a_truncate_by_kafkas_time(folds, zone):
    """Wherever the engine's session is."""
    folds.plan["order"] = "time"
    folds.has(*(change(n, str(n), "c", "x") for n in (0, 1)), change(2, None, "t"))
    folds.has(change(4, "0", "c", "y"))
    folds.fold([at(0, 5)])
    folds.has(change(5, "1", "c", "z"))
    show_the_next_fold(folds, zone=zone)


def test_a_new_incarnation_and_a_new_generation(folds):
    """The table has the old one; its id came before the view, or after it."""
    folds.has(change(8, "a", "c", "old"), change(9, "b", "c", "old"))
    folds.fold([at(8, 10)])
    folds.has(change(2, "a", "u", "generation", generation=1))
    show_the_next_fold(folds)
    folds.plan["eras"] = (ID, OTHER_ID)
    folds.has(change(0, "a", "c", "new", topic_id=OTHER_ID), change(1, "b", "d", topic_id=OTHER_ID))
    show_the_next_fold(folds)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_random_logs(folds, seed):
    """A part of the log is folded: its beginning, or any part of it.

    An older change comes below a row that is there, below one that was filled, below a delete.
    """
    rng = random.Random(seed)
    is_prefix, count = seed != 1, 900
    for offset in range(count):
        lacks = ["v"] if rng.random() < 0.3 else []
        op = rng.choice("cuuud")
        value = None if lacks or rng.random() < 0.1 else f"v{offset}"
        key = f"k{rng.randrange(120)}"
        folds.has(change(offset, key, op, value, rng.choice([None, offset]), lacks=lacks))
    folded = range(rng.randrange(count)) if is_prefix else rng.sample(range(count), count // 2)
    folds.fold([at(r.start_offset, r.end_offset) for r in runs_of(folded)])
    show_the_next_fold(folds)


def test_the_history_of_a_key(folds):
    """Each row from when to when; a delete ends it, and is none."""
    folds.has(change(0, "a", "c", "1"), change(1, "b", "c", "1"), change(2, "a", "u", "2"))
    folds.has(change(5, "a", "d"), change(6, "a", None), change(9, "a", "c", "3"))
    folds.fold([at(0, 6)])
    engines = Engines(folds)
    seconds = [(0, 2, "1"), (2, 5, "2"), (9, None, "3")]
    for engine in ("duckdb", "spark"):
        found = engines.run(engine, engines.query(engine).history())
        of_a = sorted((r for r in found if r["k"] == "a"), key=lambda r: r["offset"])
        assert [(since(r["valid_from"]), since(r["valid_to"]), r["v"]) for r in of_a] == seconds
        assert len(found) == 4


def test_the_history_ends_where_all_rows_went_and_lacks_no_value(folds):
    """Of each life of a key: rows end with the truncate, and are filled from the same life only."""
    folds.has(change(0, "a", "c", "1"), change(1, "b", "c", "x"), change(2, "a", "u", lacks=["v"]))
    folds.has(change(3, None, "t"), change(4, "a", "c", lacks=["v"]), change(5, "a", "u", "2"))
    folds.has(change(6, "a", "u", lacks=["v"]), change(7, "a", "d"))
    folds.has(change(8, "a", "c", None, 3, lacks=["v"]), change(9, None, "t"))
    folds.fold([at(0, 6)])
    show_the_next_fold(folds)
    engines = Engines(folds)
    for engine in ("duckdb", "spark"):
        found = engines.run(engine, engines.query(engine).history())
        rows = sorted((r["offset"], r["k"], since(r["valid_to"]), r["v"]) for r in found)
        assert rows == [
            (0, "a", 2, "1"),
            (1, "b", 3, "x"),
            (2, "a", 3, "1"),
            (4, "a", 5, None),
            (5, "a", 6, "2"),
            (6, "a", 7, "2"),
            (8, "a", 9, None),
        ], engine


def test_a_view_takes_no_value_of_before_all_rows_went(folds):
    """Whether the truncate is folded or not; and of each incarnation its own."""
    folds.has(change(0, "a", "c", "secret"), change(1, "b", "c", "kept", 1))
    folds.fold([at(0, 2)])
    folds.has(change(2, None, "t"), change(3, "a", "c", None, 5, lacks=["v"]))
    show_the_next_fold(folds)
    folds.fold([at(2, 3)])
    show_the_next_fold(folds)
    folds.plan |= {"eras": (ID, OTHER_ID, ID), "returns": (PartitionIdentity(ID, 1, 0),)}
    folds.fold([at(3, 4)])
    folds.has(change(0, "c", "c", "other", topic_id=OTHER_ID, partition=1))
    show_the_next_fold(folds)
    folds.has(change(0, "c", "u", "back", generation=1), change(1, None, "t", generation=1))
    folds.has(change(2, "d", "c", "new", generation=1))
    show_the_next_fold(folds)


def since(time):
    if time is None:
        return None
    beginning = AT if time.tzinfo else AT.replace(tzinfo=None)
    return (time - beginning) / timedelta(seconds=1)


def test_what_was_swept(folds):
    """It is in no view of now; in the history it was there, as it was."""
    folds.plan["floors"] = (Floor(ID, 0, 0, 4),)
    folds.has(*(change(n, "abcd"[n], "c", "old") for n in range(4)))
    folds.has(change(4, "a", "r", "read"), change(5, "e", "c", "new"))
    folds.fold([at(0, 2), at(4, 5)])
    engines = Engines(folds)
    for engine in ("duckdb", "spark"):
        query = engines.query(engine)
        found = rows_of(engines.run(engine, query.now(folds.head.coverage, None)))
        assert {k: row[4] for k, row in found.items()} == {"a": "read", "e": "new"}
        assert len(engines.run(engine, query.history())) == 6


def test_what_trino_is_told(folds):
    """It has no other names for columns than these, and its own function for arrays."""
    folds.has(change(0, "a", "c", "1"))
    folds.fold([at(0, 1)])
    sql = Query(folds.last, DIALECTS["trino"], "lake.orders", "lake.typed").now(
        folds.head.coverage, folds.head.barrier
    )
    assert "`" not in sql
    assert "contains(unavailable_columns, 'v')" in sql
    assert "FROM lake.orders" in sql
