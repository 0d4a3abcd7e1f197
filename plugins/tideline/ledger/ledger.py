"""The ledger: who is the authority on progress. One store, optimistic transactions, leases.

A change is a pure function of the state. It is applied to what was read and written by
compare-and-swap; when somebody else was first, it is applied again to what they left.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tideline.errors import (
    BadInput,
    CommitConflict,
    LedgerElsewhere,
    ServiceAway,
    StreamBusy,
    TidelineError,
)
from tideline.failpoints import reach
from tideline.json_codec import from_json, to_json
from tideline.ledger import leases
from tideline.ledger.history import LedgerHistory
from tideline.ledger.port import HistoryEntry, LedgerStore, Snapshot
from tideline.ledger.state import Control, LedgerState
from tideline.model.head import Head
from tideline.model.ledger_location import RelocationMarker
from tideline.model.run import RunRecord

log = logging.getLogger("tideline")
CONTROL, MARK = "control", "mark"
"""Documents that moving a ledger knows; a mark means that this home is not in charge."""
_HEAD, _RUN = "head", "run:"
_TRIES = 30


class Ledger(LedgerHistory):
    """One stream's ledger on any store.

    Args:
        store: Where the documents are.
        stream: The stream's name.
    """

    def __init__(self, store: LedgerStore, stream: str) -> None:
        super().__init__(store)
        self.stream = stream
        self.holder = uuid.uuid4().hex
        self._rewinds: int | None = None  # as many as there were when a lease was taken
        self._newest = -1

    def read(self) -> LedgerState:
        """The state now; that of an empty ledger where there is none yet."""
        with self._lock:
            return self._decode(self.store.read())

    def find_run(self, run_id: str, state: LedgerState | None = None) -> RunRecord | None:
        """What is known about a run id, open or closed; None if nothing is.

        Args:
            run_id: Airflow's run id, or the command line's.
            state: A state that was just read; None reads it.
        """
        known = (self.read() if state is None else state).runs.get(run_id)
        if known is not None:
            return known
        with self._lock:
            entries = list(self.store.history("run", run_id))
        return from_json(RunRecord, entries[-1].body) if entries else None

    def update(self, change: Callable[[LedgerState], LedgerState]) -> LedgerState:
        """Apply a change by compare-and-swap.

        Closed runs in the new state move to the history, with the head as their closing left it.

        Args:
            change: Pure; called again when another writer was first. What it raises goes through.

        Returns:
            The state that was written, or the one read when the change changes nothing.

        Raises:
            CommitConflict: Too many others were first.
            StreamBusy: The stream was rewound since this ledger's lease was taken.
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
        self._refuse_if_rewound(before)
        after = change(before)
        if after is before:
            return before
        after, history = _with_head_kept(before, after)
        documents = _encode(after)
        put = {k: v for k, v in documents.items() if base.documents.get(k) != v}
        closed = {r.run_id: r for r in after.runs.values() if _closed(r)}
        history += [HistoryEntry("run", key, to_json(r)) for key, r in closed.items()]
        for ended in after.closed_incidents:
            history.append(HistoryEntry("incident", ended.incident_id, to_json(ended)))
        history += [HistoryEntry("instant", i.key, to_json(i)) for i in after.instants]
        history += [HistoryEntry("rewind", r.rewind_id, to_json(r)) for r in after.noted_rewinds]
        drop = set(base.documents) - set(documents)
        self.store.commit(base, put=put, drop=drop, history=history)
        still_open = {k: r for k, r in after.runs.items() if k not in closed}
        return replace(after, runs=still_open, closed_incidents=(), instants=(), noted_rewinds=())

    @contextmanager
    def lease(
        self,
        name: str,
        *,
        rewinding: bool = False,
        before_first: Callable[[LedgerState], None] | None = None,
    ) -> Iterator[None]:
        """Hold a lease for the length of a block, renewed in the background.

        Args:
            name: What to lease.
            rewinding: Whether to rewind the stream, which an unfinished rewind does not forbid.
            before_first: Called before the first write to a new ledger, which may refuse it.

        Raises:
            StreamBusy: Somebody else holds it.
            Halted: A rewind was begun and has to be finished first.
        """

        def take(state: LedgerState) -> LedgerState:
            if state.version < 0 and before_first is not None:
                before_first(state)
            if not rewinding:
                leases.refuse_during_rewind(state, self.holder)
            return leases.take(state, name, self.holder)

        def renew(state: LedgerState) -> LedgerState:
            return leases.renew(state, name, self.holder)

        taken = self.update(take)
        outermost = not rewinding and self._rewinds is None
        if outermost:
            self._rewinds = taken.control.rewinds
        reach(f"lease:{name}")
        try:
            with leases.renewed(name, lambda: self.update(renew)):
                yield
        finally:
            if outermost:
                self._rewinds = None
            try:
                self.update(lambda state: state.without_lease(name, self.holder))
            except LedgerElsewhere:
                pass  # moved by the holder
            except TidelineError as error:  # it runs out by itself; what the block did counts
                log.warning("the %s lease was not given back: %s", name, error)

    def next_token(self, lease: str, above: int) -> LedgerState:
        """Give the holder of a lease a token larger than all before it (R5).

        Args:
            lease: The lease's name.
            above: The largest token that the table knows: an older ledger that was restored would
                give out tokens that the table has seen already.

        Returns:
            The state that was written; its `control.token` is the token.

        Raises:
            StreamBusy: The lease was lost meanwhile.
        """

        def take(state: LedgerState) -> LedgerState:
            leases.refuse_lost(state, lease, self.holder)
            return state.with_next_token(above)

        return self.update(take)

    def refuse_lost(self, lease: str) -> None:
        """Make sure that this ledger's holder still holds a lease, before it alarms anybody.

        Raises:
            StreamBusy: It was lost, and others may have worked meanwhile.
        """
        leases.refuse_lost(self.read(), lease, self.holder)

    def _refuse_if_rewound(self, state: LedgerState) -> None:
        if self._rewinds is not None and state.control.rewinds != self._rewinds:
            raise StreamBusy(
                f"stream {self.stream}: it was rewound since this process took its lease, so what"
                " it knows is out of date; nothing moved, run again",
                stream=self.stream,
            )

    def _decode(self, snapshot: Snapshot) -> LedgerState:
        if snapshot.version < self._newest:
            raise ServiceAway(
                f"ledger {self.store.location} is gone or was put back: this process has seen its"
                f" version {self._newest}, and now it is at {snapshot.version}; nothing is begun"
                " anew in its place; run again when it is there",
                ledger=self.store.location,
            )
        self._newest = snapshot.version
        documents = snapshot.documents
        if MARK in documents:
            mark = from_json(RelocationMarker, documents[MARK])
            raise LedgerElsewhere(mark.refusal(self.store.location))
        if CONTROL not in documents:
            return LedgerState(snapshot.version, Control(uuid.uuid4().hex, self.stream))
        control = from_json(Control, documents[CONTROL])
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


def _with_head_kept(
    before: LedgerState, after: LedgerState
) -> tuple[LedgerState, list[HistoryEntry]]:
    """Runs that close name the head that they leave; it is kept once, however many leave it.

    Headroom is left out: it is a measurement of its time, and would make every head another one.
    """
    closing = [r for k, r in after.runs.items() if _closed(r) and k in before.runs]
    if not closing:
        return after, []
    body = to_json(replace(after.head, headroom=()))
    key = hashlib.sha256(body.encode()).hexdigest()[:32]
    named = {r.run_id: replace(r, head_key=key) for r in closing}
    named_after = replace(after, runs={**after.runs, **named})
    if key == after.control.kept_head:
        return named_after, []
    control = replace(after.control, kept_head=key)
    return replace(named_after, control=control), [HistoryEntry("head", key, body)]


def _closed(record: RunRecord) -> bool:
    return record.status in ("done", "nothing_to_do", "superseded")


def _encode(state: LedgerState) -> dict[str, str]:
    documents = {CONTROL: to_json(state.control), _HEAD: to_json(state.head)}
    for record in state.runs.values():
        if not _closed(record):
            documents[_RUN + record.run_id] = to_json(record)
    return documents
