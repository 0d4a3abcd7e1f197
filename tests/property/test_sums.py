"""What is stored of a hash depends on values alone, and on each value."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tests.worlds.build import ID
from tests.worlds.fold_plans import KEYS, NESTED, plan_of
from tideline.folding.arrow.changes import buckets, texts_of_keys
from tideline.folding.arrow.row_shape import RowShape, arrow_type, hashes_of, read_rows


@pytest.fixture
def rows_of(tmp_path):
    """Rows of the current table, as they are read; what is not told is null."""

    def rows_of(plan, *rows):
        shape = RowShape(plan)
        known = {"topic_id": ID, "generation": 0, "partition": 0, "offset": 0, "is_deleted": False}
        types = {n: arrow_type(kind) for n, kind in shape.kinds.items()}
        table = pa.Table.from_pylist([known | row for row in rows], pa.schema(types.items()))
        pq.write_table(table, tmp_path / "rows.parquet", store_schema=False)
        store = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
        (found,) = read_rows(store, "rows.parquet", shape.schema, shape.topics)
        return shape, found

    return rows_of


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_has_one_text(rows_of, kind):
    """The text of each value is what it always was."""
    plan = plan_of(("k", "n"), k=kind, n="long")
    found = texts_of_keys(*rows_of(plan, *({"k": k} for k in KEYS[kind])))
    expected = [f'["{text}",null]' for text in KEYS[kind].values()]
    assert found.to_pylist() == expected


def test_a_key_has_one_bucket(rows_of):
    """Buckets of composite keys of every type, as tables of before have them."""
    names = {f"k{n}": kind for n, kind in enumerate(KEYS)}
    plan = plan_of((*names,), **names)
    most = max(map(len, KEYS.values()))
    rows = [
        {name: [*KEYS[kind], None][n % (len(KEYS[kind]) + 1)] for name, kind in names.items()}
        for n in range(4 * most)
    ]
    assert buckets(*rows_of(plan, *rows)).tolist() == BUCKETS


BUCKETS = [10, 10, 11, 7, 8, 10, 15, 1, 5, 13, 8, 11, 8, 8, 8, 9]
"""As the first version of this table had them."""
UNLIKE = [
    {},
    {"one": []},
    {"one": [None]},
    {"one": [None, None]},
    {"two": [None]},
    {"one": ["a", None]},
    {"one": [None, "a"]},
    {"one": ["a", "b"], "two": ["c"]},
    {"one": ["a"], "two": ["b", "c"]},
    {"one": ["a", "b", "c"], "two": []},
    {"deep": [["a"], ["b"]]},
    {"deep": [["a", "b"]]},
    {"deep": [["a", "b"], []]},
    {"deep": [["a", "b"], None]},
    {"deep": [None, ["a", "b"]]},
    {"pairs": {"k": ["a"], "l": None}},
    {"pairs": {"k": None, "l": ["a"]}},
    {"pairs": {"k": ["a", None], "l": []}},
    {"pairs": {"k": ["a"]}},
    {"pairs": {}},
    {"row": (7, None)},
    {"row": (None, 7)},
    {"row": (None, None)},
    {"rows": [(7, None)]},
    {"rows": [(None, 7)]},
    {"rows": [None, (None, 7)]},
    {"rows": [(None, None), (None, 7)]},
]
"""Rows that Spark's own hash takes for another one of them, and their like."""


@pytest.fixture
def sums_of(rows_of):
    """The sum of each row."""
    return lambda plan, rows: hashes_of(*rows_of(plan, *rows)).tolist()


def test_rows_that_are_unlike_have_other_sums(sums_of):
    """A null, an end of a list, a pair elsewhere in a value is another value."""
    found = sums_of(plan_of(("k",), k="long", **NESTED), UNLIKE)
    groups = {}
    for row, pair in zip(UNLIKE, found, strict=True):
        groups.setdefault(pair, []).append(row)
    assert [rows for rows in groups.values() if len(rows) > 1] == []


def test_pairs_of_a_map_have_no_order(sums_of):
    rows = [{"pairs": {"k": ["a"], "l": None}}, {"pairs": {"l": None, "k": ["a"]}}]
    one, other = sums_of(plan_of(("k",), k="long", **NESTED), rows)
    assert one == other


def test_a_field_that_comes_later_changes_no_hash(sums_of):
    """Inside of values as well: a fold would say that others have changed the table."""

    def struct(*names):
        fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in names]
        return {"type": "struct", "fields": fields}

    def listed(*names):
        return {"type": "array", "elementType": struct(*names), "containsNull": True}

    found = []
    for names in (("a",), ("a", "b")):
        plan = plan_of(("k",), k="long", v=struct(*names), w=listed(*names))
        told = dict.fromkeys(names) | {"a": 7}
        rows = [{"k": 1, "v": told, "w": [told, None]}, {"k": 2, "v": dict.fromkeys(names)}]
        found.append(sums_of(plan, rows))
    assert found[0] == found[1]
