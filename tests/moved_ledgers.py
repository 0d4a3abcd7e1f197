"""Ledgers that have seen some work, and everything that anybody can ask one."""

from dataclasses import replace
from datetime import UTC, datetime

from tests.unit.build import ID
from tideline.ledger.history import KINDS
from tideline.ledger.ledger import Ledger
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Finding
from tideline.model.offsets import one_interval
from tideline.model.run import RunRecord
from tideline.wiring import open_store


def ledger_in(location, store=None):
    """The ledger at a location; `store` says how an object store is reached."""
    return Ledger(open_store(location, store), location.stream)


def work(location, runs, first=0, store=None):
    """A stream's life: runs closed and closed again, an open run, incidents open and closed."""
    ledger, now = ledger_in(location, store), datetime.now(UTC)
    for number in range(first, first + runs):
        record = RunRecord(f"run-{number}", "live", "done", "digest", now)
        ledger.update(lambda s, r=record: s.with_run(r).with_next_token())
        if number % 3 == 2:
            again = replace(record, run_id=f"run-{number - 1}", superseded_by="later")
            ledger.update(lambda s, r=again: s.with_run(r))
        finding = Finding("retention_loss", "e", "a", "t", "id", number, one_interval(1, 2))
        ledger.update(lambda s, f=finding: s.with_incidents([f], "r", now))
        if number % 2:
            opened = ledger.read().control.incidents[0]
            ledger.update(lambda s, i=opened: s.with_incidents_closed([i.closed("gone", now)]))
    is_open = RunRecord(f"open-{first}", "live", "proposed", "digest", now)
    position = PartitionPosition("t", ID, 0, 0, 100 + first)
    ledger.update(lambda s: replace(s.with_run(is_open), head=Head(positions=(position,))))


def answers(location, store=None):
    """Everything that anybody can ask a ledger, but for the versions of its store."""
    ledger = ledger_in(location, store)
    state = ledger.read()
    entries = [e for kind in KINDS for e in ledger.store.history(kind)]
    return {
        "control": replace(state.control, leases=()),
        "head": state.head,
        "runs": dict(state.runs),
        "closed runs": list(ledger.closed_runs()),
        "closed incidents": list(ledger.closed_incidents()),
        "one run": ledger.find_run("run-1"),
        "closings": ledger.closings(),
        "history": sorted(entries, key=lambda e: (e.kind, e.version, e.key)),
    }
