"""Deletes that may lack a column of the key, folded in the run's own process."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.folds import SEQUENCE, Folds, at, change, folded, place
from tests.worlds.record_keys import KINDS, TEXTS, UNSET
from tideline.delta.delta_io import files_of
from tideline.folding.arrow import folding, untold
from tideline.folding.arrow.record_keys import record_keys
from tideline.folding.arrow.row_shape import arrow_type
from tideline.folding.arrow.unset_columns import is_unset
from tideline.launch.progress import logged_seldom
from tideline.model.current import Deletes, Layout
from tideline.model.fold_job import FoldResult

OF_TWO = {
    "layout": Layout(("k", "v"), 3),
    "deletes": Deletes(True, "op", "d", ("v",), ("k",), True),
}
"""Of a plan: the record's key is `k`, and the table's has `v` besides."""


def told(result):
    return [(one.why, one.what) for one in result.refused]


@pytest.fixture
def folds(tmp_path):
    found = Folds(tmp_path, **OF_TWO)
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


@pytest.mark.parametrize("has_events", [True, False])
def test_a_text_in_another_column_may_delete(tmp_path, has_events):
    """That column is none of the key's, nor of the record's."""
    deletes = Deletes(True, "w", "7", ("v",), ("k",), True)
    folds = Folds(tmp_path, **(OF_TWO | {"deletes": deletes, "has_truncates": has_events}))
    folds.has(change(0, "a", "c", "x", 1), change(1, "a", "d", None, 7))
    assert told(folds.fold([at(0, 2)])) == [("untold", '{"k":"a"}')]


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
        folds = Folds(tmp_path / str(number), **OF_TWO)
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
        folds = Folds(tmp_path / str(number), **OF_TWO)
        folds.has(*(change(n, "a", op, value, 1) for n, (op, value) in enumerate(log)))
        assert not any(folds.fold([at(n, n + 1) for n in p]).refused for p in portions)
        assert folds.head.live == 1


def test_all_that_is_decoded_is_asked_for_where_there_is_a_suspect_only(folds):
    """The job is given again with all files then; a delete that its tombstone follows is none."""
    fold, asked = folds.execute, []

    def of_few(job):
        Path(job.current.uri).mkdir(exist_ok=True)
        beside = replace(job, every_file=(), current=replace(job.current, folder="beside"))
        found = folding.fold(beside, lambda uri: files_of(uri, {}), logged_seldom())
        asked.append((found.needs_all, bool(found.written.rows)))
        return fold(job)

    folds.execute = of_few
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
    folds = Folds(tmp_path, **OF_TWO, order=order)
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


RECORDS = 120
"""Each with a history of its own; all are folded at once."""
WAYS = {
    "one partition": {},
    "two partitions": {},
    "two incarnations": {"eras": (ID, OTHER_ID)},
    "by a declared order": SEQUENCE | {"layout": Layout(("k", "v"), 3, sequence=("w",))},
}


def histories(rng, way):
    """Changes of many records: rows of theirs come, go, go again, with and without their values."""
    topics = (ID, OTHER_ID) if way == "two incarnations" else (ID,)
    partitions = (0,) if way == "one partition" else (0, 1)
    next_offset = {}
    for number in range(RECORDS):
        own = rng.choice(partitions)
        for _ in range(rng.randrange(1, 8)):
            partition = own if rng.random() < 0.8 else rng.choice(partitions)
            topic = rng.choice(topics)
            offset = next_offset.get((topic, partition), 0)
            next_offset[topic, partition] = offset + 1
            op = rng.choice(["c", "c", "u", "d", "d", None, None])
            value = None if op is None else rng.choice(["eu", "us", "", None])
            row = change(offset, f'r{number}"\\', op, value, rng.randrange(9), partition=partition)
            row |= {"topic_id": topic, "generation": rng.choice([0, 0, 1])}
            yield row
            if op == "d" and rng.random() < 0.5:
                next_offset[topic, partition] += 1
                yield row | {"op": None, "is_tombstone": True, "v": None, "offset": offset + 1}


def is_untold(log, order, *, by_offset):
    """Whether a delete of a record has left a row that it meant, by definition.

    Args:
        log: All changes of the record.
        order: Of a change its place among others.
        by_offset: Whether changes of two partitions have no order.
    """
    log = sorted(log, key=order)
    for n, row in enumerate(log):
        before = log[n - 1] if n else None
        is_alone = row["op"] is None and (before is None or before["op"] not in ("d", None))
        events = [r for r in log[:n] if r["op"] is not None]
        is_again = row["op"] == "d" and bool(events) and events[-1]["op"] == "d"
        is_again = is_again and events[-1]["v"] == row["v"]
        if is_again or not (is_alone or (row["op"] == "d" and not row["v"])):
            continue
        stays = {}
        for other in log:
            is_before = order(other) < order(row)
            if by_offset and other["topic_id"] == row["topic_id"]:
                is_before |= other["partition"] != row["partition"]
            if other["op"] is not None and is_before:
                stays[other["v"]] = other["op"] != "d"
        is_told = row["op"] == "d" and stays.get(row["v"], False)
        if any(stays.values()) and not is_told:
            return True
    return False


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("way", WAYS)
def test_what_is_refused_is_what_the_definition_says(tmp_path, way, seed, monkeypatch):
    """Of all, of some that are folded beside others, and of a look; in memory or not."""
    rng = random.Random(f"{way} {seed}")
    monkeypatch.setattr(untold, "_MOST_NAMED", 10_000)
    if (seed + [*WAYS].index(way)) % 2:
        monkeypatch.setattr(untold, "_HELD", 20)
    folds = Folds(tmp_path, **({"has_unavailable": False} | OF_TWO | WAYS[way]))
    rows = [*histories(rng, way)]
    folds.has(*rows)
    ranges = [at(p[3], p[3] + 1, p[2], p[1], p[0]) for p in sorted(map(place, rows))]
    jobs = []
    folds.execute = lambda job: jobs.append(job) or FoldResult(left=(None,))
    folds.fold(ranges)
    by_offset = folds.plan["order"] == "offset"
    of = {}
    for row in rows:
        of.setdefault(row["k"], []).append(row)
    wrong = {
        json.dumps({"k": k}, separators=(",", ":"))
        for k, log in of.items()
        if is_untold(log, folds._order, by_offset=by_offset)
    }
    for chosen, facts in ((ranges, {}), (ranges, {"is_anew": True}), (rng.sample(ranges, 90), {})):
        covered = {"covered": tuple(ranges), "ranges": tuple(chosen)}
        job = replace(jobs[0], plan=replace(jobs[0].plan, **covered, **facts))
        refused = {what for why, what in told(folded(job)) if why == "untold"}
        assert refused == wrong if chosen is ranges else refused <= wrong
        assert len(refused) > 5
    look = replace(jobs[0], is_recompute=True)
    assert len(folded(look).refused) >= len(wrong)
