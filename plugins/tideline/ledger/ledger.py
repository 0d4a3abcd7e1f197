"""The ledger, the authority on progress: one store, optimistic transactions, leases.

A change is a pure function of the state. It is applied to the state that was read, and the result
is written by compare-and-swap. When another writer was first, it is applied again to the new state.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from tideline.errors import CommitConflict, LedgerElsewhere, ServiceAway, TidelineError
from tideline.failpoints import reach
from tideline.ledger import leases
from tideline.ledger.history import LedgerHistory, history_entry
from tideline.ledger.ledger_port import LedgerStore, Snapshot, retry_conflicts
from tideline.ledger.snapshots import decode_snapshot, encode, is_closed, with_head_kept
from tideline.ledger.state import LedgerState
from tideline.model.run import RunRecord
from tideline.waits import waiting

log = logging.getLogger("tideline")
_TRIES = 30


class Ledger(LedgerHistory):
    """One stream's ledger on any store."""

    def __init__(self, store: LedgerStore, stream: str) -> None:
        super().__init__(store)
        self.stream = stream
        self.holder = uuid.uuid4().hex
        self._held: list[str] = []
        self._newest = -1
        self._known: Snapshot | None = None  # what was read or written last
        # The thread that renews a lease must not read an older version than `_newest` in between.
        self._lock = threading.RLock()

    def read(self) -> LedgerState:
        """The state now; that of an empty ledger where there is none yet.

        Raises:
            ServiceAway: The store does not answer, or shows an older version than before.
            BadInput: It is another stream's ledger.
        """
        with self._lock:
            return self._refuse_lost(self._decode(self._read()))

    def read_since(self, known: LedgerState) -> LedgerState:
        """The state now: the very object that is known where nothing has changed since."""
        with self._lock:
            snapshot = self._read()
            return known if snapshot.version == known.version else self._decode(snapshot)

    def find_run(self, run_id: str, state: LedgerState | None = None) -> RunRecord | None:
        """What is known about a run id, open or closed; None if nothing is.

        Args:
            state: One that was just read; None reads it.
        """
        state = self.read() if state is None else state
        known = state.runs.get(run_id)
        if known is not None:
            return known
        read = self._known
        at = read if read is not None and read.version == state.version else None
        return self._last(RunRecord, "run", run_id, at)

    def update(self, change: Callable[[LedgerState], LedgerState]) -> LedgerState:
        """Apply a change by compare-and-swap, under every lease that the holder works under (R5).

        Closed runs in the new state move to the history, with the head as their closing left it.
        Documents of an older format are written in the present one; the history stays as it is.

        Args:
            change: Pure; called again when another writer was first. Its errors pass through.

        Returns:
            The state that was written, or the one read when the change changes nothing.
        """
        return self._swap(lambda state: change(self._refuse_lost(state)))

    def _swap(self, change: Callable[[LedgerState], LedgerState]) -> LedgerState:
        def attempt() -> LedgerState:
            with self._lock:
                return self._try_update(change)

        return retry_conflicts(attempt, _TRIES)

    def _read(self) -> Snapshot:
        with waiting(f"the ledger {self.store.location}"):
            self._known = self.store.read()
        return self._known

    def _try_update(self, change: Callable[[LedgerState], LedgerState]) -> LedgerState:
        """Change what is known; where that comes to nothing, what stands.

        Whoever was first in between is met by the swap itself. But that a change is refused, or not
        needed, counts only of what was just read.
        """
        known, self._known = self._known, None
        if known is not None and known.version >= 0:
            before = after = self._decode(known)
            with suppress(TidelineError):
                after = change(before)
            if after is not before:
                with suppress(CommitConflict):
                    return self._written(known, before, after)
        base = self._read()
        before = self._decode(base)
        after = change(before)
        return before if after is before else self._written(base, before, after)

    def _written(self, base: Snapshot, before: LedgerState, after: LedgerState) -> LedgerState:
        after, history = with_head_kept(before, after)
        documents = encode(after)
        # only what changed: the head of ten thousand partitions is large
        put = {k: v for k, v in documents.items() if base.documents.get(k) != v}
        closed = {r.run_id: r for r in after.runs.values() if is_closed(r)}
        history += map(history_entry, (*closed.values(), *after.noted))
        drop = set(base.documents) - set(documents)
        self._known = None  # also where its answer is lost
        self._known = self.store.commit(base, put=put, drop=drop, history=history)
        still_open = {k: r for k, r in after.runs.items() if k not in closed}
        return replace(after, runs=still_open, noted=())

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
            rewinding: Whether to rewind the stream, which an unfinished rewind does not forbid.
            before_first: Called before the first write to a new ledger, which may refuse it.

        Raises:
            Halted: A rewind was begun and has to be finished first.
        """

        def take(state: LedgerState) -> LedgerState:
            if state.version < 0 and before_first is not None:
                before_first(state)
            if not rewinding:
                leases.refuse_during_rewind(state, self.holder)
            return leases.take(state, name, self.holder)

        self.update(take)
        self._held.append(name)
        reach(f"lease:{name}")
        try:
            with leases.renewed(
                name, lambda: self.update(lambda s: leases.extend(s, name, self.holder))
            ):
                yield
        finally:
            self._held.remove(name)
            try:  # also where another lease was lost: nobody has to wait for this one
                self._swap(lambda state: state.without_lease(name, self.holder))
            except LedgerElsewhere:
                pass  # the holder has moved the ledger
            except TidelineError as error:  # the lease expires; the block's own outcome counts
                log.warning("the %s lease was not given back: %s", name, error)

    def refuse_lost(self) -> None:
        """Make sure that the holder has all of its leases, before it acts outside of the ledger."""
        self.read()

    def _refuse_lost(self, state: LedgerState) -> LedgerState:
        for name in self._held:
            leases.refuse_lost(state, name, self.holder)
        return state

    def _decode(self, snapshot: Snapshot) -> LedgerState:
        if snapshot.version < self._newest:
            raise ServiceAway(
                f"ledger {self.store.location} is gone or was put back: this process has seen"
                f" version {self._newest}, and now it is at {snapshot.version}; no new ledger is"
                " begun in its place; run again when it is back",
                ledger=self.store.location,
            )
        self._newest = snapshot.version
        return decode_snapshot(snapshot, self.store.location, self.stream)
