"""When a table is folded, what is dropped from it, which buckets are looked at, what was late."""

import re
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
import yaml

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.fold_plans import fold_plan
from tideline.folding.fold_rules import (
    Due,
    buckets_of_day,
    comes_below,
    current_columns_of,
    deletes_otherwise,
    drops_of,
    is_time,
    lost_columns,
    refused_changes,
    share_now,
    unproven_since,
    wrong_deletes,
    wrong_key,
    wrong_mark,
)
from tideline.ledger.state import Control, LedgerState
from tideline.model.current import (
    BucketState,
    CurrentColumn,
    Deletes,
    Floor,
    Folding,
    FoldRecord,
    FoldRefusal,
    Layout,
)
from tideline.model.head import Head, KnownCommit
from tideline.model.offsets import (
    CoordinateRange,
    Incarnations,
    OffsetRange,
    PartitionIdentity,
    PlaceInLog,
    PlannedRange,
    TopicPartition,
)
from tideline.model.places import Places
from tideline.rules.advance import late_reads
from tideline.stream.decode_section import Part

NEWER = str(UUID(int=99))
ORDER = Incarnations((OTHER_ID, ID, NEWER))


def at(start, end, partition=0, generation=0, topic_id=ID):
    return CoordinateRange("orders", topic_id, generation, partition, start, end)


NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
"""On a day on which Berlin's clocks go forward, at 02:00."""


@pytest.mark.parametrize(
    ("folded", "is_due"),
    [
        (NOON - timedelta(hours=13), True),  # before 03:00 in Berlin
        (datetime(2026, 3, 29, 1, 0, tzinfo=UTC), False),  # 03:00 there
        (datetime(2026, 3, 29, 0, 59, tzinfo=UTC), True),
        (NOON - timedelta(hours=1), False),
        (None, True),
    ],
)
def test_by_a_schedule_the_first_time_since_the_last_fold_counts(folded, is_due):
    folding = Folding(folded_at=folded, buckets=(BucketState(0, 9, 0, 1),))
    share = share_now("0 3 * * *", folding, "Europe/Berlin", NOON)
    assert is_time(Due((at(0, 1),), ()), folding, share) == is_due
    assert share_now(0.25, folding, "UTC", NOON) == 0.25


def test_what_was_folded_again_does_not_wait_for_the_schedule():
    folding = Folding(folded_at=NOON)
    share = share_now("0 3 * * *", folding, "UTC", NOON)
    assert is_time(Due((), (at(0, 1),)), folding, share)


def named(known=(), **typed):
    """Names in the current table of a typed table's columns."""
    found = current_columns_of([{"name": n, "type": t} for n, t in typed.items()], ["k"], (), known)
    assert len({c.name.lower() for c in found}) == len(found)
    return {c.source: c.name for c in found}, found


def test_each_column_has_a_name_that_no_other_one_has():
    """Its own, where the table has no such column; a name once given stays."""
    twins = dict.fromkeys(("k", "value_bucket", "bucket", "VALUE_BUCKET_2", "Is_Deleted"), "long")
    names, known = named(**twins)
    assert names == {
        "k": "k",
        "value_bucket": "value_bucket",
        "bucket": "value_bucket_3",
        "VALUE_BUCKET_2": "VALUE_BUCKET_2",
        "Is_Deleted": "value_Is_Deleted",
    }
    more = {"value_is_deleted": "long", "_tideline_order": "long", "tideline_rank": "long"}
    again, _ = named(known, **twins, **more)
    assert again == names | {
        "value_is_deleted": "value_value_is_deleted",
        "_tideline_order": "value__tideline_order",
        "tideline_rank": "value_tideline_rank",
    }


@pytest.mark.parametrize("name", ["bucket", "IS_DELETED", "offset", "sequence_1", "_tideline_at_k"])
def test_a_key_that_is_called_as_a_column_of_the_table_is_refused(name):
    """Of the decoded key as well, which the stream file does not name."""
    wrong = wrong_key([name], [{"name": name, "type": "long"}], ["at"])
    assert wrong is not None
    assert wrong.startswith(f"the current table has a column {name.lower()} of its own")
    cure = re.search(r"(fields) of .*: (\{.*\})$", wrong)
    assert cure is not None
    said = yaml.safe_load(f"{{format: avro, subject: s, {cure[1]}: [{cure[2]}]}}")
    assert Part.model_validate(said).listed[0].field == name  # the file takes it
    assert wrong_key(["sequence_1"], [{"name": "sequence_1", "type": "long"}]) is None


@pytest.mark.parametrize(
    ("key", "deletes", "wrong"),
    [
        (["key_id"], Deletes(tombstones=True), None),
        (["id"], Deletes(tombstones=True), "id"),
        (["key_id", "region"], Deletes(tombstones=True), "region"),
        (["id"], Deletes(tombstones=False), None),
        (["id"], Deletes(True, "op", "d", untold=("id",)), None),
        (["id"], Deletes(True, "state", "gone"), "id"),
    ],
)
def test_a_key_that_no_tombstone_tells_is_refused(key, deletes, wrong):
    """Where nothing else says that a row is gone, the row would stay for ever."""
    found = wrong_deletes(key, deletes, ["key_id", "key_other"])
    assert (found is None) == (wrong is None)
    assert found is None or found.startswith(f"{wrong} is no column of the decoded key")
    by_text = Deletes(tombstones=True, column="state", equals="gone")
    assert wrong_deletes(["id"], by_text, []) is None  # no key is decoded: no row is meant


def test_other_deletes_have_all_folded_anew():
    """Of before they were noted only where they mean something else now."""
    by_op, by_text = Deletes(True, "op", "d"), Deletes(True, "state", "gone")
    layout = Layout(("id",), 4)
    known = Folding(layout=layout, deletes=by_op)
    assert not deletes_otherwise(known, by_op, has_events=True)
    assert deletes_otherwise(known, by_text, has_events=True)
    assert not deletes_otherwise(Folding(deletes=by_op), by_text, has_events=True)
    before = Folding(layout=layout)
    assert not deletes_otherwise(before, by_op, has_events=True)
    assert not deletes_otherwise(before, by_text, has_events=False)
    assert deletes_otherwise(before, by_text, has_events=True)
    assert deletes_otherwise(before, Deletes(True, "op", "d", passes=True), has_events=True)


@pytest.mark.parametrize(
    ("order", "refused", "expected", "cause", "cure"),
    [
        (
            "offset",
            [FoldRefusal("moved", '["1"]')],
            "the changes of each key in one partition of the topic",
            "changes of one key are in several partitions",
            "find out why the key moved",
        ),
        (
            "offset",
            [FoldRefusal("truncated", "all rows went (op t), in a topic of 2 partitions")],
            "op t in a topic of one partition only",
            "all rows went at the source (TRUNCATE), and offsets of several partitions",
            "decide by_time: Kafka's time orders all changes from now on",
        ),
        (
            "sequence",
            [
                FoldRefusal("unordered", '["1"] without at'),
                FoldRefusal("truncated", "all rows went (op t), in a topic of 1 partition"),
            ],
            "of each change a place in the order that current.sequence_by declares",
            "all rows went at the source (TRUNCATE), and such a change has no value in",
            "decide by_time: Kafka's time orders all changes from now on",
        ),
        (
            "sequence",
            [FoldRefusal("unordered", '["1"] without at')],
            "of each change a place in the order that current.sequence_by declares",
            "a change has no value in current.sequence_by",
            "find out why it has none, or decide by_time: Kafka's time orders all changes",
        ),
        (
            "offset",
            [FoldRefusal("untold", '["1",null]')],
            "of each change event that deletes a row its tenant",
            "the record's key has no tenant, and the event does not have the row before the change",
            "another current.table with the record's own key in current.key",
        ),
    ],
)
def test_changes_without_an_order_are_told_with_their_own_cause_and_cure(
    order, refused, expected, cause, cure
):
    found = refused_changes(order, ["tenant"], refused)
    assert (found.kind, found.expected, found.choices) == (
        "key_moved",
        expected,
        ("by_time", "retry", "fail"),
    )
    assert found.cause.startswith(cause)
    assert found.next_step.startswith(cure)
    assert all(one.what in found.actual for one in refused)


def identity(partition, generation=0, topic_id=ID):
    return PartitionIdentity(topic_id, generation, partition)


def folded(deleted, *coverage, drops=()):
    covered = Places({i: (OffsetRange(0, end),) for i, end in coverage})
    buckets = (BucketState(0, 90, deleted, 1),)
    return Folding(coverage=covered, buckets=buckets, eras=(OTHER_ID, ID), drops=drops)


def test_rows_that_are_gone_are_dropped_below_what_was_folded():
    """Of the newest generation and the newest topic id; not until they are many."""
    coverage = [(identity(0), 5), (identity(0, 1), 3), (identity(1), 7)]
    coverage.append((identity(2, topic_id=OTHER_ID), 9))
    many, few = folded(11, *coverage), folded(10, *coverage, drops=(Floor(ID, 0, 1, 2),))
    floors = (Floor(ID, 1, 0, 3), Floor(ID, 0, 1, 7))
    assert {*drops_of(many, "offset", is_anew=False)} == {*floors}
    assert drops_of(few, "offset", is_anew=False) == few.drops
    assert {*drops_of(few, "offset", is_anew=True)} == {*floors}
    assert drops_of(many, "time", is_anew=False) == ()


@pytest.mark.parametrize(
    ("work", "below"),
    [
        (at(7, 9, 1), False),
        (at(6, 9, 1), True),
        (at(90, 91), True),  # of an older generation
        (at(3, 4, 0, 1), False),
        (at(0, 1, 2), False),  # a partition that is new
        (at(9, 10, 0, 0, OTHER_ID), True),
        (at(0, 1, 0, 0, NEWER), False),
    ],
)
def test_what_comes_below_has_all_folded_anew(work, below):
    floors = (Floor(ID, 1, 0, 3), Floor(ID, 0, 1, 7))
    for due in (Due((work,), ()), Due((), (work,))):
        assert comes_below(due, floors, ORDER) == below
        assert not comes_below(due, (), ORDER)


def test_each_range_is_held_against_its_own_floor(monkeypatch):
    """A topic may have thousands of partitions, and each of them a floor and a range."""
    asked, compare = [], PlaceInLog.shares_log

    def counted(place, other):
        asked.append(place)
        return compare(place, other)

    monkeypatch.setattr(PlaceInLog, "shares_log", counted)
    floors = tuple(Floor(ID, 0, n, 5) for n in range(500))
    due = Due(tuple(at(7, 9, n) for n in range(500)), ())
    assert not comes_below(due, floors, ORDER)
    assert len(asked) <= 4 * len(floors)


@pytest.mark.parametrize(("count", "buckets"), [(1, 4), (3, 4), (2, 5), (4, 4), (9, 4)])
def test_each_bucket_has_its_turn(count, buckets):
    days = [date(2026, 12, 30) + timedelta(days=n) for n in range(buckets)]
    seen = [buckets_of_day(day, count, buckets) for day in days]
    assert {len(turn) for turn in seen} == {min(count, buckets)}
    assert {n for turn in seen[: -(-buckets // count) + 1] for n in turn} == {*range(buckets)}


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("age", "began", "found"),
    [
        (DAY / 3, -9, []),
        (DAY * 0.6, -9, [False]),
        (DAY * 2, -9, [True]),
        (DAY * 2, 1, []),  # nothing was landed so long ago that a delete can be missed
        (DAY * 2, 0, [False]),
        (DAY * 2, None, []),
        (None, -9, []),
    ],
)
def test_a_compacted_topic_that_is_read_late(age, began, found):
    planned = PlannedRange("t", ID, 0, 0, 5, 9, 0, 0, 9, 9)
    place = TopicPartition("t", 0)
    written = {place: None if age is None else NOON - age}
    first = None if began is None else NOON.date() + began * DAY
    kept = {"t": 86_400_000}
    late = late_reads([planned], written, kept, first, NOON)
    assert [too_late for _, _, too_late in late] == found
    assert late_reads([planned], written, {}, first, NOON) == ()


@pytest.mark.parametrize(
    ("lost", "is_healed"),
    [
        (at(10, 20), True),
        (at(40, 50), True),
        (at(49, 51), False),
        (at(80, 95), False),
        (at(10, 20, partition=1), False),
        (at(10, 20, generation=1), False),
        (at(80, 95, topic_id=OTHER_ID), True),
    ],
)
def test_a_sweep_heals_losses_of_before_its_snapshot(lost, is_healed):
    """A loss may be accepted after the plan was frozen, and before it is closed."""
    floors = (Floor(ID, 0, 0, 50),)
    plan = fold_plan(has_truncates=True, eras=ORDER.ids, floors=floors, is_sweep=True)
    done = FoldRecord(plan, closed_at=NOON)
    head = Head(accepted_loss=Places.of([lost]))
    open_now = Folding(open=done)
    state = LedgerState(1, Control("ledger", "orders"), head, folding=open_now)
    after = state.with_fold_closed(done, KnownCommit(1, 7, "plan", "run"), NOON)
    assert (unproven_since(after.folding, head, NOON) is None) == is_healed


def test_a_value_of_several_parts_deletes_nothing():
    """It has no text that a stream file could name."""
    nested = {"type": "array", "elementType": "string"}
    kinds = {"one": "string", "two": "double", "list": nested, "any": "variant"}
    typed = [{"name": name, "type": kind} for name, kind in kinds.items()]
    assert [wrong_mark(name, typed) for name in (None, "one", "two")] == [None] * 3
    for name in ("list", "any"):
        assert wrong_mark(name, typed).startswith(f"{name} has values of several parts")


def test_columns_and_fields_that_the_typed_table_lost_are_named():
    """At any depth; what came, and another order, is no loss."""

    def struct(**fields):
        return {"type": "struct", "fields": [{"name": n, "type": t} for n, t in fields.items()]}

    def typed(**columns):
        return [{"name": n, "type": t} for n, t in columns.items()]

    inner = struct(x="long", y="string")
    lists = {"type": "array", "elementType": struct(z="long")}
    pairs = {"type": "map", "keyType": "string", "valueType": inner}
    kinds = {"k": "long", "s": struct(a="long", b=inner), "l": lists, "m": pairs}
    folded = [CurrentColumn(n, n, kind) for n, kind in kinds.items()]
    assert lost_columns(folded, typed(**kinds, more="long")) == ()
    grown = kinds | {"s": struct(b=struct(y="string", x="long", new="long"), a="long")}
    assert lost_columns(folded, typed(**grown)) == ()
    less = {
        "k": "long",
        "s": struct(b=struct(x="long")),
        "l": {"type": "array", "elementType": struct(other="long")},
        "m": {"type": "map", "keyType": "string", "valueType": struct(y="string")},
    }
    assert lost_columns(folded, typed(**less)) == ("s.a", "s.b.y", "l.z", "m.x")
    assert lost_columns(folded, typed(s=kinds["s"], l=lists)) == ("k", "m")
