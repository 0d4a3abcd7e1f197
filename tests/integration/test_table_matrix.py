"""Every `partition_by`, with keys, values and headers from nothing to 1 MB."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.tables import DeltaWorld, Rows, change, coordinates
from tideline.model.offsets import CoordinateRange
from tideline.table.schema import COLUMNS

PARTITIONING = [
    list(columns)
    for count in range(5)
    for columns in itertools.permutations(["topic_id", "generation", "topic", "partition"], count)
]
SIZES = (None, 0, 10, 5_000, 1_000_000)
"""Bytes; None is no key, value or header. Spark's writer gives no statistics from 4 kB on."""
FOOTERS = (
    True,
    False,
    [name for name in COLUMNS if name not in ("key", "value", "headers")],
    [name for name in COLUMNS if name not in ("topic_id", "topic", "offset")],
)
"""Columns that have statistics in the files' footers."""


def at(start, end, partition=0, topic_id=ID, generation=0, topic="orders"):
    return CoordinateRange(topic, topic_id, generation, partition, start, end)


def filled(size):
    return None if size is None else b"\xff" * size


class Footers(DeltaWorld):
    """A writer that leaves statistics out."""

    def __init__(self, folder, partition_by, statistics):
        super().__init__(folder, partition_by)
        self.statistics = statistics

    def write(self, doing, *rows):
        result = super().write(doing, *rows)
        for path in result.files:
            table = pq.read_table(self.folder / path, partitioning=None)
            kept = self.statistics
            if isinstance(kept, list):
                kept = [name for name in kept if name in table.column_names]
            pq.write_table(table, self.folder / path, write_statistics=kept)
        return result


def numbered():
    """Each way to partition with each kind of footer, and with sizes by turns."""
    for number, columns in enumerate(PARTITIONING):
        for step, footers in enumerate(FOOTERS):
            sizes = tuple(SIZES[(number + step + n) % len(SIZES)] for n in (0, 1, 3))
            slow = [] if step == number % len(FOOTERS) else [pytest.mark.slow]
            name = f"{'-'.join(columns) or 'none'}-{step}-{'-'.join(map(str, sizes))}"
            yield pytest.param(columns, sizes, footers, id=name, marks=slow)


CASES = list(numbered())


def test_the_matrix_meets_every_size_with_every_number_of_columns():
    """65 ways to partition, in each order; the quick cases are a quarter of all."""
    assert len(PARTITIONING) == 1 + 4 + 12 + 24 + 24
    met = {(len(case.values[0]), size) for case in CASES for size in case.values[1]}
    assert met == {(count, size) for count in range(5) for size in SIZES}
    quick = {tuple(case.values[0]) for case in CASES if not case.marks}
    assert quick == {tuple(columns) for columns in PARTITIONING}


@pytest.mark.parametrize(("columns", "sizes", "footers"), CASES)
def test_it_is_landed_replaced_and_removed(tmp_path, columns, sizes, footers):
    """One copy all the time, and nothing of others is touched."""
    world = Footers(tmp_path / "t", columns, footers)
    key, value, header = map(filled, sizes)
    one = Rows(at(0, 6), key=key, value=value, header=header)
    two = replace(one, at=at(0, 6, partition=1, topic_id=OTHER_ID, topic="a%b"))
    for token, plan_id in ((1, "first"), (2, "again")):
        rows = [replace(r, plan_id=plan_id) for r in (one, two)]
        doing = change(one.at, two.at, token=token, commit_id=plan_id)
        result = world.write(doing, *rows)
        written = world.port.written(doing, result)
        assert [h.rows for h in written.landed.values()] == [6, 6]
        world.port.commit(doing, written.files, token - 1)
        assert world.rows() == coordinates(rows)
    landed = world.port.landed([one.at, two.at], 2)
    assert {h.rows for h in landed.values()} == {6}
    removal = change(at(2, 4), commit_id="again.removed", token=3)
    world.port.commit(removal, (), 2)
    left = [replace(one, offsets=[0, 1, 4, 5], plan_id="again"), replace(two, plan_id="again")]
    assert world.rows() == coordinates(left)
    found = DeltaTable(world.folder).to_pyarrow_table(filters=[("partition", "=", 0)]).to_pylist()
    assert {(row["key"], row["value"]) for row in found} == {(key, value)}


@pytest.mark.parametrize("columns", [["topic_id"], ["topic_id", "generation", "partition"], []])
def test_the_log_says_nothing_that_a_footer_does_not(tmp_path, columns):
    """Delta's readers skip files by it: a wrong bound would hide rows."""
    world = Footers(tmp_path / "t", columns, ["offset"])
    rows = Rows(at(0, 6), value=filled(5_000))
    doing = change(rows.at)
    world.port.commit(doing, world.write(doing, rows).files, 0)
    commit = Path(world.folder, "_delta_log", f"{1:020}.json").read_text()
    (add,) = [a["add"] for a in map(json.loads, commit.splitlines()) if "add" in a]
    assert json.loads(add["stats"]) == {
        "numRecords": 6,
        "minValues": {"offset": 0},
        "maxValues": {"offset": 5},
        "nullCount": {"offset": 0},
    }
