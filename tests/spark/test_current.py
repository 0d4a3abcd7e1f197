"""A current table on a real broker: landed, decoded, folded; and what halts the fold."""

import json
import re
import time
from dataclasses import replace
from datetime import timedelta

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.worlds.current_streams import GONE, Changing
from tests.worlds.streams import decide
from tideline.cli.main import main
from tideline.errors import BadInput, FoldingHalted
from tideline.folding.current_checking import check_current
from tideline.folding.sweeping import find_stale_rows, sweep
from tideline.folding.views import view_of
from tideline.ledger.move import move_ledger
from tideline.model.request import RunRequest
from tideline.operations.maintaining import maintain_stream
from tideline.operations.redrive import decode_again
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.run_batch import decode_batch, run_batch
from tideline.wiring import open_ledger, open_run, open_store, open_tables


@pytest.fixture
def orders(harness, spark):
    return Changing(harness, spark)


def test_a_run_leaves_one_row_a_key(orders):
    """Its properties say what is fixed; a run without changes folds nothing."""
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2), ("u", 1, GONE, 3), ("d", 2), (None, 2))
    orders.sends(("c", 3, "x" * 9, 9))
    folded = orders.run("one").folded
    assert (folded.changes, folded.keyless, folded.status) == (6, 0, "done")
    assert orders.rows() == {1: ("a", 3), 3: ("x" * 9, 9)}
    assert (orders.head.live, orders.head.deleted) == (2, 1)
    table = DeltaTable(orders.tables["current"])
    property = table.metadata().configuration["tideline.current"]
    assert property == '{"key": ["key_id"], "buckets": 4, "hash": "xxhash64"}'
    names = [field.name for field in table.schema().fields]
    assert names == [
        *("key_id", "id", "note", "total"),
        *("topic_id", "generation", "partition", "offset", "timestamp"),
        *("unavailable_columns", "is_deleted", "bucket"),
    ]
    version = table.version()
    assert orders.run("two").folded is None
    assert DeltaTable(orders.tables["current"]).version() == version


@pytest.mark.slow  # the simulated world shows it with each change
def test_the_same_run_folds_its_changes_once_more(orders):
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    orders.run("one")
    orders.sends(("u", 1, "b", 2))
    orders.run("two")
    again = orders.run("one").folded
    assert again.changes == 2
    assert orders.rows() == {1: ("b", 2), 2: ("b", 2)}


def test_a_backfill_below_the_head_brings_nothing_back(harness, spark):
    orders = Changing(harness, spark)
    orders.more = {"start": "latest"}
    orders.sends(("c", 1, "old", 1), ("c", 2, "old", 2))
    orders.run("none")
    orders.sends(("u", 1, "new", 2), ("d", 2), (None, 2))
    orders.run("one")
    assert orders.rows() == {1: ("new", 2)}
    topic = harness.topic()
    ranges = [{"topic": topic, "partition": 0, "start_offset": 0, "end_offset": 2}]
    harness.run(orders.stream, "below", spark, ranges=ranges)
    orders.fold()
    assert orders.rows() == {1: ("new", 2)}
    assert orders.head.deleted == 1


@pytest.mark.slow  # the simulated world shows it with each change
def test_a_rewind_over_a_delete_brings_the_row_back(orders):
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    orders.run("one")
    orders.sends(("d", 1), (None, 1), ("u", 2, "c", 3))
    orders.run("two")
    assert orders.rows() == {2: ("c", 3)}
    with open_run(orders.stream, "rewind", RunRequest(), orders.spark) as run:
        rewind_stream(run, RewindRequest("one", "it was wrong", "ann"))
    orders.fold()
    assert orders.rows() == {1: ("a", 1), 2: ("b", 2)}
    orders.run("three")
    assert orders.rows() == {2: ("c", 3)}


@pytest.mark.slow  # the simulated world shows it with each change
def test_a_record_that_is_redriven_below_a_delete_stays_gone(orders):
    orders.decode["quarantine"] = {"max_share": 1.0}
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2), ("d", 1))
    orders.run("one")
    with open_run(orders.stream, "again", RunRequest(), orders.spark) as run:
        decode_again(run)
    orders.fold()
    assert orders.rows() == {2: ("b", 2)}


def test_all_rows_go_at_once(orders):
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    orders.run("one")
    orders.sends(("t",), ("c", 3, "c", 3))
    folded = orders.run("two").folded
    assert folded.keyless == 0  # a `t` has no key, and is no change that no row shows
    assert orders.rows() == {3: ("c", 3)}
    assert orders.head.deleted == 2


def test_a_key_that_has_moved_halts_and_a_decision_orders_by_time(harness, spark):
    orders = Changing(harness, spark, partitions=2)
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    orders.run("one")
    orders.sends(("u", 1, "moved", 2), partition=1)
    with pytest.raises(FoldingHalted, match=r'key_moved.*several: ."1".'):
        orders.run("two")
    assert orders.rows() == {1: ("a", 1), 2: ("b", 2)}
    decide(orders.stream, "by_time", orders.head.incidents[0].incident_id)
    orders.fold()
    assert orders.rows() == {1: ("moved", 2), 2: ("b", 2)}
    assert open_ledger(orders.stream).read().open_incidents == ()
    orders.sends(("u", 1, "back", 3))
    orders.run("three")
    assert orders.rows()[1] == ("back", 3)


@pytest.mark.slow  # a minute beside other parts
def test_a_delete_that_lacks_a_column_of_the_key_halts(orders, capsys):
    """By the command line: nothing is folded, and a key of the record's own cures it."""
    orders.current["key"] = ["key_id", "note"]
    orders.sends(("c", 1, "eu", 1), ("c", 2, "us", 2), ("d", 2, "us"), (None, 2))
    orders.run("one")
    assert orders.rows() == {1: ("eu", 1)}
    orders.sends(("d", 1), (None, 1))
    with pytest.raises(FoldingHalted, match=r'key_moved.*deletes a row its note.*"key_id":1'):
        orders.run("two")
    assert orders.rows() == {1: ("eu", 1)}
    assert main(["fold", str(orders.harness.folder / "orders.yaml")]) == 3
    assert "another current.table with the record's own key" in capsys.readouterr().err
    orders.current |= {"key": ["key_id"], "table": {"uri": f"{orders.tables['current']}_2"}}
    orders.fold()
    assert orders.rows() == {}


def test_a_view_between_two_folds_shows_what_the_next_one_makes(orders):
    """DuckDB reads both tables by it, and delta-rs reads the table that is folded then."""
    with (
        pytest.raises(BadInput, match="no row is folded yet"),
        open_run(orders.stream, "view", RunRequest()) as run,
    ):
        view_of(run, "duckdb", None, is_history=False)
    orders.current["every"] = 1.0
    orders.sends(*(("c", n, f"note {n}", n) for n in range(9)))
    orders.run("one")
    orders.sends(("u", 1, GONE, 7), ("d", 2), (None, 2), ("u", 3, "x", 3), ("c", 20, "new", 20))
    assert orders.run("two").folded is None
    with open_run(orders.stream, "view", RunRequest()) as run:
        with pytest.raises(BadInput, match="trino knows tables by names only"):
            view_of(run, "trino", None, is_history=False)
        sql = view_of(run, "duckdb", ("current_rows", "typed_rows"), is_history=False)
        assert orders.tables["current"] in view_of(run, "spark", None, is_history=False)
    engine = duckdb.connect()
    for name, table in (("current_rows", "current"), ("typed_rows", "decoded")):
        engine.register(name, DeltaTable(orders.tables[table]).to_pyarrow_dataset())
    shown = engine.execute(f"SELECT key_id, note, total FROM ({sql})").fetchall()
    orders.fold()
    assert {key: tuple(row) for key, *row in shown} == orders.rows()
    assert orders.rows()[1] == ("note 1", 7)


def test_a_key_is_explained(orders, capsys):
    """Its row, and each decoded change, the last one first; one is not folded yet."""
    orders.current["every"] = 1.0
    orders.sends(("c", 7, "a", 1), *(("c", n, "x", n) for n in range(6)))
    orders.run("one")
    orders.sends(("u", 7, "b", 2), ("d", 5), (None, 5))
    orders.run("two")
    file = str(orders.harness.folder / "orders.yaml")
    assert main(["explain", file, "--key", "key_id=7"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "key_id=7: exists; 2 changes, the newest first"
    told = r"  0@7, [-: \d]+: key_id=7, id=7, note=b, total=2, not folded yet"
    assert re.fullmatch(told, said[1])
    assert main(["explain", file, "--key", "key_id=5", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["row"]["note"], found["deleted"]) == ("x", False)
    assert [(c["deleted"], c["folded"]) for c in found["changes"]] == [
        *((True, False), (True, False), (False, True)),
    ]
    orders.fold()
    assert main(["explain", file, "--key", "key_id=5"]) == 0
    assert capsys.readouterr().out.startswith("key_id=5: deleted; 3 changes")
    assert main(["explain", file, "--key", "key_id=99"]) == 0
    assert capsys.readouterr().out == "key_id=99: no row; 0 changes, the newest first\n"
    orders.sends(("u", 1, "again", 1))
    orders.run("three")
    with open_run(orders.stream, "three", RunRequest(), orders.spark) as run:
        decode_batch(run)
    assert main(["explain", file, "--key", "key_id=1"]) == 0  # and it is to be folded again
    assert capsys.readouterr().out.startswith("key_id=1: exists; 2 changes")
    for wrong, why in (
        (["--key", "id=7"], "--key: got 'id'"),
        (
            ["--key", "key_id=seven"],
            "key_id: got 'seven'; allowed: a whole number in digits, of int64",
        ),
        (["--key", "key_id"], "--key: got null alone; allowed: one value at least"),
        (["orders", "0", "1", "--key", "key_id=7"], "either a key or a record"),
        ([], "allowed: TOPIC PARTITION OFFSET, or --key"),
    ):
        assert main(["explain", file, *wrong]) == 2
        assert why in capsys.readouterr().err


def test_a_table_that_others_have_changed_halts_and_is_folded_anew(orders):
    orders.sends(*(("c", n, "a", n) for n in range(20)))
    orders.run("one")
    table = DeltaTable(orders.tables["current"])
    table.delete("key_id = 7")
    orders.sends(("u", 7, "b", 7))
    with pytest.raises(FoldingHalted, match="current_changed"):
        orders.run("two")
    decide(orders.stream, "refold", orders.head.incidents[0].incident_id)
    orders.fold()
    assert len(orders.rows()) == 20
    assert orders.rows()[7] == ("b", 7)


def test_a_typed_table_without_a_column_of_before_has_all_folded_anew(orders):
    """It has another address, and fewer listed fields: sums of the rows there had that column."""
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    orders.run("one")
    orders.decode["value"]["fields"] = ["id", "note"]
    orders.decode["table"] = {"uri": f"{orders.tables['decoded']}_2"}
    orders.decode["quarantine"] = {"uri": f"{orders.tables['quarantine']}_2"}
    orders.sends(("u", 1, "c", 3))
    assert orders.run("two").folded.plan.is_anew
    assert orders.rows() == {1: ("c", None), 2: ("b", None)}
    with open_run(orders.stream, "check", RunRequest()) as run:
        assert not check_current(run).flaws


def test_what_is_fixed_stays(orders):
    orders.sends(("c", 1, "a", 1))
    orders.run("one")
    orders.current["table"] = {"buckets": 8}
    orders.sends(("c", 2, "b", 2))
    with pytest.raises(BadInput, match="key, buckets and order are fixed"):
        orders.run("two")
    orders.current["table"] = {"buckets": 8, "uri": orders.tables["raw"] + "_other"}
    orders.fold()
    assert orders.rows() == {1: ("a", 1), 2: ("b", 2)}


@pytest.mark.slow  # histories of the simulated world have it
def test_a_table_that_was_made_and_has_no_fold_yet_is_a_new_beginning(orders):
    """A run was killed after it had made the table at a new address, and before it noted it."""
    orders.sends(("c", 1, "a", 1))
    orders.run("one")
    first = DeltaTable(orders.tables["current"])
    orders.current["table"] = {"buckets": 4, "uri": orders.tables["raw"] + "_other"}
    with open_run(orders.stream, "dies", RunRequest(), orders.spark) as run:
        configuration = first.metadata().configuration
        columns = first.schema().to_json()
        run.current.create(
            "orders",
            configuration["tideline.ledger_id"],
            ["bucket"],
            json.loads(columns)["fields"],
            {"tideline.current": configuration["tideline.current"]},
        )
    orders.sends(("c", 2, "b", 2))
    orders.run("two")
    assert orders.rows() == {1: ("a", 1), 2: ("b", 2)}


@pytest.mark.slow  # histories of the simulated world have it
def test_an_older_ledger_has_all_folded_anew(orders):
    """The table has a fold that the ledger does not know; its sums are of before."""
    orders.sends(("c", 1, "a", 1))
    orders.run("one")
    older = orders.head
    orders.sends(("u", 1, "b", 2), ("c", 2, "c", 3))
    orders.run("two")
    open_ledger(orders.stream).update(lambda state: replace(state, folding=older))
    assert orders.fold().plan.is_anew
    assert orders.rows() == {1: ("b", 2), 2: ("c", 3)}


@pytest.mark.slow
def test_a_ledger_that_was_moved_knows_what_is_folded(orders, tmp_path):
    orders.sends(("c", 1, "a", 1))
    orders.run("one")
    known, source = orders.head, orders.stream.ledger_location
    target = replace(source, address=str(tmp_path / "elsewhere"))
    move_ledger(source, target, open_store)
    orders.more = {"ledger_uri": target.address}
    assert orders.head == known
    orders.sends(("u", 1, "b", 2))
    assert not orders.run("two").folded.plan.is_anew
    assert orders.rows() == {1: ("b", 2)}


@pytest.mark.slow
def test_a_typed_table_in_partitions_is_folded(orders):
    orders.decode["table"] = {"partition_by": ["topic_id", "partition"]}
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    orders.run("one")
    orders.sends(("u", 1, "b", 2))
    orders.run("two")
    assert orders.rows() == {1: ("b", 2), 2: ("b", 2)}


def test_a_column_for_deletes_has_to_be_there(orders):
    """Otherwise no delete would ever be seen."""
    orders.current["deletes"] = {"when": {"column": "__delete", "equals": "true"}}
    orders.sends(("c", 1, "a", 1))
    with pytest.raises(BadInput, match=r"current\.deletes\.when\.column: got '__delete'"):
        orders.run("one")


@pytest.mark.slow
def test_a_declared_order_lets_a_key_move(harness, spark, capsys):
    """By the database's time; the rows say so, a view and `explain` follow it, and it is fixed."""
    orders = Changing(harness, spark, partitions=2, sequence_by=["source_timestamp"])
    with pytest.raises(BadInput, match="a record without a value has no source_timestamp"):
        assert orders.stream
    orders.decode["tombstones"] = "drop"
    at = 1_700_000_000_000
    orders.sends(("c", 1, "a", 1), ("c", 2, "b", 2), source_at=at)
    orders.run("one")
    orders.sends(("u", 1, "late", 9), partition=1, source_at=at - 1)
    orders.sends(("d", 2), (None, 2), partition=1, source_at=at + 1)
    orders.sends(("u", 1, "moved", 2), source_at=at + 2)
    orders.current["every"] = "0 0 29 2 *"
    with open_run(orders.stream, "two", RunRequest(), orders.spark) as run:
        run_batch(run)
        assert run.folded is None
        sql = view_of(run, "duckdb", ("current_rows", "typed_rows"), is_history=False)
    engine = duckdb.connect()
    for name, table in (("current_rows", "current"), ("typed_rows", "decoded")):
        engine.register(name, DeltaTable(orders.tables[table]).to_pyarrow_dataset())
    shown = engine.execute(f"SELECT key_id, note, total FROM ({sql})").fetchall()
    orders.fold()
    assert orders.rows() == {1: ("moved", 2)} == {key: tuple(row) for key, *row in shown}
    layout = DeltaTable(orders.tables["current"]).metadata().configuration["tideline.current"]
    assert json.loads(layout)["sequence"] == ["source_timestamp"]
    assert main(["explain", str(harness.folder / "orders.yaml"), "--key", "key_id=1"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(",")[-2].split("=")[-1] for line in lines] == ["moved", "a", "late"]
    with pytest.raises(BadInput, match=r"sequence_by orders its changes"):
        ghosts_of(orders)
    orders.current["sequence_by"] = ["timestamp"]
    orders.sends(("u", 1, "x", 3))
    orders.run("three")
    with pytest.raises(BadInput, match="key, buckets and order are fixed"):
        orders.fold()


def ghosts_of(orders):
    with open_run(orders.stream, "look", RunRequest(), orders.spark) as run:
        return find_stale_rows(run)


@pytest.mark.slow  # a minute beside other parts
def test_rows_of_keys_that_are_gone_need_not_be_kept(harness, spark):
    """They are dropped with a fold that comes later, and a rewind brings the rows back."""
    orders = Changing(harness, spark, keep_deleted=False)
    orders.sends(*(("c", n, "a", n) for n in range(10)))
    orders.run("one")
    orders.sends(("d", 1), (None, 1), ("d", 2), ("d", 3))
    orders.run("two")
    assert (orders.head.live, orders.head.deleted) == (7, 3)
    orders.sends(("u", 4, "b", 4))
    folded = orders.run("three").folded
    assert (folded.plan.is_anew, folded.plan.is_drop) == (False, True)
    table = DeltaTable(orders.tables["current"]).to_pyarrow_table()
    assert (table.num_rows, orders.head.deleted, len(orders.rows())) == (7, 0, 7)
    with open_run(orders.stream, "check", RunRequest(), orders.spark) as run:
        assert check_current(run).flaws == ()
    with open_run(orders.stream, "rewind", RunRequest(), orders.spark) as run:
        rewind_stream(run, RewindRequest("one", "it was wrong", "ann"))
    orders.fold()
    assert orders.rows() == {n: ("a", n) for n in range(10)}
    orders.run("four")
    assert orders.rows().keys() == {0, *range(4, 10)}


@pytest.mark.slow  # half a minute beside other parts
def test_a_compacted_topic_that_is_read_late_leaves_the_table_unproven(harness, spark, caplog):
    """A delete may be gone by then; the table's properties say so, and a sweep ends it."""
    config = {"cleanup.policy": "compact", "delete.retention.ms": "600000"}
    orders = Changing(harness, spark, topic=config)
    orders.more["gaps"] = "compacted"
    at = int(time.time()) * 1000
    orders.sends(("c", 1, "a", 1), at=at - 7_200_000)
    orders.run("one")
    assert orders.head.unproven_since is None
    orders.sends(("c", 2, "b", 2), at=at - 400_000)
    yesterday = open_ledger(orders.stream)
    day = yesterday.read().head.days[0]
    earlier = replace(day, day=day.day - timedelta(days=1))
    yesterday.update(lambda s: s.with_head(replace(s.head, days=(earlier, *s.head.days))))
    orders.run("two")
    assert "old, and compaction may take deletes after 10 min" in caplog.text
    assert orders.head.unproven_since is None
    orders.sends(("c", 3, "c", 3), at=at - 3_600_000)
    orders.run("three")
    since = orders.head.unproven_since
    properties = DeltaTable(orders.tables["current"]).metadata().configuration
    assert properties["tideline.unproven_since"] == since.isoformat()
    assert "keep rows that are gone" in caplog.text
    orders.sends(("r", 2, "b", 2), ("r", 3, "c", 3), snapshot="last", at=at)
    orders.run("four")
    with open_run(orders.stream, "sweep", RunRequest(by="ann"), orders.spark) as run:
        sweep(run, 1)
    assert orders.rows().keys() == {2, 3}
    assert orders.head.unproven_since is None
    properties = DeltaTable(orders.tables["current"]).metadata().configuration
    assert properties["tideline.unproven_since"] == ""


def test_it_waits_for_the_share_that_the_file_says(harness, spark):
    orders = Changing(harness, spark, every=0.5)
    orders.sends(*(("c", n, "a", n) for n in range(10)))
    orders.run("one")
    orders.sends(("u", 1, "b", 1))
    assert orders.run("two").folded is None
    assert orders.fold().changes == 1
    assert orders.rows()[1] == ("b", 1)


@pytest.mark.slow
def split(uri):
    """A bucket's rows in several files, as folds of earlier versions have left them."""
    table = DeltaTable(uri)
    rows = table.to_pyarrow_table().sort_by([("bucket", "ascending"), ("id", "ascending")])
    for at in range(0, len(rows), 4):
        mode = "append" if at else "overwrite"
        write_deltalake(uri, rows.slice(at, 4), mode=mode)


@pytest.mark.slow  # half a minute beside other parts
def test_maintenance_merges_its_files_and_the_fold_goes_on(orders):
    orders.sends(*(("c", n, "a", n) for n in range(20)))
    orders.run("one")
    for n in range(3):
        orders.sends(*(("c", 100 + 10 * n + m, "a", m) for m in range(10)))
        orders.run(f"more {n}")
    split(orders.tables["current"])
    before = len(DeltaTable(orders.tables["current"]).file_uris())
    with open_run(orders.stream, "maintain", RunRequest(), orders.spark) as run:
        maintain_stream(run, open_tables(orders.stream))
    assert len(DeltaTable(orders.tables["current"]).file_uris()) < before
    orders.sends(("u", 1, "b", 1))
    folded = orders.run("after").folded
    assert not folded.plan.is_anew
    assert len(orders.rows()) == 50
