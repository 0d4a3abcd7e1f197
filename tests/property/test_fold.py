"""The fold of changes into one row a key: any order, any portions, again, and what is refused."""

import os
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.folds import AT, COLUMNS, SEQUENCE, Folds, at, change, place, runs_of, same
from tideline.folding.arrow.record_keys import record_keys
from tideline.model.current import CurrentColumn, Deletes, Folding, Layout
from tideline.model.offsets import PartitionIdentity


@pytest.fixture
def folds(tmp_path):
    return Folds(tmp_path)


def holds(folds):
    found, expected = same(folds.table(), folds.expected())
    assert found == expected


def told(result):
    return [(one.why, one.what) for one in result.refused]


def test_the_last_change_of_a_key_counts(folds):
    folds.has(change(0, "a", "c", "1", 1), change(1, "b", "c", "2"), change(2, "a", "u", "3", 2))
    folds.has(change(3, "b", "d"), change(4, "b", None), change(5, None, "c", "lost"))
    result = folds.fold([at(0, 6)])
    assert (result.changes, result.keyless, result.written.rows) == (6, 1, 2)
    holds(folds)
    row = folds.table()["b"]
    assert (row["is_deleted"], row["v"], row["offset"]) == (True, None, 4)
    assert folds.head.live == folds.head.deleted == 1
    folds.has(change(6, "c", "c"), change(7, "b", "c", "again"), change(8, "a", None))
    folds.fold([at(6, 9)])
    holds(folds)
    folds.fold([at(0, 9)])
    holds(folds)


def test_older_changes_that_come_later_change_nothing_newer(folds):
    """A backfill below the head, and a change of a key that is gone."""
    folds.has(*(change(n, "ab"[n % 2], "u", str(n)) for n in range(10)), change(10, "a", "d"))
    folds.fold([at(8, 11)])
    folds.fold([at(0, 5)])
    folds.fold([at(5, 8)])
    holds(folds)


def test_only_touched_buckets_are_written(folds):
    folds.has(*(change(n, str(n), "c", "x") for n in range(40)))
    folds.fold([at(0, 40)])
    files = dict(folds.files)
    assert len(files) == 3
    folds.has(change(40, "7", "u", "y"))
    result = folds.fold([at(40, 41)])
    (touched,) = result.touched
    assert {b: f for b, f in folds.files.items() if b != touched} == {
        b: f for b, f in files.items() if b != touched
    }
    holds(folds)


def test_a_value_that_did_not_come_is_that_of_before(folds):
    """In one portion, over two, over a deleted row; without any before it is null, and named."""
    folds.has(change(0, "a", "c", "long", 1), change(1, "a", "u", None, 2, lacks=["v"]))
    folds.has(change(2, "b", "c", "long"), change(3, "c", "u", None, 3, lacks=["v"]))
    folds.fold([at(0, 4)])
    holds(folds)
    assert folds.table()["a"]["v"] == "long"
    assert folds.table()["c"]["unavailable_columns"] == ["v"]
    folds.has(change(4, "b", "u", None, 9, lacks=["v"]), change(5, "a", "u", None, 7, lacks=["v"]))
    folds.fold([at(4, 6)])
    holds(folds)
    folds.has(change(6, "b", "d"), change(7, "b", "c", "other"), change(8, "b", "u", lacks=["v"]))
    folds.fold([at(6, 9)])
    holds(folds)


def test_an_older_change_that_comes_later_fills_what_did_not_come(folds):
    """From which change a value is filled, nobody knows: the bucket is folded anew."""
    folds.has(change(5, "a", "c", "old"), change(9, "a", "u", None, 2, lacks=["v"]))
    folds.fold([at(5, 6), at(9, 10)])
    folds.has(change(7, "a", "u", "newer"), change(3, "a", "u", "oldest"))
    folds.fold([at(7, 8)])
    holds(folds)
    assert folds.table()["a"]["v"] == "newer"
    folds.fold([at(3, 4)])
    holds(folds)


def test_a_value_of_a_change_that_is_gone_goes_as_well(folds):
    """Its row stands for a later change, and was filled from it."""
    folds.has(change(0, "a", "c", "x"), change(1, "a", "u", None, 2, lacks=["v"]))
    folds.fold([at(0, 2)])
    assert folds.table()["a"]["v"] == "x"
    folds.lose([at(0, 1)])
    folds.fold([], again=[at(0, 1)])
    assert folds.table()["a"]["v"] is None


def test_all_rows_go_at_once(folds):
    """What comes later stays, and what is older and comes later than that is gone as well."""
    folds.has(*(change(n, str(n), "c", "x") for n in range(8)), change(8, None, "t"))
    folds.has(change(9, "3", "c", "y"), change(10, "z", "c"))
    folds.fold([at(2, 4)])
    folds.fold([at(7, 10)])
    holds(folds)
    folds.fold([at(0, 2), at(4, 7), at(10, 11)])
    holds(folds)
    assert folds.head.live == 2


def test_a_value_of_before_all_rows_went_fills_nothing(folds):
    """In one portion or in several, and where the truncate comes last: as after a delete."""
    folds.has(change(0, "a", "c", "secret"), change(1, None, "t"))
    folds.has(change(2, "a", "c", None, 2, lacks=["v"]))
    for portions in ([at(0, 3)], [at(0, 1), at(1, 2), at(2, 3)], [at(0, 1), at(2, 3), at(1, 2)]):
        folds.head, folds.files = Folding(), {}
        for portion in portions:
            folds.fold([portion])
        assert folds.table()["a"]["v"] is None, portions
        holds(folds)


def test_all_rows_go_twice(folds):
    """In several portions or in one: a row that is gone stays at its own last change."""
    folds.has(change(0, "a", "c"), change(1, "b", "d"), change(2, None, "t"), change(3, "c", "c"))
    folds.has(change(4, None, "t"), change(5, "d", "c"), change(6, None, "t"), change(7, "e", "c"))
    tables = []
    for portions in ([at(0, 8)], [at(0, 3), at(3, 5), at(5, 8)], [at(3, 5), at(0, 3), at(5, 8)]):
        folds.head, folds.files = Folding(), {}
        for portion in portions:
            folds.fold([portion])
        holds(folds)
        tables.append((folds.table().keys(), folds.head.buckets))
    assert tables[0] == tables[1] == tables[2]
    found = {k: row["offset"] for k, row in folds.table().items()}
    assert found == {"a": 0, "b": 1, "c": 3, "d": 5, "e": 7}


def test_a_delete_that_is_folded_after_a_truncate(folds):
    """The row is gone by both, and stands where it stands in a fold of all at once."""
    folds.has(change(0, "a", "c", "x"), change(1, "a", "d"), change(2, None, "t"))
    for portions in ([at(0, 1), at(2, 3), at(1, 2)], [at(2, 3), at(1, 2), at(0, 1)], [at(0, 3)]):
        folds.head, folds.files = Folding(), {}
        for portion in portions:
            folds.fold([portion])
        holds(folds)
        assert folds.table()["a"]["offset"] == 1


def test_a_truncate_with_a_key_is_no_row(folds):
    """It ends all rows, and has none of its own; nor does a look make one of it."""
    folds.has(change(0, "a", "c", "x"), change(1, "b", "t"), change(2, "c", "c", "y"))
    folds.fold([at(0, 3)])
    holds(folds)
    assert folds.table().keys() == {"a", "c"}


OF_TWO = {
    "layout": Layout(("k", "v"), 3),
    "deletes": Deletes(True, "op", "d", ("v",), ("k",), True),
}
"""Of a plan: the record's key is `k`, and the table's has `v` besides."""


def test_a_delete_that_lacks_a_column_of_the_key_is_told(tmp_path):
    """PostgreSQL tells its primary key, and null, or a fixed value, for the rest."""
    for number, value in enumerate((None, "")):
        folds = Folds(tmp_path / str(number), **OF_TWO)
        folds.has(change(0, "a", "c", "x", 1), change(1, "b", "c", value, 1))
        folds.fold([at(0, 2)])
        folds.has(change(2, "b", "d", value), change(3, "b", None), change(4, "c", "d", "z"))
        assert told(folds.fold([at(2, 5)])) == []  # its row is there, or it tells the key
        folds.has(change(5, "a", "d", value), change(6, "a", None))
        for options in ({}, {"is_anew": True}):
            result = folds.fold([at(5, 7)], **options)
            assert (told(result), result.written.rows) == ([("untold", '{"k":"a"}')], 0)


LATE = {
    "beside new records": ({}, [(1, {})], [(0, {}), (9, {"key": "z"})]),
    "of an older incarnation": (
        {"eras": (ID, OTHER_ID)},
        [(1, {"topic_id": OTHER_ID})],
        [(5, {})],
    ),
    "of an older generation": ({}, [(1, {"generation": 1})], [(5, {})]),
    "by its time": ({"order": "time"}, [(0, {"seconds": 100})], [(1, {"seconds": 50})]),
    "in another partition": ({}, [(0, {"partition": 1})], [(5, {})]),
}


@pytest.mark.parametrize(
    ("which", "is_late"),
    [(which, which != "in another partition") for which in LATE],
)
def test_a_row_that_an_untold_delete_left_is_missed(tmp_path, which, is_late):
    """Also where the row comes after its delete was folded, whatever comes with it."""
    more, deletes, rows = LATE[which]
    folds = Folds(tmp_path, **OF_TWO, **more)

    def portion(changes, op, value):
        ranges = []
        for offset, facts in changes:
            facts = dict(facts)
            made = change(offset, facts.pop("key", "a"), op, value, 1)
            made["timestamp"] += timedelta(seconds=facts.pop("seconds", 0))
            folds.has(made | facts)
            ranges.append(at(offset, offset + 1, **facts))
        return ranges

    first, second = portion(deletes, "d", None), portion(rows, "c", "eu")
    results = [folds.fold(p) for p in ((first, second) if is_late else (second, first))]
    assert [told(r) for r in results if r.refused] == [[("untold", '{"k":"a"}')]]


def test_keys_of_records_a_microsecond_apart_are_two():
    """JSON as Spark writes it by default ends at the millisecond."""
    times = pa.array([datetime(2026, 1, 1, 0, 0, 0, n, UTC) for n in (1, 2)])
    assert len({*record_keys([times], ["at"], ["timestamp"]).to_pylist()}) == 2


def test_a_delete_that_has_no_key_at_all_is_told(tmp_path):
    """Where the key is of other columns than the record's, or the record's is not decoded."""
    of_value = {"layout": Layout(("v",), 3)}
    for number, (more, what) in enumerate([(("v",), '{"k":"a"}'), ((), "0@2 without a key")]):
        deletes = Deletes(True, "op", "d", more, ("k",) if more else (), bool(more))
        folds = Folds(tmp_path / str(number), **of_value, deletes=deletes)
        folds.has(change(0, "a", "c", "x", 1), change(1, "b", "c", None, 1))
        folds.fold([at(0, 2)])
        folds.has(change(2, "a", "d"), change(3, "a", None))
        assert told(folds.fold([at(2, 4)])) == [("untold", what)]
        folds.has(change(2, "a", "d", "x"))
        folds.fold([at(2, 4)])
        assert folds.head.live == 0


def test_a_record_without_a_value_that_deletes_nothing_is_no_row(tmp_path):
    """`deletes: {tombstone: false}`: it follows a delete, and brings no row of nulls back."""
    deletes = Deletes(False, "op", "d", passes=True)
    folds = Folds(tmp_path, deletes=deletes)
    folds.has(change(0, "a", "c", "x"), change(1, "a", "d"), change(2, "a", None))
    folds.has(change(3, "b", "c", "y"), change(4, "b", None))
    folds.fold([at(0, 5)])
    assert {k: row["is_deleted"] for k, row in folds.table().items()} == {"a": True, "b": False}


def test_a_value_that_did_not_come_of_a_column_that_is_renamed(tmp_path):
    """Typed rows name the column as they have it, and the table as it is called there."""
    columns = (COLUMNS[0], CurrentColumn("value_v", "v", "string"), COLUMNS[2])
    folds = Folds(tmp_path, columns=columns)
    folds.has(change(0, "a", "c", "long", 1), change(1, "a", "u", None, 2, lacks=["v"]))
    for portions in ([at(0, 2)], [at(0, 1), at(1, 2)]):
        folds.head, folds.files = Folding(), {}
        for portion in portions:
            folds.fold([portion])
        row = folds.table()["a"]
        assert (row["value_v"], row["w"], row["unavailable_columns"]) == ("long", 2, ["value_v"])


def test_a_change_event_deletes_beside_a_text_in_a_column(tmp_path):
    folds = Folds(tmp_path, deletes=Deletes(True, "v", "cancelled"))
    folds.has(change(0, "a", "c", "x"), change(1, "a", "d"), change(2, "b", "c", "cancelled"))
    folds.has(change(3, "c", "c", "x"))
    folds.fold([at(0, 4)])
    assert {k: row["is_deleted"] for k, row in folds.table().items()} == {
        "a": True,
        "b": True,
        "c": False,
    }


@pytest.mark.parametrize("came", ["with the records", "later", "with the topic"])
def test_all_rows_of_one_partition_say_nothing_of_another_one(folds, came):
    """A topic that has several partitions is told, whether these have records or not."""
    folds.has(*(change(n, str(n), "c") for n in range(4)), change(4, None, "t"))
    folds.has(change(0, "new", "c", partition=1))
    if came == "with the topic":
        folds.plan["partitions"] = ((ID, 3),)
        result = folds.fold([at(0, 5)])
        assert told(result) == [("truncated", "all rows went (op t), in a topic of 3 partitions")]
        return
    folds.fold([at(0, 5)])
    before = folds.table()
    folds.plan["partitions"] = ((ID, 2),) if came == "later" else ()
    result = folds.fold([at(5, 6)] if came == "later" else [at(0, 1, partition=1)])
    assert told(result) == [("truncated", "all rows went (op t), in a topic of 2 partitions")]
    assert folds.table() == before


def test_all_rows_of_an_incarnation_that_is_gone_say_nothing_of_a_later_one(folds):
    """However many partitions the later one has."""
    folds.plan |= {"eras": (ID, OTHER_ID), "partitions": ((ID, 1), (OTHER_ID, 3))}
    folds.has(change(90, "a", "c", "old"), change(91, None, "t"))
    folds.fold([at(90, 92)])
    folds.has(*(change(n, str(n), "c", partition=n, topic_id=OTHER_ID) for n in range(3)))
    folds.fold([at(0, 3, n, topic_id=OTHER_ID) for n in range(3)])
    holds(folds)
    assert folds.head.live == 3


def test_an_incarnation_that_comes_back_counts_more(folds):
    """A cluster was swapped, and swapped back: its generations are others by then."""
    back = PartitionIdentity(ID, 1, 0)
    folds.has(change(9, "a", "c", "first"), change(3, "a", "u", "other", topic_id=OTHER_ID))
    folds.plan["eras"] = (ID, OTHER_ID)
    folds.fold([at(9, 10), at(3, 4, topic_id=OTHER_ID)])
    assert folds.table()["a"]["v"] == "other"
    folds.has(change(0, "a", "u", "back", generation=1), change(8, "b", "c", topic_id=OTHER_ID))
    folds.has(change(1, "b", "d", generation=1))
    folds.plan |= {"eras": (ID, OTHER_ID, ID), "returns": (back,)}
    folds.fold([at(0, 2, generation=1)])
    folds.fold([at(8, 9, topic_id=OTHER_ID)])
    holds(folds)
    assert folds.table()["a"]["v"] == "back"
    assert folds.table()["b"]["is_deleted"]
    folds.has(change(4, "c", "u", "newer", topic_id=OTHER_ID), change(5, "c", "c", "old"))
    folds.fold([at(4, 5, topic_id=OTHER_ID)])
    folds.fold([at(5, 6)])  # a backfill of the first stay
    holds(folds)
    assert folds.table()["c"]["v"] == "newer"


def test_a_new_incarnation_of_the_topic_counts_more(folds):
    folds.plan["eras"] = (ID, OTHER_ID)
    folds.has(
        change(5, "a", "c", "old", topic_id=ID),
        change(9, "b", "c", "old", topic_id=ID),
    )
    folds.has(change(0, "a", "c", "new", topic_id=OTHER_ID, partition=1))
    folds.fold([at(0, 1, topic_id=OTHER_ID, partition=1)])
    folds.fold([at(0, 10)])
    holds(folds)
    assert folds.table()["a"]["v"] == "new"


@pytest.mark.parametrize("in_one", [True, False])
def test_a_key_in_two_partitions_is_told_and_nothing_is_written(folds, in_one):
    folds.has(change(0, "a", "c"), change(7, "a", "u", partition=1), change(1, "b", "c"))
    if in_one:
        result = folds.fold([at(0, 2), at(7, 8, partition=1)])
    else:
        folds.fold([at(0, 2)])
        result = folds.fold([at(7, 8, partition=1)])
    assert (told(result), result.written.rows) == ([("moved", '["a"]')], 0)


def test_all_rows_of_several_partitions_go_by_kafkas_time_only(tmp_path):
    for order in ("offset", "time"):
        folds = Folds(tmp_path / order, order=order)
        folds.has(change(3, "a", "c"), change(9, "b", "c", partition=1), change(7, None, "t"))
        result = folds.fold([at(0, 10), at(9, 10, partition=1)])
        if order == "time":
            assert folds.head.barrier.timestamp == AT + timedelta(seconds=7)
        else:
            assert told(result) == [
                ("truncated", "all rows went (op t), in a topic of 2 partitions")
            ]
    assert {k: row["is_deleted"] for k, row in folds.table().items()} == {"a": True, "b": False}


def test_by_kafkas_time_a_key_may_move(tmp_path):
    folds = Folds(tmp_path, order="time")
    folds.has(change(0, "a", "c", "x"), change(7, "a", "u", "y", partition=1), change(8, "a", "d"))
    folds.fold([at(0, 1), at(8, 9)])
    folds.fold([at(7, 8, partition=1)])
    assert folds.table()["a"]["is_deleted"]


def test_a_bucket_that_was_changed_by_others_is_told_and_nothing_is_written(folds):
    """Its sum is not the ledger's: a row is another one, is lost, stands twice."""
    folds.has(change(0, "a", "c", "x"))
    folds.fold([at(0, 1)])
    bucket = folds.head.buckets[0]
    others = [(bucket.live + 1, bucket.checksum), (bucket.live, bucket.checksum + 1)]
    folds.has(change(1, "a", "u", "y"))
    for live, checksum in others:
        folds.head = replace(folds.head, buckets=(replace(bucket, live=live, checksum=checksum),))
        result = folds.fold([at(1, 2)])
        assert (result.written.rows, result.found) == (0, (bucket,))


def test_rows_whose_changes_are_gone_or_others_are_folded_anew(folds):
    """After a rewind, and where a record has another key since it was decoded again."""
    folds.has(change(0, "a", "c", "1"), change(1, "b", "c", "2"), change(2, "a", "u", "3"))
    folds.fold([at(0, 3)])
    folds.lose([at(2, 3)])
    folds.fold([], again=[at(2, 3)])
    found, _ = same(folds.table(), {})
    assert found["a"][0] == "1"
    folds.has(change(1, "c", "c", "2"))
    folds.fold([at(1, 2)], again=[at(1, 2)])
    assert {k: row["v"] for k, row in folds.table().items()} == {"a": "1", "c": "2"}


def test_new_columns_change_no_sum_however_many_there_are(folds):
    """What stands there was summed up with fewer of them."""
    folds.plan["has_unavailable"] = False
    folds.has(change(0, "a", "c", "x"), change(1, "b", "c", "y"), change(2, "a", "u", "z"))
    for n, count in enumerate((40, 70, 140)):
        more = (replace(COLUMNS[1], name=f"v{i}") for i in range(count))
        folds.plan["columns"] = (COLUMNS[0], *more)
        assert folds.fold([at(n, n + 1)]).written.rows
    assert folds.table()["a"]["v139"] == "z"
    assert folds.table()["b"]["v39"] == "y"


def test_a_new_generation_of_the_log_counts_more(folds):
    folds.has(change(5, "a", "c", "old"), change(0, "a", "c", "new", generation=1))
    folds.fold([at(0, 1, generation=1)])
    folds.fold([at(5, 6)])
    holds(folds)
    assert folds.table()["a"]["v"] == "new"


def test_a_rows_columns_may_have_any_name(folds):
    """Also those that Spark's plan has columns for."""
    names = {"k": "k", "v": "_order", "w": "_address"}
    folds.plan["columns"] = tuple(replace(c, name=names[c.name]) for c in COLUMNS)
    folds.plan["has_unavailable"] = False
    folds.has(*(change(n, str(n), "c", f"v{n}", n) for n in range(9)))
    folds.fold([at(0, 9)])
    folds.has(change(9, "4", "u", "v", 7))
    folds.fold([at(9, 10)])
    found = {k: (row["_order"], row["_address"]) for k, row in folds.table().items()}
    assert found == {str(n): (f"v{n}", n) for n in range(9)} | {"4": ("v", 7)}


def test_a_declared_order_decides_over_partitions_and_offsets(tmp_path):
    """A key that is gone keeps its place in it; of equals the coordinates decide."""
    folds = Folds(tmp_path, **SEQUENCE)
    folds.has(change(0, "a", "c", "x", 5), change(9, "a", "u", "y", 4, partition=1))
    folds.fold([at(0, 1), at(9, 10, partition=1)])
    holds(folds)
    assert folds.table()["a"]["v"] == "x"
    folds.has(change(10, "a", "d", None, 6, partition=1), change(1, "a", "u", "late", 5))
    folds.fold([at(10, 11, partition=1)])
    folds.fold([at(1, 2)])
    holds(folds)
    row = folds.table()["a"]
    assert (row["is_deleted"], row["w"], row["sequence_1"]) == (True, None, 6)
    folds.has(change(2, "a", "u", "equal", 6), change(11, "a", "u", "equal", 6, partition=1))
    folds.fold([at(2, 3), at(11, 12, partition=1)])
    holds(folds)
    assert folds.table()["a"]["partition"] == 1


def test_a_change_without_a_place_in_the_declared_order_is_told(tmp_path):
    """And so are all rows that go at once; nothing is written. One without a key is in no row."""
    folds = Folds(tmp_path, **SEQUENCE)
    folds.has(change(0, "a", "c", "x", 5), change(1, "a", "u", "y"), change(2, None, "u"))
    result = folds.fold([at(0, 3)])
    assert (told(result), result.written.rows) == ([("unordered", '["a"] without w')], 0)
    folds.has(change(1, "a", "u", "y", 7), change(3, None, "t"))
    result = folds.fold([at(0, 4)])
    assert told(result) == [("truncated", "all rows went (op t), in a topic of 1 partition")]
    folds.lose([at(3, 4)])
    assert folds.fold([at(0, 3)]).written.rows == 1


def test_rows_of_keys_that_are_gone_are_dropped_once_they_are_many(tmp_path):
    """Of what was folded before; and an older change that comes later brings none back."""
    folds = Folds(tmp_path, keeps=False)
    folds.has(*(change(n, str(n), "c", "x", n) for n in range(1, 20)))
    folds.has(change(20, "3", "d"), change(21, "4", "d"), change(22, "5", "c", "y"))
    folds.fold([at(1, 21)])
    assert folds.head.deleted == 1
    folds.fold([at(21, 22)])
    assert folds.head.deleted == 2, "one of nineteen is not many"
    folds.fold([at(22, 23)])
    holds(folds)
    assert (folds.head.live, folds.head.deleted) == (17, 0)
    folds.has(change(0, "4", "c", "old"))
    folds.fold([at(0, 1)])
    assert folds.last.is_anew
    holds(folds)
    assert "4" not in folds.table()
    folds.lose([at(20, 21)])
    folds.fold([], again=[at(20, 21)])
    assert folds.table()["3"]["v"] == "x"


def test_a_topic_may_have_thousands_of_partitions(tmp_path):
    """What is dropped is known for each of them."""
    folds = Folds(tmp_path, keeps=False)
    partitions = range(0, 3000, 2)
    folds.has(*(change(0, str(n), "c", "x", partition=n) for n in partitions))
    folds.has(*(change(1, str(n), "d", partition=n) for n in partitions if n % 4))
    folds.fold([at(0, 2, n) for n in partitions])
    folds.has(change(2, "0", "u", "y", partition=0))
    folds.fold([at(2, 3)])
    holds(folds)
    assert (folds.head.live, folds.head.deleted) == (750, 0)


def test_a_topic_of_thousands_of_partitions_may_come_back(folds):
    """Of each partition the generation tells the stay; no condition stands for each of them."""
    partitions = range(3000)
    back = tuple(PartitionIdentity(ID, 1, n) for n in partitions)
    folds.plan |= {"eras": (ID, OTHER_ID, ID), "returns": back}
    some = (0, 1, 2999)
    folds.has(*(change(0, str(n), "c", "first", partition=n) for n in some))
    folds.has(*(change(0, str(n), "u", "other", partition=n, topic_id=OTHER_ID) for n in some))
    folds.has(change(0, "0", "u", "back", generation=1), change(1, "1", "d", partition=1))
    ranges = [at(0, 2, n, g) for n in some for g in (0, 1)]
    folds.fold([*ranges, *(at(0, 1, n, topic_id=OTHER_ID) for n in some)])
    holds(folds)
    assert [folds.table()[str(n)]["v"] for n in some] == ["back", "other", "other"]


LOGS = int(os.environ.get("TIDELINE_TEST_LOGS", "80"))
"""In each of the four ways."""


@pytest.mark.parametrize(
    "way",
    [
        "plain",
        "lacking",
        "sequence",
        "dropping",
    ],
)
def test_any_order_any_portions_again(tmp_path, way):
    """Many logs at once, each a partition with keys of its own: what is folded is as defined.

    Backfills below, replays, rows that are redriven, rewound and landed again, records that are
    decoded otherwise than before. By a declared order keys move, and the order is of its own.
    """
    rng, lacking = random.Random(way), way in ("lacking", "dropping")
    plan = SEQUENCE if way == "sequence" else {"layout": Layout(("k",), 4)}
    plan |= {"has_truncates": False, "has_unavailable": lacking}
    folds = Folds(tmp_path, keeps=way != "dropping", **plan)
    logs = {n: a_log(rng, n, lacking=lacking) for n in range(LOGS)}
    if way == "sequence":
        for log in logs.values():
            for row in log:
                row["k"], row["w"] = rng.choice(keys_of(row["partition"] // 3)), rng.randrange(9)
    hidden = {}
    for log in logs.values():
        for row in log:
            if rng.random() < 0.05:
                hidden[row["partition"], row["offset"]] = row  # in quarantine at first
            else:
                folds.has(row)
    left = {n: [row["offset"] for row in log] for n, log in logs.items()}
    for _ in range(6):
        ranges, again = [], []
        for n, offsets in left.items():
            taken = {o for o in offsets if rng.random() < 0.4}
            left[n] = [o for o in offsets if o not in taken]
            done = [o for o in range(len(logs[n])) if o not in offsets]
            changed, lost = happens(rng, folds, logs[n], done, hidden)
            ranges += [at(r.start_offset, r.end_offset, n) for r in runs_of(taken | changed)]
            again += [at(r.start_offset, r.end_offset, n) for r in runs_of(changed | lost)]
        folds.fold(ranges, again)
        found, expected = same(folds.table(), folds.expected())
        wrong = [k for k in {*found, *expected} if found.get(k) != expected.get(k)]
        assert not wrong, [(k, found.get(k), expected.get(k)) for k in wrong[:3]]


def happens(rng, folds, log, done, hidden):
    """What becomes of folded changes: decoded otherwise or redriven; or gone, to come back."""
    changed, lost = set(), set()
    for o in done:
        n, chance = log[o]["partition"], rng.random()
        if chance < 0.05:
            changed.add(o)
            row = hidden.pop((n, o), None) or dict(folds.rows.get(place(log[o]), log[o]))
            if rng.random() < 0.5:
                row["k"] = rng.choice([row["k"], *keys_of(row["k"].partition(":")[0])])
            if folds.plan["order"] == "sequence" and rng.random() < 0.5:
                row["w"] = rng.randrange(9)
            folds.has(row)
        elif chance < 0.08:
            lost.add(o)
            hidden[n, o] = log[o]
            folds.lose([at(o, o + 1, n)])
    return changed, lost


def a_log(rng, n, *, lacking):
    """Some changes of few keys, as a database would send them; long values may not come."""
    rows, known = [], {}
    for offset in range(rng.randrange(1, 12)):
        k = rng.choice(keys_of(n))
        if known.get(k) and rng.random() < 0.4:
            op = rng.choice(["d", None])
            rows.append(change(offset, k, op, partition=n))
            known[k] = False
            continue
        lacks = ["v"] if lacking and known.get(k) and rng.random() < 0.4 else []
        value = None if lacks else f"{n}-{offset}"
        op = "u" if known.get(k) else "c"
        rows.append(change(offset, k, op, value, offset, partition=n, lacks=lacks))
        known[k] = True
    return rows


def keys_of(n):
    return [f"{n}:{i}" for i in range(3)]
