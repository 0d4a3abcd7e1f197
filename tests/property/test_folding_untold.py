"""Deletes that may lack a column of the key, folded in the run's own process."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.worlds.folds import Folds, at, change
from tests.worlds.record_keys import KINDS, TEXTS, UNSET
from tideline.delta_io import files_of
from tideline.folding.arrow import folding, untold
from tideline.folding.arrow.record_keys import record_keys
from tideline.folding.arrow.rows import arrow_type
from tideline.folding.arrow.unset import is_unset
from tideline.model.current import Deletes, Layout

OF_TWO = {
    "layout": Layout(("k", "v"), 3),
    "deletes": Deletes(True, "op", "d", ("v",), ("k",), True),
}
"""Of a plan: the record's key is `k`, and the table's has `v` besides."""


def told(result):
    return [(one.why, one.what) for one in result.refused]


@pytest.fixture
def folds(tmp_path):
    found = Folds(None, tmp_path, **OF_TWO)
    found.ways.by = "kernel"
    return found


@pytest.fixture(params=["in memory", "in files"])
def held(request, monkeypatch):
    """Where histories are."""
    if request.param == "in files":
        monkeypatch.setattr(untold, "_HELD", 1)
        monkeypatch.setattr(untold, "_PARTS", 3)


@pytest.mark.parametrize("value", [None, "", "0", "0.00", "{}"])
def test_a_delete_that_left_its_row_is_refused(folds, value, held):
    """Its record's row is there still, under a key with another value."""
    folds.has(change(0, 'a"\n', "c", "x", 1), change(1, "b", "c", value, 1))
    folds.fold([at(0, 2)])
    folds.has(change(2, "b", "d", value), change(3, "b", None), change(4, "c", "d", "z"))
    assert told(folds.fold([at(2, 5)])) == []  # its row is there, or it tells the key
    folds.has(change(5, 'a"\n', "d", value), change(6, 'a"\n', None))
    for options in ({}, {"is_anew": True}):
        result = folds.fold([at(5, 7)], **options)
        assert (told(result), result.written.rows) == ([("untold", '{"k":"a\\"\\n"}')], 0)
    assert not folds.ways.spark


@pytest.mark.parametrize(
    ("log", "is_refused"),
    [
        ([("c", "eu"), ("d", None), ("c", None)], True),
        ([("c", None), ("d", None), ("c", "eu"), ("d", None)], True),
        ([("c", "eu"), (None, None)], True),  # the delete before it was compacted away
        ([("c", "eu"), ("d", "eu"), (None, None), ("c", "us")], False),
        ([("d", None), (None, None), ("c", "eu")], False),  # of a row that is not in the topic
        ([("c", ""), ("d", ""), (None, None), ("d", ""), (None, None)], False),  # sent twice
        ([("c", "eu"), ("c", ""), ("d", ""), ("c", ""), ("d", None)], True),
        ([("c", "eu"), ("t", None), ("d", None), (None, None)], False),  # all rows went
        ([("c", "eu"), ("t", None), ("c", "us"), ("d", None)], True),
        ([("c", "eu"), ("r", "")], False),
    ],
)
def test_whatever_portions_the_changes_of_a_record_come_in(tmp_path, log, is_refused, held):
    size = len(log)
    orders = ([range(size)], [[n] for n in range(size)], [[n] for n in reversed(range(size))])
    for number, portions in enumerate(orders):
        folds = Folds(None, tmp_path / str(number), **OF_TWO)
        folds.ways.by = "kernel"
        folds.has(*(change(n, "a", op, value, 1) for n, (op, value) in enumerate(log)))
        results = [folds.fold([at(n, n + 1) for n in portion]) for portion in portions]
        assert any(result.refused for result in results) == is_refused, portions


@pytest.mark.parametrize(
    "log",
    [
        [("c", ""), ("c", "eu"), ("d", ""), (None, None), ("d", ""), (None, None)],
        [("c", "eu"), ("c", "us"), ("d", "eu"), (None, None), (None, None)],
    ],
)
def test_what_a_producer_sent_twice_is_no_delete_of_another_row(tmp_path, log, held):
    for number, portions in enumerate(([range(len(log))], [[n] for n in range(len(log))])):
        folds = Folds(None, tmp_path / str(number), **OF_TWO)
        folds.ways.by = "kernel"
        folds.has(*(change(n, "a", op, value, 1) for n, (op, value) in enumerate(log)))
        assert not any(folds.fold([at(n, n + 1) for n in p]).refused for p in portions)
        assert folds.head.live == 1


def test_all_that_is_decoded_is_asked_for_where_there_is_a_suspect_only(folds):
    """The job is given again with all files then; a delete that its tombstone follows is none."""
    fold, asked = folds.ways.fold, []

    def of_few(spark, job):
        Path(job.current.uri).mkdir(exist_ok=True)
        beside = replace(job, every_file=(), current=replace(job.current, folder="beside"))
        found = folding.fold(beside, lambda uri: files_of(uri, {}))
        asked.append((found.needs_all, bool(found.written.rows)))
        return fold(spark, job)

    folds.ways.fold = of_few
    folds.has(change(0, "a", "c", "x", 1), change(1, "a", "d", "x"), change(2, "a", None))
    folds.fold([at(0, 3)])
    folds.has(change(3, "b", "d", ""))
    folds.fold([at(3, 4)])
    folds.has(change(4, "c", None))
    folds.fold([at(4, 5)])
    folds.fold([at(0, 1)])  # below others
    folds.fold([], is_anew=True)
    assert asked == [(False, True), (True, False), (True, False), (True, False), (False, True)]


@pytest.mark.parametrize(("order", "is_refused"), [("offset", True), ("time", False)])
def test_partitions_of_one_incarnation_say_no_order_of_offsets(tmp_path, order, is_refused):
    """A row of another partition counts as before a delete, whatever their offsets are."""
    folds = Folds(None, tmp_path, **OF_TWO, order=order)
    folds.ways.by = "kernel"
    folds.has(change(5, "a", "c", "eu"), change(0, "a", "d", "", partition=1))
    result = folds.fold([at(5, 6), at(0, 1, partition=1)])
    assert told(result) == ([("untold", '{"k":"a"}')] if is_refused else [])


def test_the_first_few_records_are_named(folds):
    folds.has(*(change(n, f"k{n}", "c", "x", 1) for n in range(9)))
    folds.has(*(change(9 + n, f"k{n}", "d") for n in range(9)))
    assert told(folds.fold([at(0, 18)])) == [("untold", f'{{"k":"k{n}"}}') for n in range(5)]


def test_only_histories_of_suspects_are_kept(folds, monkeypatch):
    """Of a first fold with many rows few are held."""
    kept = []
    left = untold._left
    monkeypatch.setattr(
        untold, "_left", lambda plan, rows: kept.append(len(rows)) or left(plan, rows)
    )
    folds.has(*(change(n, str(n), "c", "x", 1) for n in range(500)))
    folds.has(change(500, "7", "d", ""), change(501, "7", None))
    folds.has(change(502, "8", "d", "x"), change(503, "8", None))
    assert told(folds.fold([at(0, 504)])) == [("untold", '{"k":"7"}')]
    assert kept == [3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_records_key_is_told_as_json_of_spark(kind):
    """And whether a value of its type may be none."""
    column = pa.array(KINDS[kind], arrow_type(kind))
    assert record_keys([column], ["x"], [kind]).to_pylist() == TEXTS[kind]
    assert is_unset(column, kind).tolist() == UNSET[kind]


def field(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def test_a_nested_key_is_told_as_json_of_spark():
    """A field that is null is left out, an item that is null stands there."""
    texts = {"type": "array", "elementType": "string", "containsNull": True}
    kind = {"type": "struct", "fields": [field("id", "long"), field("l", texts)]}
    values = [{"id": 1, "l": ["a", None]}, {"id": None, "l": []}, {"id": None, "l": None}, None]
    column = pa.array(values, arrow_type(kind))
    more = pa.array([1, None, 2, None], pa.int32())
    assert record_keys([column, more], ["x", "y"], [kind, "integer"]).to_pylist() == [
        '{"x":{"id":1,"l":["a",null]},"y":1}',
        '{"x":{"l":[]}}',
        '{"x":{},"y":2}',
        "{}",
    ]
    assert is_unset(column, kind).tolist() == [False, True, True, True]
