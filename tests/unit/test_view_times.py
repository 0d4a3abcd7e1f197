"""Views: by Kafka's time a record without one is before all others, as in the fold; names."""

from datetime import timedelta

import duckdb
import pyarrow as pa
import pytest

from tests.worlds.fold_plans import fold_plan
from tests.worlds.folds import AT, COLUMNS, TYPED, at, change
from tideline.cli.main import main
from tideline.folding.views import DIALECTS, Query
from tideline.model.current import Deletes
from tideline.model.places import NOWHERE

NOTHING = pa.schema(
    [*TYPED, pa.field("is_deleted", pa.bool_()), pa.field("bucket", pa.int32())]
).empty_table()


@pytest.fixture
def view():
    """The rows of a view, by key: two texts and when it holds."""
    plan = fold_plan(
        covered=(at(0, 9),),
        columns=COLUMNS,
        has_unavailable=True,
        has_truncates=True,
        deletes=Deletes(tombstones=True, column="op", equals="d"),
        order="time",
    )

    def rows(*changes, is_history=False):
        duck = duckdb.connect()
        duck.execute("SET TimeZone = 'UTC'")
        duck.register("typed_rows", pa.Table.from_pylist([*changes], TYPED))
        duck.register("current_rows", NOTHING)
        query = Query(plan, DIALECTS["duckdb"], "current_rows", "typed_rows")
        sql = query.history() if is_history else query.now(NOWHERE, None)
        more = ", valid_from, valid_to" if is_history else ""
        return sorted(duck.execute(f"SELECT k, v, w{more} FROM ({sql})").fetchall(), key=str)

    return rows


TIMELESS = {"timestamp": None}
OLDER = change(5, "a", "c", v="old", w=1) | TIMELESS
NEWER = change(1, "a", w=2, partition=1, lacks=["v"])


def test_a_value_comes_from_a_record_without_a_time(view):
    assert view(OLDER, NEWER) == [("a", "old", 2)]
    at_first = AT + timedelta(seconds=1)
    lasting = [("a", "old", 1, None, at_first), ("a", "old", 2, at_first, None)]
    assert view(OLDER, NEWER, is_history=True) == lasting


def test_a_truncate_is_after_a_record_without_a_time(view):
    assert view(OLDER, NEWER, change(9, None, "t", partition=1)) == []


@pytest.mark.parametrize("names", [("a", "a"), ("a", " ")])
def test_a_view_needs_the_names_of_two_tables(names, tmp_path, capsys):
    """With others its SQL could be of no table, or of one in place of two."""
    file = tmp_path / "s.yaml"
    file.write_text(
        "stream: s\nkafka: {topics: [t]}\ntable: {uri: /lake/t}\ndecode: {value: {format: json}}\n"
        "current: {key: [k], deletes: {tombstone: false}}\n"
    )
    assert main(["current", str(file), "--sql", "trino", "--names", *names]) == 2
    assert "--names: got ['a'," in capsys.readouterr().err
