"""Erase by key on a real broker with a real Spark: out of every file, kept out, and proven."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from tests.texts import NOT_REACHED
from tests.worlds.current_streams import Changing
from tests.worlds.traces import traces_in, traces_of
from tideline.cli.main import main
from tideline.model.erasures import Erasing
from tideline.model.request import RunRequest
from tideline.operations.maintaining import maintain_stream
from tideline.operations.questions import require_clean
from tideline.operations.redrive import decode_again, redrive
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.wiring import open_ledger, open_run, open_tables

PLANTED = 47114711
RUNS = int(os.environ.get("TIDELINE_TEST_RUNS", "200"))
WORD = "planted-in-a-note"


@pytest.fixture
def orders(harness, spark):
    orders = Changing(harness, spark, partitions=2)
    orders.decode["quarantine"] = {"max_share": 1.0}
    return orders


def erase(orders, *arguments, status=0):
    """`tideline erase`; its JSON."""
    file = str(orders.harness.folder / "orders.yaml")
    assert main(["erase", file, "--output", "json", *arguments]) == status


@pytest.mark.slow
def test_a_planted_key_leaves_no_byte(orders, capsys):
    for number in range(6):
        orders.sends(
            ("c" if number == 0 else "u", PLANTED, WORD, number),
            *(("c", 10 * number + n, f"note {n}", n) for n in range(5)),
        )
        orders.sends(("c", 1000 + number, "other", 1), partition=1)
        orders.run(f"run-{number}")
    orders.sends(("d", PLANTED, WORD, 9), (None, PLANTED))
    orders.run("deletes")
    assert traces_of(orders.stream, PLANTED, WORD)
    before = orders.rows()
    erase(orders, "--key", f"key_id={PLANTED}", "--reason", "asked for", "--now", "--yes")
    said = json.loads(capsys.readouterr().out)
    assert (said["status"], said["erasure"]["audit"]) == ("done", "clean")
    assert said["erasure"]["records"] == 8
    assert traces_of(orders.stream, PLANTED, WORD) == []
    assert traces_in(orders.harness.folder, PLANTED, WORD) == []
    assert orders.rows() == before
    with open_run(orders.stream, "audit", RunRequest(), orders.spark) as run:
        assert require_clean(run, 4).erased == 8


@pytest.mark.slow  # tests/steps has the same over memory
def test_it_does_not_come_back(orders, capsys):
    """Replay, backfill, decoding again, rewind, maintenance, a moved ledger, a new table."""
    for number in range(3):
        orders.sends(("u", PLANTED, WORD, number), ("u", number, "x", number))
        orders.run(f"run-{number}")
    erase(orders, "--key", f"key_id={PLANTED}", "--reason", "asked for", "--now", "--yes")
    capsys.readouterr()

    def stays_out():
        assert traces_of(orders.stream, PLANTED, WORD) == []
        with open_run(orders.stream, "audit", RunRequest(), orders.spark) as run:
            return require_clean(run)

    orders.run("run-1")  # a clear: its plan is read from Kafka once more
    assert stays_out().erased == 3
    ranges = [{"topic": orders.harness.topic(), "partition": 0, "start_offset": 0, "end_offset": 6}]
    orders.harness.run(orders.stream, "backfill", orders.spark, ranges=ranges)
    stays_out()
    with open_run(orders.stream, "again", RunRequest(), orders.spark) as run:
        decode_again(run)
    orders.fold("anew", "anew")
    stays_out()
    with open_run(orders.stream, "rewind", RunRequest(), orders.spark) as run:
        rewind_stream(run, RewindRequest("run-0", "it was wrong", "ann"))
    orders.run("run-3")
    assert stays_out().rows == 3
    with open_run(orders.stream, "maintain", RunRequest(), orders.spark) as run:
        maintain_stream(run, open_tables(orders.stream))
    stays_out()
    orders.sends(("u", PLANTED, "later", 7))  # nobody has asked for later ones
    orders.run("run-4")
    assert orders.rows()[PLANTED] == ("later", 7)
    erase(
        orders, "--key", f"key_id={PLANTED}", "--reason", "once more", "--now", "--yes", "--future"
    )
    said = json.loads(capsys.readouterr().out)
    assert (said["before"], said["erasure"]["records"]) == (["erase-1"], 1)
    orders.sends(("u", PLANTED, "never", 8), ("u", 9, "x", 9))
    orders.run("run-5")
    assert PLANTED not in orders.rows()
    assert open_ledger(orders.stream).read().erasing.refused == 1
    stays_out()
    assert main(["erasures", str(orders.harness.folder / "orders.yaml"), "erase-2"]) == 0
    assert NOT_REACHED in capsys.readouterr().out
    # what keeps it out is the list
    open_ledger(orders.stream).update(lambda s: replace(s, erasing=Erasing()))
    with open_run(orders.stream, "rewind-2", RunRequest(), orders.spark) as run:
        rewind_stream(run, RewindRequest("run-0", "without the list", "ann"))
    orders.run("run-6")
    assert PLANTED in orders.rows()


@pytest.mark.slow  # tests/steps has the same over memory
def test_a_record_in_quarantine_and_a_stream_that_decodes_nothing(orders, capsys):
    """By bytes that are a whole word, where somebody says so; the rest is counted. By raw key."""
    orders.sends(("c", 1, "a", 1), ("c", PLANTED, WORD, 1))
    broken = b'{"payload": {"id": %d, "note": "' % PLANTED
    other = b'{"payload": {"id": %d1, "note": "' % PLANTED
    producer = KafkaProducer(bootstrap_servers=orders.harness.broker.bootstrap_servers)
    for value in (broken, other):
        producer.send(orders.harness.topic(), key=b"somebody", value=value, partition=0)
    producer.close()
    orders.run("one")
    erase(orders, "--key", f"key_id={PLANTED}", "--plan")
    plan = json.loads(capsys.readouterr().out)
    rows = {t["table"]: (t["rows"], t["undecided"]) for t in plan["erasure"]["tables"]}
    assert rows == {"raw": (1, 0), "decoded": (1, 0), "quarantine": (0, 2), "current": (1, 0)}
    assert [place[4:] for place in plan["undecided"]] == [[2, 3]]
    how = ("--quarantine-by-bytes", "--reason", "asked for", "--now", "--yes")
    erase(orders, "--key", f"key_id={PLANTED}", *how)
    assert json.loads(capsys.readouterr().out)["erasure"]["audit"] == "clean"
    left = traces_of(orders.stream, WORD)
    assert left == []
    erase(orders, "--raw-key", "somebody", "--reason", "the other one", "--now", "--yes")
    assert json.loads(capsys.readouterr().out)["erasure"]["records"] == 1
    assert traces_of(orders.stream, PLANTED, "somebody") == []


def test_what_is_refused(orders, capsys):
    """Nothing is changed, and no message shows a key."""
    orders.sends(*(("c", n, "same", n) for n in range(200)))
    orders.run("one")
    file = str(orders.harness.folder / "orders.yaml")
    before = open_ledger(orders.stream).read().head
    for wrong, why in (
        (["--key", "id=1", "--reason", " "], "--reason: got nothing"),
        (["--key", "note=same", "--reason", "all the same ones"], "holds a key"),
        (["--key", "nobody=1", "--reason", "x"], "column 1 of the keys is none of the typed table"),
        (["--key", "key_id=secret", "--reason", "x"], "allowed: key_id is long"),
        (["--key", "note=same", "--reason", "x"], "200 of 200 rows would be erased, 100.0%"),
        (["--key", "key_id=1", "--reason", "x", "--now"], "allowed: --now --yes"),
        (["--key", "secret", "--reason", "x"], "allowed: COLUMN=VALUE"),
        (["--raw-key", "0xzz", "--reason", "x"], "no hexadecimal digits"),
        (["--key", "key_id=1", "--reason", "x", "--most", "0"], "--most: got 0.0"),
        (["--keys-from", "/nowhere", "--reason", "x"], "cannot be read"),
    ):
        assert main(["erase", file, *wrong]) == 2, wrong
        said = capsys.readouterr().err
        assert why in said
        assert "secret" not in said
    assert open_ledger(orders.stream).read().head == before
    assert main(["erase", file, "--key", "key_id=999", "--reason", "x"]) == 0
    assert "no table has a record of these keys" in capsys.readouterr().out
    keys = orders.harness.folder / "keys.csv"
    keys.write_text("key_id,note\n3,same\n4,other\n5,same\n")
    erase(orders, "--keys-from", str(keys), "--reason", "two of three")
    said = json.loads(capsys.readouterr().out)
    assert (said["status"], said["erasure"]["records"]) == ("removed", 2)
    assert {3, 4, 5} & {*orders.rows()} == {4}
    erase(orders)  # the files are not due yet
    assert json.loads(capsys.readouterr().out)["erasures"][0]["status"] == "removed"


@pytest.mark.slow  # half an hour; and with TIDELINE_TEST_STORE=s3
@pytest.mark.timeout(7200)
def test_a_key_in_the_rows_of_two_hundred_runs(orders, capsys):
    """Typed, quarantined, redriven, compacted, replayed, rewound, folded; then all once more."""
    rule = {"name": "small", "sql": "total < 1000", "on_fail": "quarantine"}
    orders.decode["expect"] = [rule]
    topic = orders.harness.topic()

    def replay(*run_ids):
        for run_id in run_ids:
            orders.run(run_id)
        ranges = [{"topic": topic, "partition": 0, "start_offset": 10, "end_offset": 60}]
        orders.harness.run(orders.stream, f"backfill-{run_ids[0]}", orders.spark, ranges=ranges)
        with open_run(orders.stream, f"again-{run_ids[0]}", RunRequest(), orders.spark) as run:
            decode_again(run)
        orders.fold()

    def judge():
        with open_run(orders.stream, "audit", RunRequest(), orders.spark) as run:
            return require_clean(run, 4)

    for number in range(RUNS):
        total = 2000 if number % 20 == 7 else number
        orders.sends(
            ("u", PLANTED, WORD, total), ("u", number % 30, f"n{number}", total), ("u", 900, "x", 1)
        )
        orders.sends(("u", 10_000 + number, "other", 1), partition=1)
        orders.run(f"run-{number}")
        if number % (RUNS // 3) == 20:
            with open_run(orders.stream, f"maintain-{number}", RunRequest(), orders.spark) as run:
                maintain_stream(run, open_tables(orders.stream))
            replay(f"run-{number - 10}", f"run-{number - 3}")
        if number == RUNS // 2:
            with open_run(orders.stream, "rewind", RunRequest(), orders.spark) as run:
                rewind_stream(run, RewindRequest(f"run-{number - 5}", "it was wrong", "ann"))
    orders.decode["expect"] = [rule | {"on_fail": "count"}]
    with open_run(orders.stream, "redrive", RunRequest(), orders.spark) as run:
        redrive(run)
    orders.fold()
    before, rows = judge(), orders.rows()
    assert len(traces_of(orders.stream, PLANTED, WORD)) > RUNS
    how = ("--reason", "asked for", "--now", "--yes", "--most", "1")
    erase(orders, "--key", f"key_id={PLANTED}", *how)
    said = json.loads(capsys.readouterr().out)
    assert (said["erasure"]["records"], said["erasure"]["audit"]) == (RUNS, "clean")
    assert traces_of(orders.stream, PLANTED, WORD) == []
    after = judge()
    assert (after.rows, after.erased) == (before.rows - RUNS, RUNS)
    del rows[PLANTED]
    assert orders.rows() == rows
    replay("run-11", f"run-{RUNS - 1}")
    with open_run(orders.stream, "rewind-2", RunRequest(), orders.spark) as run:
        rewind_stream(run, RewindRequest(f"run-{RUNS - 9}", "once more", "ann"))
    orders.run("last")
    assert judge().erased == RUNS
    assert orders.rows() == rows
    assert traces_of(orders.stream, PLANTED, WORD) == []


@pytest.mark.slow  # checkpoints of ours: the planted key above; a minute
def test_an_erasure_ends_where_spark_has_written_checkpoints(orders, capsys):
    """One at the version at which a log is cut, and one below each later commit."""
    for number in range(2):
        orders.sends(("u", PLANTED, WORD, number), ("u", number, "x", number))
        orders.run(f"run-{number}")
    sql, uris = orders.spark.session.sql, [*orders.tables.values()]
    for uri in uris:
        sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
        name = f"{DeltaTable(uri).version():020d}.checkpoint.parquet"
        columns = pq.read_schema(Path(uri, "_delta_log", name)).field("add").type
        assert columns.get_field_index("stats_parsed") >= 0
    orders.sends(("u", 7, "y", 7))
    orders.run("run-2")
    erase(orders, "--key", f"key_id={PLANTED}", "--reason", "at once", "--now", "--yes")
    assert json.loads(capsys.readouterr().out)["status"] == "done"
    assert traces_of(orders.stream, PLANTED, WORD) == []
    assert traces_in(orders.harness.folder, PLANTED, WORD) == []
    rows = [sql(f"SELECT count(*) FROM delta.`{uri}`").collect()[0][0] for uri in uris]
    assert rows == [DeltaTable(uri).to_pyarrow_table().num_rows for uri in uris]


@pytest.mark.slow
@pytest.mark.parametrize("no_value", [None, b"null"])
def test_a_key_with_columns_that_the_record_s_key_lacks(no_value, harness, spark, capsys):
    """By a part of it the records behind its deletes go along; by a value none is in the way."""
    orders = Changing(harness, spark)
    orders.no_value = no_value
    orders.decode["value"]["null_values"] = ["json_null"]
    orders.current["key"] = ["key_id", "note"]
    orders.sends(("c", 1, "euro", 1), ("c", 1, "usus", 1), ("d", 1, "euro"), (None, 1))
    orders.sends(("c", 7, "z", 1), ("d", 7, "z"), (None, 7), ("c", 8, None, 8))
    orders.run("one")
    file = str(orders.harness.folder / "orders.yaml")

    def living():
        rows = DeltaTable(orders.tables["current"]).to_pyarrow_table().to_pylist()
        return sorted((r["key_id"], r["note"]) for r in rows if not r["is_deleted"])

    assert living() == [(1, "usus"), (8, None)]
    for words in (("note=euro",), ("id=7",), ("id=8", "--whole-keys")):
        assert main(["erase", file, "--key", *words, "--reason", "asked"]) == 0, capsys.readouterr()
        assert main(["fold", file, "--check"]) == 0
    assert main(["fold", file, "--anew"]) == 0
    assert living() == [(1, "usus")]
    assert main(["audit", file]) == 0
