"""What runs cost, in counters: they gate, seconds only advise."""

from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable

from devstack.ledger_history import closed_run, fabricate
from devstack.spark_apps import NoSpark
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.model.request import RunRequest
from tideline.operations.questions import dry_run
from tideline.pipeline.run_batch import run_batch
from tideline.wiring import open_run


def ledger_commits(stream):
    return len(list(Path(f"{stream.table.uri}.ledger", "_delta_log").glob("*.json")))


def test_a_run_with_nothing_new_costs_little(harness):
    """No Spark, one look at the cluster, four commits to the ledger, and none to the table."""
    harness.create(partitions=3)
    stream = harness.stream(start="latest")
    for run_id in ("first", "idle"):
        before = ledger_commits(stream)
        with open_run(stream, run_id, RunRequest(), NoSpark()) as run:
            assert run_batch(run).status == "nothing_to_do"
            requests = run.kafka.requests  # the first may ask again: its topic is new
    assert requests <= 3 * 1 + 6
    assert ledger_commits(stream) - before <= 4
    assert DeltaTable(stream.table.uri).version() == 0  # the first run has created it (R10)


@pytest.mark.parametrize("partitions", [10, 1000])
def test_planning_asks_as_often_for_a_thousand_partitions_as_for_ten(harness, partitions):
    """Requests go by leaders (R14's look among them), headroom apart."""
    harness.create(partitions=partitions)
    stream = harness.stream()
    with open_run(stream, "plan", RunRequest(), NoSpark()) as run:
        assert len(dry_run(run).proposal.observation.topics[0].partitions) == partitions
        assert run.kafka.requests <= 3 * 1 + 6


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    """Ledgers after 1,000 and after 100,000 closed runs, merged as they are in normal operation."""
    found = {}
    for count in (1_000, 100_000):
        folder = tmp_path_factory.mktemp("ledger") / "l"
        Ledger(DeltaLedgerStore(str(folder)), "s").update(lambda s: s.with_next_token())
        store = DeltaLedgerStore(str(folder))
        for slot in range(count // 1000):
            entries = [closed_run(slot * 1000 + n) for n in range(1000)]
            fabricate(store, f"history:run:{slot:08d}", entries)
        found[count] = str(folder)
    return found


def opened(folder, monkeypatch):
    """Files and bytes that one advance reads, and files that looking a run id up reads as well."""
    store, count = DeltaLedgerStore(folder), Counter()
    read = store._files.read

    def counted(path, *key, **of):
        count.update(files=1, bytes=Path(folder, unquote(path)).stat().st_size)
        return read(path, *key, **of)

    monkeypatch.setattr(store._files, "read", counted)
    ledger = Ledger(store, "s")
    ledger.update(lambda s: s.with_next_token())
    advance = dict(count)
    assert ledger.find_run("run-00000500").status == "nothing_to_do"
    assert ledger.find_run("unheard of") is None
    return advance["files"], advance["bytes"], count["files"]


def test_an_advance_reads_as_much_after_a_long_history(histories, monkeypatch):
    """Closed runs lie apart, merged and found by their keys: nothing grows with them."""
    few, many = (opened(folder, monkeypatch) for folder in histories.values())
    assert few[0] == many[0] == 3  # control, head, and how far versions are ahead
    assert abs(few[1] - many[1]) < 100
    assert few[1] < 10_000
    assert few[2] == many[2] <= 10
