"""Writers that race in an object store: each commit counts, and no other is overwritten."""

import multiprocessing
from dataclasses import replace
from functools import partial

import pytest

from tests.store_worlds import StoreWorld
from tests.table_worlds import Rows, change
from tests.unit.build import ID
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.model.offsets import CoordinateRange
from tideline.pipeline.commit_loop import Target, commit_checked
from tideline.table.delta_table import TargetTable

pytestmark = pytest.mark.slow
ROUNDS = 100


def swap(open_store, start, rounds):
    """Increase the token; a conflict makes the ledger read again."""
    ledger = Ledger(open_store(), "s")
    for _ in range(rounds):
        start.wait()
        ledger.update(lambda s: s.with_next_token())


def land(open_table, start, work):
    """Commit one attempt after the other, each in a round of its own."""
    table = open_table()
    target = Target(table, table.uri, lambda: (table.observe(), ()), lambda _: None)
    for doing, files in work:
        start.wait()
        commit_checked(target, doing, files, lambda _, d=doing: d, 0)


def race(writers, target, arguments):
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(writers)
    processes = [spawn.Process(target=target, args=(a[0], start, a[1])) for a in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join(400)
    assert [p.exitcode for p in processes] == [0] * writers


@pytest.mark.parametrize("writers", [2, 4])
def test_no_swap_of_the_ledger_is_lost(any_bucket, writers):
    """Each round has one winner, and the others look again."""
    store = partial(DeltaLedgerStore, any_bucket.uri("ledger"), any_bucket.store.options())
    Ledger(store(), "s").update(lambda s: s.with_next_token())
    race(writers, swap, [(store, ROUNDS)] * writers)
    assert Ledger(store(), "s").read().control.token == 1 + writers * ROUNDS


@pytest.mark.parametrize("writers", [2, 4])
def test_no_commit_of_the_table_is_overwritten(any_bucket, writers):
    """The rows of every writer and round are there, once."""
    world = StoreWorld(any_bucket)
    work = [[] for _ in range(writers)]
    for number in range(writers * ROUNDS):
        at = CoordinateRange("orders", ID, 0, 0, number, number + 1)
        # A ledger for each writer: one ledger's tokens would fence the others.
        doing = change(at, commit_id=f"p{number}", token=number + 1)
        doing = replace(doing, ledger_id=f"l{number % writers}")
        work[number % writers].append((doing, world.write(doing, Rows(at)).files))
    table = partial(TargetTable, any_bucket.uri(), any_bucket.store.options())
    race(writers, land, [(table, w) for w in work])
    assert [row[3] for row in world.rows()] == [*range(writers * ROUNDS)]
    assert table().observe().version == writers * ROUNDS
