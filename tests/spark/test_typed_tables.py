"""Typed tables from real topics and a real registry: land, decode, verify, all over again."""

import json
import os
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.worlds.streams import is_clean
from tests.worlds.typed_streams import V1, V2, Typed
from tideline.contract.building import build_decoded_again
from tideline.errors import DecodingHalted
from tideline.model.request import RunRequest
from tideline.operations.maintaining import maintain_stream
from tideline.operations.redrive import redrive
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.wiring import open_ledger, open_run, open_tables

ROOT = Path(__file__).parents[2]


@pytest.fixture
def typed(harness, registry, spark, request, monkeypatch):
    # a transform of ours has to be found by a driver of its own, too
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT / "plugins", ROOT))))
    return lambda **decode: Typed(
        harness, registry, spark, request.node.name.removeprefix("test_")[:40], **decode
    )


def test_records_of_two_schemas_become_typed_rows(typed):
    """A tombstone and a bad record beside them; every raw row is in one place."""
    at = typed()
    at.register(V1)
    at.register(V2)
    at.send(V1, {"id": 1, "note": "a"}, {"id": 2, "note": "b"})
    at.send(V2, {"id": 3, "total": 1.5}, partition=1)
    at.send_bytes(None, b"\0\0\0\0\1", b"nonsense")
    at.run("one")
    assert at.rows("id", "note", "total", "is_tombstone") == [
        (0, 0, 1, "a", None, False),
        (0, 1, 2, "b", None, False),
        (0, 2, None, None, None, True),
        (1, 0, 3, None, 1.5, False),
    ]
    assert [(p, o) for p, o, _ in at.bad("error_class")] == [(0, 3), (0, 4)]
    ledger = open_ledger(at.stream)
    record = ledger.find_decoding("one")
    assert (record.decoded, record.quarantined, record.tombstones) == (3, 2, 1)
    assert ledger.read().decoding.coverage == ledger.read().head.coverage
    before = at.rows("id", "note", "total", "schema_id", "decode_plan_id")
    assert at.decode("one").plan.run_id == "one"  # cleared: its own coordinates and schemas
    assert at.rows("id", "note", "total", "schema_id", "decode_plan_id") == before
    assert at.decode("two") is None
    at.harness.delete_records(before=3)
    with open_run(at.stream, "redrive", RunRequest(), at.spark) as run:
        assert (redrive(run).asked, redrive(run).moved) == (2, 0)
    assert is_clean(at.harness, at.stream)


@pytest.mark.slow  # half a minute beside other parts
def test_what_was_decoded_by_other_rules_is_made_anew_and_counted(typed):
    """In passes of four offsets; an older version's rule is played by the stream's own function."""
    at = typed(transform="tests.worlds.own_transforms:doubled")
    at.limits = {"max_records_per_run": 2}
    at.register(V1)
    at.send(V1, *({"id": n, "note": "a"} for n in (0, 1, 2, 3)))
    at.send(V1, *({"id": n, "note": "b"} for n in (0, 5)), partition=1)
    at.send_bytes(None, b"nonsense", partition=1)
    for number in range(5):
        at.run(f"r{number}")
    told = at.rows("id", "note", "is_tombstone"), at.bad("error_class")
    versions = at.versions()
    again = at.decode_again("same")
    assert (again.asked, again.changed, again.quarantine_changed, again.records) == (8, 0, 0, ())
    assert ((at.rows("id", "note", "is_tombstone"), at.bad("error_class")), at.versions()) == (
        told,
        versions,
    )
    del at.section["transform"]
    again = at.decode_again("other")
    assert (again.asked, again.changed, again.quarantine_changed) == (8, 4, 0)
    assert build_decoded_again("other", again).table_version == at.versions()[0]
    assert [r for r in at.rows("id", "note") if r[2] is not None] == [
        (0, 0, 0, "a"),
        (0, 1, 1, "a"),
        (0, 2, 2, "a"),
        (0, 3, 3, "a"),
        (1, 0, 0, "b"),
        (1, 1, 5, "b"),
    ]
    assert at.bad("error_class") == told[1]
    assert at.decode_again("once more").records == ()
    assert at.decode("nothing new") is None
    assert is_clean(at.harness, at.stream)


def test_only_records_from_a_time_on_are_made_anew(typed):
    """Where the day leaves the window by now, rows move into quarantine, if so many may."""
    at = typed(transform="tests.worlds.own_transforms:doubled")
    at.register(V1)
    for number in range(4):
        at.send(V1, {"id": number, "note": "a"})
    at.run("one")
    del at.section["transform"]
    times = [t for *_, t in at.rows("timestamp")]
    assert len({*times}) == 4
    assert at.decode_again("later", since=times[2]).asked == 2
    assert [n for *_, n in at.rows("id")] == [0, 2, 2, 3]
    assert at.decode_again("none", since=times[3] + timedelta(seconds=1)).asked == 0
    at.section["event_time"] = {"field": "note", "outside": "quarantine"}
    with pytest.raises(DecodingHalted, match="4 of 4 records"):
        at.decode_again("buried")
    assert [n for *_, n in at.rows("id")] == [0, 2, 2, 3]
    at.section["quarantine"]["max_share"] = 1.0
    again = at.decode_again("wanted")
    assert (again.asked, again.changed, again.quarantine_changed) == (4, 4, 4)
    assert (at.rows("id"), len(at.bad("error_class"))) == ([], 4)
    assert is_clean(at.harness, at.stream)


@pytest.mark.slow
def test_all_tables_can_be_maintained_and_everything_goes_on(typed):
    """Runs, cleared ones and a rewind work on merged files, with nothing left of older versions."""
    at = typed()
    at.register(V1)
    for number, run_id in enumerate(("one", "two", "three")):
        at.send(V1, {"id": number, "note": run_id}, {"id": number, "note": "b"}, partition=0)
        at.send_bytes(None, b"nonsense", partition=0)
        at.run(run_id)
    at.register(V2)
    before = at.rows("id", "note", "is_tombstone"), at.bad("error_class")

    def maintain():
        with open_run(at.stream, "maintain", RunRequest(), at.spark) as run:
            tables = open_tables(at.stream)
            done = maintain_stream(run, tables)
        for table in tables.values():
            table.vacuum(0, delete=True)
        return {u.table: (u.before.active.files, u.after.active.files) for u in done}

    counts = maintain()
    assert list(counts) == ["raw", "decoded", "quarantine"]
    assert all(after == 1 < files for files, after in counts.values())
    assert (at.rows("id", "note", "is_tombstone"), at.bad("error_class")) == before
    assert is_clean(at.harness, at.stream)
    at.run("two")  # a cleared run: out of merged files, and in again
    at.send(V2, {"id": 9, "total": 1.5}, partition=1)
    at.run("four")
    assert is_clean(at.harness, at.stream)
    maintain()
    with open_run(at.stream, "rewind", RunRequest(), at.spark) as run:
        rewind_stream(run, RewindRequest("one", "wrong filter", "ann"))
    assert (len(at.rows()), len(at.bad())) == (3, 1)
    maintain()
    at.run("again")
    found = at.rows("id", "note", "is_tombstone"), at.bad("error_class")
    assert ([r for r in found[0] if r[0] == 0], found[1]) == before
    assert is_clean(at.harness, at.stream)


def test_documents_without_a_schema_are_variants(typed):
    """They are landed, decoded, merged, undone and audited like all others."""
    at = typed(value={"format": "json"})
    at.send_bytes(b'{"a":[1,"x"]}', b'{"a":1,"a":2}', None)
    at.run("one")
    at.send_bytes(b'"text"', b"null")
    at.run("two")
    table = DeltaTable(at.tables["decoded"])
    assert table.protocol().reader_features == ["variantType"]
    assert at.bad("error_class") == [(0, 1, "duplicate_field")]
    wanted = {0: {"a": [1, "x"]}, 2: None, 3: "text", 4: None}
    assert variants(at) == wanted
    with open_run(at.stream, "maintain", RunRequest(), at.spark) as run:
        done = {u.table: u for u in maintain_stream(run, open_tables(at.stream))}
    assert done["decoded"].merged.files == 2
    assert (variants(at), is_clean(at.harness, at.stream)) == (wanted, True)
    with open_run(at.stream, "rewind", RunRequest(), at.spark) as run:
        rewind_stream(run, RewindRequest("one", "wrong filter", "ann"))
    assert variants(at) == {n: wanted[n] for n in (0, 2)}
    assert is_clean(at.harness, at.stream)


def variants(at):
    """The documents by offset, as Spark reads the table's files with the table's types."""
    files = DeltaTable(at.tables["decoded"]).file_uris()
    read = at.spark.session.read.schema("offset BIGINT, value VARIANT").parquet(*files)
    rows = read.selectExpr("offset", "to_json(value) AS text")
    return {r["offset"]: json.loads(r["text"] or "null") for r in rows.collect()}


@pytest.mark.slow
def test_dropped_tombstones_in_a_table_by_days(typed):
    """An audit knows them by the raw rows; the table keeps its partitions, whatever the file says.

    A row that is gone is no tombstone.
    """
    at = typed(event_time={}, tombstones="drop")
    at.section["table"]["partition_by"] = ["event_date"]
    at.register(V1)
    at.send(V1, {"id": 1, "note": "a"}, {"id": 2, "note": "b"})
    at.send_bytes(None, b"nonsense")
    at.run("one")
    assert at.rows("id") == [(0, 0, 1), (0, 1, 2)]
    at.section["table"]["partition_by"] = []
    at.send(V1, {"id": 3, "note": "c"}, partition=1)
    at.run("two")
    table = DeltaTable(at.tables["decoded"])
    assert table.metadata().partition_columns == ["event_date"]
    assert None not in [day for _, _, day in at.rows("event_date")]
    audit, _ = at.harness.audit(at.stream)
    assert (audit.clean, audit.typed.dropped) == (True, 1)
    table.delete("offset = 1")
    audit, _ = at.harness.audit(at.stream)
    assert [(f.start_offset, f.end_offset) for f in audit.typed.missing] == [(1, 2)]
    assert audit.typed.dropped == 1


@pytest.mark.slow  # half a minute beside other parts
def test_a_table_by_days_is_compacted(typed):
    """By ours and by Spark's OPTIMIZE, day by day; a cleared run and an audit find every row."""
    when = {"type": "long", "logicalType": "timestamp-millis"}
    event = V1 | {"fields": [V1["fields"][0], {"name": "at", "type": when}]}
    days = [date(2026, 3, 4), date(2026, 3, 5), None]
    times = [1_772_582_400_000, 1_772_668_800_000, 0]
    at = typed(event_time={"field": "at", "outside": "catch_all"})
    at.section["table"]["partition_by"] = ["event_date"]
    at.register(event)
    optimize = f"OPTIMIZE delta.`{at.tables['decoded']}`"

    def lands(run_id):
        at.send(event, *({"id": n, "at": times[n]} for n in range(3)))
        at.run(run_id)

    def files():
        actions = DeltaTable(at.tables["decoded"]).get_add_actions(flatten=True)
        return sorted(pa.table(actions).column("partition.event_date").to_pylist(), key=str)

    def maintain():
        with open_run(at.stream, "maintain", RunRequest(), at.spark) as run:
            maintain_stream(run, open_tables(at.stream))
        assert files() == sorted(days, key=str)

    for run_id in ("one", "two", "three"):
        lands(run_id)
    maintain()
    lands("four")
    at.spark.session.sql(optimize)
    assert files() == sorted(days, key=str)
    lands("five")
    maintain()
    at.run("two")  # a cleared run: out of merged files, and in again
    assert at.rows("id", "event_date") == [(0, n, n % 3, days[n % 3]) for n in range(15)]
    assert is_clean(at.harness, at.stream)
