"""Writers that race in an object store: each commit counts, and no other is overwritten."""

import multiprocessing
import re
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from tests.worlds.build import ID
from tests.worlds.object_stores import left_in
from tests.worlds.tables import Rows, StoreWorld, change
from tideline.delta.delta_log import CommitTaken, DeltaLog
from tideline.landing.table_commit import Watch, commit_checked
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.model.offsets import CoordinateRange
from tideline.table.delta_table import TargetTable

pytestmark = pytest.mark.slow
COMMITS = 200
"""Of all writers together: with more of them, each is beaten more often."""
SECONDS = 400


def swap(open_store, rounds, start, tries):
    """Increase the token; a conflict makes the ledger read again."""
    ledger = Ledger(open_store(), "s")

    def next_token(state):
        count(tries)
        return state.with_next_token()

    for _ in range(rounds):
        start.wait(SECONDS)
        ledger.update(next_token)


def land(open_table, work, start, tries):
    """Commit one attempt after the other, each in a round of its own."""
    table = open_table()

    def look():
        count(tries)
        return table.observe(), ()

    watch = Watch(look, lambda _: None)
    for doing, files in work:
        start.wait(SECONDS)
        before = table.observe().version
        commit_checked(table, doing, files, after_version=before, watch=watch)


def count(tries):
    with tries.get_lock():
        tries.value += 1


def race(write, opened, parts):
    """A process for each part of the work, with rounds that all begin at once; all their tries."""
    spawn = multiprocessing.get_context("spawn")
    start, tries = spawn.Barrier(len(parts)), spawn.Value("i")
    processes = [spawn.Process(target=write, args=(opened, p, start, tries)) for p in parts]
    for process in processes:
        process.start()
    for process in processes:
        process.join(SECONDS)
    assert [p.exitcode for p in processes] == [0] * len(parts)
    print(f"{len(parts)} writers: {COMMITS} commits in {tries.value} tries")
    return tries.value


def versions(bucket, table):
    """The versions in a table's log."""
    commits = (re.search(r"/(\d{20})\.json$", key) for key in left_in(bucket, table))
    return sorted(int(commit[1]) for commit in commits if commit)


@pytest.mark.parametrize("writers", [2, 4])
def test_no_swap_of_the_ledger_is_lost(any_bucket, writers):
    """Each round has one winner, and the others look again."""
    store = partial(DeltaLedgerStore, any_bucket.uri("ledger"), any_bucket.store.options())
    Ledger(store(), "s").update(lambda s: s.with_next_token())
    tries = race(swap, store, [COMMITS // writers] * writers)
    assert Ledger(store(), "s").read().control.token == 1 + COMMITS
    assert versions(any_bucket, "ledger") == [*range(2 + COMMITS)]
    assert tries > COMMITS  # otherwise nobody was beaten, and nothing is shown


@pytest.mark.parametrize("writers", [2, 4])
def test_no_commit_of_the_table_is_overwritten(any_bucket, writers):
    """The rows of every writer and round are there, once."""
    world = StoreWorld(any_bucket)
    work = [[] for _ in range(writers)]
    for number in range(COMMITS):
        at = CoordinateRange("orders", ID, 0, 0, number, number + 1)
        # A ledger for each writer: one ledger's tokens would fence the others.
        doing = change(at, commit_id=f"p{number}", token=number + 1)
        doing = replace(doing, ledger_id=f"l{number % writers}")
        work[number % writers].append((doing, world.write(doing, Rows(at)).files))
    table = partial(TargetTable, any_bucket.uri(), any_bucket.store.options())
    tries = race(land, table, work)
    assert [row[3] for row in world.rows()] == [*range(COMMITS)]
    assert table().observe().version == COMMITS
    assert versions(any_bucket, "orders") == [*range(1 + COMMITS)]
    assert tries > COMMITS  # otherwise nobody was beaten, and nothing is shown


WRITERS, EACH = 8, 10


def add(path):
    return AddAction(path, 1, {}, int(time.time() * 1000), True, "{}")


def by_our_client(place, name, start, tries):
    """Look, put, and look again where somebody was first."""
    log = DeltaLog(*place)
    for number in range(EACH):
        start.wait(SECONDS)
        is_done = False
        while not is_done:
            count(tries)
            about = {"txn": {"appId": name, "version": number, "lastUpdated": 0}}
            with suppress(CommitTaken):
                log.commit(log.newest(), [add(f"{name}-{number}.parquet")], about)
                is_done = True


def by_delta_rs(place, name, start, tries):
    """The same with its own client, which is told to try once."""
    uri, options = place
    once = CommitProperties(max_commit_retries=0)
    for number in range(EACH):
        start.wait(SECONDS)
        is_done = False
        while not is_done:
            count(tries)
            table = DeltaTable(uri, storage_options=options)
            files = [add(f"{name}-{number}.parquet")]
            with suppress(CommitFailedError):
                table.create_write_transaction(
                    files, "append", table.schema(), [], commit_properties=once
                )
                is_done = True


@pytest.mark.parametrize("server", ["folder", "object_store", "gateway", "azurite", "fake_gcs"])
def test_our_client_and_delta_rs_race_for_one_log(request, tmp_path, server):
    """Half of the writers each: every file is there, once, and no version is missing."""
    place = (str(tmp_path / "t"), {})
    if server != "folder":
        bucket = request.getfixturevalue(server).bucket(f"races-{server}")
        place = (bucket.uri("t"), bucket.store.options())
    uri, options = place
    schema = Schema([Field("n", PrimitiveType("long"))])
    DeltaTable.create(uri, schema, storage_options=options)
    spawn = multiprocessing.get_context("spawn")
    start, tries = spawn.Barrier(WRITERS), spawn.Value("i")
    clients = [by_our_client, by_delta_rs] * (WRITERS // 2)
    processes = [
        spawn.Process(target=client, args=(place, f"w{n}", start, tries))
        for n, client in enumerate(clients)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(SECONDS)
    assert [p.exitcode for p in processes] == [0] * WRITERS
    print(f"{server}: {WRITERS * EACH} commits in {tries.value} tries")
    every = {f"w{n}-{number}.parquet" for n in range(WRITERS) for number in range(EACH)}
    table = DeltaTable(uri, storage_options=options)
    found = pa.table(table.get_add_actions()).column("path").to_pylist()
    assert (len(found), {*found}) == (len(every), every)
    assert table.version() == len(every)
    assert DeltaLog(*place).newest().adds.keys() == every
    assert tries.value > len(every)  # otherwise nobody was beaten, and nothing is shown
