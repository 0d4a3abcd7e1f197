"""The ledger: who is the authority on progress. One store, optimistic transactions, leases.

A change is a pure function of the state. It is applied to what was read and written by
compare-and-swap; when somebody else was first, it is applied again to what they left.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tideline.core.head import Head
from tideline.core.incident import Incident
from tideline.core.ledger_state import Control, Lease, LedgerState
from tideline.core.result import RunRecord
from tideline.core.window import Instant
from tideline.errors import BadInput, CommitConflict, StreamBusy, TidelineError
from tideline.host import process_identity
from tideline.json_codec import from_json, to_json
from tideline.ports import HistoryEntry, LedgerStore, Snapshot

log = logging.getLogger("tideline")
_CONTROL, _HEAD, _RUN = "control", "head", "run:"
_TRIES = 30


def lease_seconds() -> float:
    """How long a silent holder keeps a lease (`TIDELINE_LEASE_SECONDS`, 60 s)."""
    return float(os.environ.get("TIDELINE_LEASE_SECONDS", "60"))


class Ledger:
    """One stream's ledger on any store.

    Args:
        store: Where the documents are.
        stream: The stream's name.
    """

    def __init__(self, store: LedgerStore, stream: str) -> None:
        self.store = store
        self.stream = stream
        self.holder = uuid.uuid4().hex
        self._lock = threading.RLock()  # the lease's keeper shares the store

    def read(self) -> LedgerState:
        """The state now; that of an empty ledger where there is none yet."""
        with self._lock:
            return self._decode(self.store.read())

    def find_run(self, run_id: str) -> RunRecord | None:
        """What is known about a run id, open or closed; None if nothing is."""
        known = self.read().runs.get(run_id)
        if known is not None:
            return known
        with self._lock:
            entries = list(self.store.history("run", run_id))
        return from_json(RunRecord, entries[-1].body) if entries else None

    def closed_runs(self) -> Iterator[RunRecord]:
        """Every closed run in the order of closing; reads the whole history."""
        newest = {e.key: e for e in self.store.history("run")}
        for entry in sorted(newest.values(), key=lambda e: e.version):
            yield from_json(RunRecord, entry.body)

    def closed_incidents(self) -> Iterator[Incident]:
        """Every closed incident in the order of closing; reads the whole history."""
        newest = {e.key: e for e in self.store.history("incident")}
        for entry in sorted(newest.values(), key=lambda e: e.version):
            yield from_json(Incident, entry.body)

    def instants(self) -> dict[str, Instant]:
        """What times mean in offsets, as far as they have been resolved (R11), by their keys."""
        with self._lock:
            newest = {e.key: e.body for e in self.store.history("instant")}
        return {key: from_json(Instant, body) for key, body in newest.items()}

    def update(self, change: Callable[[LedgerState], LedgerState]) -> LedgerState:
        """Apply a change by compare-and-swap.

        Closed runs in the new state move to the history.

        Args:
            change: Pure; called again when another writer was first. What it raises goes through.

        Returns:
            The state that was written, or the one read when the change changes nothing.

        Raises:
            CommitConflict: Too many others were first.
        """
        for attempt in range(_TRIES):
            try:
                with self._lock:
                    return self._try_update(change)
            except CommitConflict as conflict:
                last = conflict
                time.sleep(random.uniform(0.01, 0.05) * (attempt + 1))
        raise last

    def _try_update(self, change: Callable[[LedgerState], LedgerState]) -> LedgerState:
        base = self.store.read()
        before = self._decode(base)
        after = change(before)
        if after is before:
            return before
        documents = _encode(after)
        put = {k: v for k, v in documents.items() if base.documents.get(k) != v}
        closed = {r.run_id: r for r in after.runs.values() if _closed(r)}
        history = [HistoryEntry("run", key, to_json(r)) for key, r in closed.items()]
        for ended in after.closed_incidents:
            history.append(HistoryEntry("incident", ended.incident_id, to_json(ended)))
        history += [HistoryEntry("instant", i.key, to_json(i)) for i in after.instants]
        drop = set(base.documents) - set(documents)
        self.store.commit(base, put=put, drop=drop, history=history)
        still_open = {k: r for k, r in after.runs.items() if k not in closed}
        return replace(after, runs=still_open, closed_incidents=(), instants=())

    @contextmanager
    def lease(self, name: str) -> Iterator[None]:
        """Hold a lease for the length of a block, renewed in the background.

        Raises:
            StreamBusy: Somebody else holds it.
        """
        self.update(lambda state: self._take(state, name))
        stop = threading.Event()

        def keep() -> None:
            while not stop.wait(lease_seconds() / 3):
                try:
                    self.update(lambda state: self._take(state, name))
                except Exception as error:
                    log.warning("the %s lease was not renewed: %s", name, error)

        keeper = threading.Thread(target=keep, name=f"lease-{name}", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            stop.set()
            keeper.join()
            try:
                self.update(lambda state: state.without_lease(name, self.holder))
            except TidelineError as error:  # it runs out by itself; what the block did counts
                log.warning("the %s lease was not given back: %s", name, error)

    def _take(self, state: LedgerState, name: str) -> LedgerState:
        now = datetime.now(UTC)
        held = next((lease for lease in state.control.leases if lease.name == name), None)
        if (
            held is not None
            and held.holder != self.holder
            and held.expires_at > now
            and not _is_gone(held)
        ):
            raise StreamBusy(
                f"stream {self.stream}: the {name} lease is held by process {held.pid} on"
                f" {held.host} until {held.expires_at:%H:%M:%S} UTC; try again later",
                stream=self.stream,
                lease=name,
            )
        return state.with_lease(
            Lease(
                name=name,
                holder=self.holder,
                host=socket.gethostname(),
                pid=os.getpid(),
                process_started=process_identity(os.getpid()),
                expires_at=now + timedelta(seconds=lease_seconds()),
            )
        )

    def _decode(self, snapshot: Snapshot) -> LedgerState:
        documents = snapshot.documents
        if _CONTROL not in documents:
            return LedgerState(snapshot.version, Control(uuid.uuid4().hex, self.stream))
        control = from_json(Control, documents[_CONTROL])
        if control.stream != self.stream:
            raise BadInput(
                f"ledger {self.store.location} belongs to stream {control.stream}, not to"
                f" {self.stream}: one stream, one table, one ledger; give this one others"
            )
        return LedgerState(
            version=snapshot.version,
            control=control,
            head=from_json(Head, documents[_HEAD]),
            runs={
                slot.removeprefix(_RUN): from_json(RunRecord, body)
                for slot, body in documents.items()
                if slot.startswith(_RUN)
            },
        )


def _closed(record: RunRecord) -> bool:
    return record.status in ("done", "nothing_to_do", "superseded")


def _encode(state: LedgerState) -> dict[str, str]:
    documents = {_CONTROL: to_json(state.control), _HEAD: to_json(state.head)}
    for record in state.runs.values():
        if not _closed(record):
            documents[_RUN + record.run_id] = to_json(record)
    return documents


def _is_gone(lease: Lease) -> bool:
    """Whether the holder ran on this host and has ended; elsewhere only expiry tells."""
    if lease.host != socket.gethostname() or not lease.process_started:
        return False
    return process_identity(lease.pid) != lease.process_started
