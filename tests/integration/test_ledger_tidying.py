"""How a ledger in a Delta table keeps its files few, beside others who do the same."""

import multiprocessing
import os
import signal
import threading
import time
from functools import partial

import pytest
from deltalake import DeltaTable

from tideline.errors import CommitConflict
from tideline.ledger import delta_files, delta_store
from tideline.ledger.delta_logs import LedgerLogs
from tideline.ledger.delta_store import DeltaLedgerStore, compact, merge, tidy
from tideline.ledger.ledger_port import HistoryEntry
from tideline.store.store_settings import ROLE

SEGMENT = "history:run:00000000"
CLIENTS = {"own": {}, "delta-rs": {ROLE: "any"}}


@pytest.fixture(params=CLIENTS)
def options(request):
    """Whose client has the log: of a disk, delta-rs asks for no role."""
    return CLIENTS[request.param]


@pytest.fixture
def folder(tmp_path):
    """A ledger with nine closed runs in nine files."""
    folder = str(tmp_path / "ledger")
    write(folder, range(9))
    return folder


def write(folder, numbers):
    """Close runs, one commit each."""
    store = DeltaLedgerStore(folder)
    for number in numbers:
        entries = [HistoryEntry("run", f"{number:03}", "{}")]
        while True:
            try:
                store.commit(store.read(), put={"control": f'"{number}"'}, history=entries)
                break
            except CommitConflict:
                pass


def keys(folder, *wanted):
    return [e.key for e in DeltaLedgerStore(folder).history("run", *wanted)]


def rows(folder):
    """How many records the files hold, however they are read."""
    logs = LedgerLogs(folder, {})
    held = logs.newest().files
    return sum(len(logs.files.read(f.path)) for f in held if f.key.startswith("history:"))


def segments(folder):
    return [f.key for f in LedgerLogs(folder, {}).newest().files if f.key.startswith("hist")]


def small_segments(monkeypatch):
    monkeypatch.setattr(delta_files, "COMMITS_PER_SEGMENT", 2)
    monkeypatch.setattr(delta_files, "SEGMENTS_PER_COMPACTED", 2)


WAYS = {"merge": merge, "compact": compact}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("between", [0, 3])
def test_of_two_that_tidy_at_once_one_does(folder, options, monkeypatch, way, between):
    """From one version, or from two whose files overlap; nobody's run fails for it."""
    if way == "compact":
        small_segments(monkeypatch)
        write(folder, range(9, 18))
    expected = keys(folder)
    first, second = LedgerLogs(folder, options), LedgerLogs(folder, options)
    seen = first.newest()
    write(folder, range(50, 50 + between))
    read, overtaken = second.files.read, []

    def reading(*args, **of):
        if not overtaken:
            overtaken.append(True)
            WAYS[way](first, seen)
        return read(*args, **of)

    monkeypatch.setattr(second.files, "read", reading)
    WAYS[way](second, second.newest())
    assert overtaken
    assert keys(folder) == [*expected, *(f"{n:03}" for n in range(50, 50 + between))]
    assert rows(folder) == len(expected) + between


def test_the_newest_come_first_whatever_was_compacted(folder, monkeypatch):
    """Segment by segment: compacted ones, and what is left beside them."""
    small_segments(monkeypatch)
    write(folder, range(9, 14))
    logs = LedgerLogs(folder, {})
    compact(logs, logs.newest())
    assert any(":v" in key for key in segments(folder))
    write(folder, range(14, 16))
    newest_first = [e.key for e in DeltaLedgerStore(folder).recent("run")]
    assert newest_first == [f"{n:03}" for n in range(16)][::-1]
    read, store = [], DeltaLedgerStore(folder)
    old = store._files.read
    monkeypatch.setattr(store._files, "read", lambda *a, **of: read.append(a) or old(*a, **of))
    assert next(store.recent("run")).key == "015"
    assert len(read) <= 2 < len(segments(folder))


def tidies(folder, options, start, times):
    """What each process of the next test does."""
    logs = LedgerLogs(folder, options)
    start.wait(60)
    for _ in range(times):
        tidy(logs)


def test_processes_that_tidy_at_once_leave_every_record_once(folder, options):
    """They share the store only. Others write and read meanwhile."""
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(3)
    processes = [spawn.Process(target=tidies, args=(folder, options, start, 8)) for _ in range(2)]
    for process in processes:
        process.start()
    start.wait(60)
    for number in range(9, 25):
        write(folder, [number])
        assert keys(folder) == [f"{n:03}" for n in range(number + 1)]
    for process in processes:
        process.join(120)
    assert [p.exitcode for p in processes] == [0, 0]
    assert rows(folder) == 25


def killed_at(folder, options, place):
    os.environ["TIDELINE_FAILPOINT"] = f"{place}:kill"
    tidy(LedgerLogs(folder, options))


@pytest.mark.parametrize("place", ["tidy:written", "tidy:merged"])
def test_a_process_that_dies_while_it_tidies_loses_and_doubles_nothing(folder, options, place):
    """The merge has happened, or it has not; the next one goes on."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=killed_at, args=(folder, options, place))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert (keys(folder), rows(folder)) == ([f"{n:03}" for n in range(9)], 9)
    tidy(LedgerLogs(folder, options))
    assert (keys(folder), segments(folder), rows(folder)) == (
        [f"{n:03}" for n in range(9)],
        [SEGMENT],
        9,
    )


def test_readers_find_everything_while_others_tidy(folder, options):
    """What a reader has begun to read is not deleted under it."""
    logs, stop, failed = LedgerLogs(folder, options), threading.Event(), []

    def watch():
        reader = DeltaLedgerStore(folder, options)
        while not stop.is_set():
            try:
                found = [e.key for e in reader.history("run")]
                assert found == [f"{n:03}" for n in range(len(found))]
                assert len(found) >= 9
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=watch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(9, 19):
        write(folder, [number])
        tidy(logs)
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert rows(folder) == 19


def merged_by_delta_rs(folder, times):
    """What versions of before did: both of two that merge at once commit."""
    tables = [DeltaTable(folder) for _ in range(times)]
    for table in tables:
        table.optimize.compact(partition_filters=[("slot", "=", SEGMENT)])


def test_a_ledger_with_every_record_twice_is_read_right_and_mended(folder):
    """Older versions left such ledgers; a second merge of theirs puts all copies into one file."""
    merged_by_delta_rs(folder, 2)
    assert rows(folder) == 18
    assert keys(folder) == [f"{n:03}" for n in range(9)]
    assert keys(folder, "004") == ["004"]
    merged_by_delta_rs(folder, 1)
    assert (len(segments(folder)), rows(folder)) == (1, 18)
    assert keys(folder) == [f"{n:03}" for n in range(9)]
    logs = LedgerLogs(folder, {})
    tidy(logs)
    assert (segments(folder), rows(folder)) == ([SEGMENT], 9)
    version = DeltaTable(folder).version()
    merge(logs, logs.newest())
    assert DeltaTable(folder).version() == version  # there is nothing left to merge


def test_a_past_segment_with_every_record_twice_is_mended(folder, monkeypatch):
    """However long ago it was."""
    merged_by_delta_rs(folder, 2)
    monkeypatch.setattr(delta_files, "COMMITS_PER_SEGMENT", 5)
    write(folder, range(9, 15))
    assert rows(folder) == 24
    tidy(LedgerLogs(folder, {}))
    assert rows(folder) == 15
    assert keys(folder) == [f"{n:03}" for n in range(15)]


def test_what_is_in_use_is_not_deleted(folder, monkeypatch):
    """Files stay a day after they were taken out; unfinished ones of others are not touched."""
    logs = LedgerLogs(folder, {})
    files = {file.path for file in logs.newest().files}
    unfinished = logs.files.write(SEGMENT, [HistoryEntry("run", "x", "{}", 1)])
    os.utime(f"{folder}/{unfinished.path}", times=(0, 0))
    tidy(logs)
    assert all(os.path.exists(f"{folder}/{path}") for path in files | {unfinished.path})
    yesterday = time.time() - 25 * 3600
    monkeypatch.setattr(delta_files.time, "time", lambda: yesterday)
    write(folder, [9])
    tidy(logs)
    active = {file.path for file in logs.newest().files}
    assert all(os.path.exists(f"{folder}/{path}") for path in active | {unfinished.path})
    assert keys(folder) == [f"{n:03}" for n in range(10)]


def test_a_commit_counts_although_tidying_fails_after_it(folder, monkeypatch):
    """Whether it has committed must not look unknown."""
    monkeypatch.setattr(delta_store, "COMMITS_PER_TIDY", 1)
    monkeypatch.setattr(delta_store, "merge", partial(_fails, OSError("disk")))
    write(folder, [9])
    assert keys(folder)[-1] == "009"


def _fails(error, *_):
    raise error


def test_old_segments_are_compacted(tmp_path, monkeypatch):
    """A history of any length lies in few files; everything is found, in its order."""
    monkeypatch.setattr(delta_files, "COMMITS_PER_SEGMENT", 5)
    monkeypatch.setattr(delta_files, "SEGMENTS_PER_COMPACTED", 4)
    monkeypatch.setattr(delta_store, "COMMITS_PER_TIDY", 10)
    store = DeltaLedgerStore(str(tmp_path / "ledger"))
    for number in range(130):
        entries = [HistoryEntry(kind, f"{number * 7 % 130:03}", "{}") for kind in ("run", "head")]
        store.commit(store.read(), put={"control": "{}"}, history=entries)
    found = segments(str(tmp_path / "ledger"))
    assert sum(key.startswith("history:run:v") for key in found) >= 4
    assert len(found) < 50
    assert [e.key for e in store.history("run")] == [f"{n * 7 % 130:03}" for n in range(130)]
    for key in ("000", "064", "129"):
        assert [e.key for e in store.history("head", key)] == [key]
    assert list(store.history("run", "nobody")) == []
