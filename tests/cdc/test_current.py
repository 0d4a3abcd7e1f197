"""The database as the judge of the current table: every column of every row, after random changes.

`TIDELINE_TEST_MINUTES` says for how long rows change, and `TIDELINE_TEST_SEED` from which seed.
"""

import json
import os
import random
import signal
import time
from decimal import Decimal
from functools import partial

import pytest
from deltalake import DeltaTable

from devstack.process import wait_until
from tests.faults.killable import ended_at, until_it_passes
from tests.worlds.changing_tables import Changes
from tests.worlds.streams import decide, is_clean
from tideline.errors import FoldingHalted
from tideline.failpoints import DECODE_PLACES, FOLD_PLACES, PLACES
from tideline.folding.sweeping import find_stale_rows, sweep
from tideline.model.request import RunRequest
from tideline.stream.stream import tables_of
from tideline.wiring import open_ledger, open_run

MINUTES = float(os.environ.get("TIDELINE_TEST_MINUTES", "0.7"))
SEED = int(os.environ.get("TIDELINE_TEST_SEED", "1"))
LAST = -1
"""Key of the row that comes last, and says that Debezium has told everything."""


@pytest.mark.timeout(600 + 120 * MINUTES)
@pytest.mark.parametrize("format", ["json", "avro"])
def test_the_table_is_the_databases(source, capture, harness, spark, format):
    """Runs land, decode, fold and are killed; Debezium is killed; columns come."""
    rng = random.Random(SEED)
    database = source.create_database("shop")
    changes = Changes(source, "shop", SEED)
    changes.happen(60)
    changes.untold.clear()  # the snapshot tells them
    captured = capture(format, database)
    connect, stream = captured.connect, captured.stream(current={"table": {"buckets": 4}})
    wait_until(captured.end, "the snapshot is not there", 60)
    until, killed, number = time.monotonic() + 60 * MINUTES, 0, 0
    while time.monotonic() < until:
        number += 1
        changes.happen(rng.randrange(5, 40))
        if rng.random() < 0.2:
            connect.server.signal(signal.SIGKILL)
            connect.stop()
            changes.happen(5)
            connect.start()
        if rng.random() < 0.4:
            killed += dies(harness, spark, rng.choice(POINTS), f"run {number}")
        until_it_passes(partial(harness.run, stream, f"run {number}", spark))
    all_told(changes, captured)
    until_it_passes(partial(harness.run, stream, "the last run", spark))
    rows = holds_the_rows(stream, changes)
    print(f"{changes.statements} statements, {number} runs, {killed} killed, {rows} rows")
    state = open_ledger(stream).read()
    assert state.folding.coverage == state.decoding.coverage == state.head.coverage
    assert is_clean(harness, stream)


def test_partitions_that_are_added_halt_the_fold_until_somebody_decides(
    source, capture, harness, spark
):
    """Half of the keys go to another partition: 4 become 6. By Kafka's time they are in order."""
    database = source.create_database("shop")
    changes = Changes(source, "shop", SEED)
    changes.happen(60)
    changes.untold.clear()  # the snapshot tells them
    captured = capture("json", database, partitions=4)
    stream = captured.stream(current={"table": {"buckets": 4}})
    wait_until(captured.end, "the snapshot is not there", 60)
    until_it_passes(partial(harness.run, stream, "before", spark))
    captured.grow(6)
    changes.happen(150)
    all_told(changes, captured)
    with pytest.raises(FoldingHalted, match="key_moved"):
        harness.run(stream, "after", spark)
    state = open_ledger(stream).read()
    assert state.decoding.coverage == state.head.coverage
    (incident,) = state.open_incidents
    decide(stream, "retry", incident.incident_id)
    with pytest.raises(FoldingHalted, match="key_moved"):
        harness.run(stream, "once more", spark)
    (incident,) = open_ledger(stream).read().open_incidents
    decide(stream, "by_time", incident.incident_id)
    until_it_passes(partial(harness.run, stream, "decided", spark))
    holds_the_rows(stream, changes)
    changes.happen(40)
    all_told(changes, captured, LAST - 1)
    until_it_passes(partial(harness.run, stream, "later", spark))
    holds_the_rows(stream, changes)


def test_what_a_new_snapshot_has_not_read_is_swept(source, capture, harness, spark):
    """Debezium's place is lost, and with it deletes: an incident of the source, not of Kafka."""
    database = source.create_database("shop")
    changes = Changes(source, "shop", SEED)
    changes.happen(200)
    captured = capture("json", database, partitions=3)
    stream = captured.stream(current={"table": {"buckets": 4}})
    wait_until(captured.end, "the snapshot is not there", 60)
    began = time.monotonic()
    until_it_passes(partial(harness.run, stream, "before", spark))
    # which records are of which snapshot, nobody could say of two that are nearer
    wait_until(lambda: time.monotonic() - began > 31, "time stands still", 60)
    captured.forget(lambda: changes.happen(100))
    changes.untold.clear()  # the snapshot tells them
    all_told(changes, captured)
    changes.happen(20)
    all_told(changes, captured, LAST - 1)
    until_it_passes(partial(harness.run, stream, "after", spark))
    there = {row["key_id"] for row in current(stream) if not row["is_deleted"]}
    lost = there - {*changes.rows()}
    assert lost
    with open_run(stream, "sweep", RunRequest(by="ann"), spark) as run:
        found = find_stale_rows(run)
        assert {int(key["key_id"]) for key in found.keys} == lost
        sweep(run, len(lost))
    holds_the_rows(stream, changes)


def all_told(changes, captured, last=LAST):
    """Debezium has told every statement: a row comes last whose key nobody else has."""
    changes.execute(f"INSERT INTO orders (id) VALUES ({last})")
    ends = (f'"id":{last}'.encode(), bytes([-2 * last - 1]))  # Avro's longs are zigzag

    def is_there():
        return any(ends[0] in key or key.endswith(ends[1]) for key in captured.last_keys())

    wait_until(is_there, "Debezium has not told everything", 60)


def holds_the_rows(stream, changes):
    """Every column of every row of the database is in the table, and no other row; how many."""
    found, wanted = {row["key_id"]: row for row in current(stream)}, changes.rows()
    assert {k for k, row in found.items() if not row["is_deleted"]} == {*wanted}
    for k, row in wanted.items():
        if k in changes.untold:
            assert "essay" in found[k]["unavailable_columns"], k
            row["essay"] = None
        assert {n: found[k][n] for n in row} == {n: as_typed(n, v) for n, v in row.items()}, k
    return len(wanted)


POINTS = [*PLACES[2:-1], *DECODE_PLACES, *FOLD_PLACES[1:]]


def as_typed(name, value):
    """A value of the database as the typed table has it."""
    if name == "free" and value is not None:  # Debezium drops zeros behind the last digit
        return format(Decimal(value).normalize(), "f")
    if name == "ref" and value is not None:
        return str(value)
    if name == "doc" and value is not None:
        return json.dumps(value)
    return bytes(value) if isinstance(value, memoryview) else value


def dies(harness, spark, place, run_id):
    """A run that is killed at a place, if it gets there; whether it did."""
    file = harness.folder / "orders.yaml"
    status, said = ended_at(place, spark, "run", file, "--run-id", run_id, "--json")
    assert status in (0, 4, -signal.SIGKILL), said
    return status == -signal.SIGKILL


def current(stream):
    """The current table's rows."""
    return DeltaTable(tables_of(stream)["current"]).to_pyarrow_table().to_pylist()
