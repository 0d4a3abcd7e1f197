"""Move a ledger to another location; after a crash anywhere, at most one location is in charge.

    copy     the target holds everything and a marker "unfinished"; the source is in charge
    mark     the source holds a marker "moved_to"; nobody is in charge
    finish   the target's marker is removed; the target is in charge

Each step is a compare-and-swap, and the same command continues an interrupted move. The source is
marked at the version that was copied: a write in between, even one without a lease, makes the copy
begin again. History is append-only in both locations, so the target's part has to be the beginning
of the source's, key by key. That holds for an interrupted copy and for a location that the ledger
has left before; only the rest is appended.

Documents and entries are copied as they are, whatever their format. Newer formats than this
version's are refused in both locations before anything is written.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain

from tideline.documents import dump, refuse_newer
from tideline.errors import BadInput, CommitConflict, LedgerElsewhere
from tideline.failpoints import reach
from tideline.ledger import leases
from tideline.ledger.history import KINDS
from tideline.ledger.ledger import Ledger
from tideline.ledger.ledger_port import (
    CONTROL,
    MARKER,
    HistoryEntry,
    LedgerStore,
    Snapshot,
    retry_conflicts,
)
from tideline.ledger.snapshots import document, marker_in
from tideline.ledger.state import Control, LedgerState
from tideline.model.addresses import LedgerLocation, RelocationMarker

log = logging.getLogger("tideline")
_TRIES = 10
_ENTRIES_PER_COMMIT = 500  # of a long history: what is copied when a move dies stays copied
_LEASES = ("live", "backfill", "writer", "decoder")


@dataclass(frozen=True, slots=True)
class Move:
    """How a ledger was moved.

    Args:
        source: Where it was; None if it was in the target already.
        is_empty: Whether there was nothing to move.
    """

    source: LedgerLocation | None
    target: LedgerLocation
    is_empty: bool = False


def move_ledger(
    source: LedgerLocation,
    target: LedgerLocation,
    open_store: Callable[[LedgerLocation], LedgerStore],
    by: str | None = None,
) -> Move:
    """Move a ledger from one location to another, or finish an interrupted move.

    Args:
        source: Where the stream file says it is.
        target: Where it should be.
        open_store: Opens the store at a location.
        by: Who moves it; both locations record it, the one that is left for good.

    Raises:
        LedgerElsewhere: The source was moved elsewhere, or the target is another location's copy.
        StreamBusy: Somebody is at work on the stream.
    """
    arriving = open_store(target)
    if source == target:
        marker = marker_in(arriving.read(), arriving.location)
        if marker is None:
            return Move(None, target)
        if marker.state == "moved_to":
            raise LedgerElsewhere(marker.refusal(arriving.location))
        source = marker.other
    handover = _Handover(source, target, open_store(source), arriving, by)
    before = handover.leaving.read()
    if not handover.is_marked(before):
        if CONTROL not in before.documents:
            return Move(source, target, is_empty=True)
        for store in (handover.leaving, arriving):
            _refuse_newer_formats(store, store.read(), history=True)
        ledger = Ledger(open_store(source), source.stream)
        with _all_leases(ledger):
            handover.copy_and_mark(ledger.holder)
    handover.finish()
    return Move(source, target)


@contextmanager
def _all_leases(ledger: Ledger) -> Iterator[None]:
    """Keep out every run, whatever its lane, and whoever decodes."""
    known = {lease.name for lease in ledger.read().control.leases}
    with ExitStack() as held:
        for name in sorted({*_LEASES, *known}):
            held.enter_context(ledger.lease(name))
        yield


@dataclass(frozen=True, slots=True)
class _Handover:
    source: LedgerLocation
    target: LedgerLocation
    leaving: LedgerStore
    arriving: LedgerStore
    by: str | None

    def is_marked(self, snapshot: Snapshot) -> bool:
        """Whether the source's marker names the target.

        Raises:
            LedgerElsewhere: It names another location.
        """
        marker = marker_in(snapshot, self.leaving.location)
        if marker is None:
            return False
        if marker.state != "moved_to" or marker.other != self.target:
            raise LedgerElsewhere(marker.refusal(self.leaving.location))
        return True

    def copy_and_mark(self, holder: str) -> None:
        """Copy, and mark the source at the version that was copied."""

        def attempt() -> None:
            base = self.leaving.read()
            if self.is_marked(base):
                return
            control = document(Control, base, CONTROL, self.leaving.location)
            # a process that was stopped for long may have lost its leases
            leases.refuse_held(LedgerState(base.version, control), holder)
            try:
                self._copy(base, control)
                reach("move:copied")
                marker = RelocationMarker("moved_to", control.ledger_id, self.target, self.by)
                self.leaving.commit(base, put={MARKER: dump(marker)})
            except CommitConflict as conflict:
                log.info("copying again: %s", conflict)
                raise
            reach("move:marked")

        retry_conflicts(attempt, _TRIES)

    def _copy(self, base: Snapshot, control: Control) -> None:
        """Make the target an unfinished copy of the source as it is in `base`."""
        there = self.arriving.read()
        _check_is_ours(there, control.ledger_id, self.arriving)
        documents = {
            **base.documents,
            CONTROL: dump(replace(control, leases=())),
            MARKER: dump(RelocationMarker("unfinished", control.ledger_id, self.source, self.by)),
        }
        put = {k: v for k, v in documents.items() if there.documents.get(k) != v}
        self.arriving.commit(there, put=put, drop=set(there.documents) - set(documents))
        reach("move:begun")
        missing = _missing_entries(self.leaving, self.arriving)
        for first in range(0, len(missing), _ENTRIES_PER_COMMIT):
            there = self.arriving.read()
            if there.documents != documents:
                raise CommitConflict(f"{self.arriving.location}: somebody else writes there")
            self.arriving.commit(
                there, put={}, history=missing[first : first + _ENTRIES_PER_COMMIT]
            )

    def finish(self) -> None:
        """Remove the target's marker; the source has its own.

        Raises:
            LedgerElsewhere: The ledger has left the target again, or the target is the copy of a
                third location.
        """

        def attempt() -> None:
            there = self.arriving.read()
            marker = marker_in(there, self.arriving.location)
            if marker is None:
                return
            if marker.state != "unfinished" or marker.other != self.source:
                raise LedgerElsewhere(marker.refusal(self.arriving.location))
            _refuse_newer_formats(self.arriving, there)
            self.arriving.commit(there, put={}, drop=[MARKER])

        retry_conflicts(attempt, _TRIES)


def _check_is_ours(there: Snapshot, ledger_id: str, store: LedgerStore) -> None:
    """Allow an empty target, or one with this ledger's own marker.

    Raises:
        BadInput: The target holds anything else.
    """
    if not there.documents:
        return
    marker = marker_in(there, store.location)
    if marker is None or marker.ledger_id != ledger_id:
        raise BadInput(
            f"ledger {store.location} is not empty, and holds no earlier copy of this ledger: give"
            " another address (--at), or remove that ledger if nobody needs it",
            ledger=store.location,
        )


def _refuse_newer_formats(store: LedgerStore, snapshot: Snapshot, *, history: bool = False) -> None:
    """Make sure that this version reads every format in a store.

    Args:
        history: Whether to check the whole history as well, which reads it once more.
    """
    for key, body in snapshot.documents.items():
        refuse_newer(body, f"ledger {store.location}: document {key}")
    for entry in _whole_history(store) if history else ():
        where = f"{entry.kind} {entry.key} in the history, written by version {entry.version}"
        refuse_newer(entry.body, f"ledger {store.location}: {where}")


def _missing_entries(leaving: LedgerStore, arriving: LedgerStore) -> list[HistoryEntry]:
    """The entries of the source's history that the target does not have yet.

    Raises:
        BadInput: The target's history is not the beginning of the source's.
    """
    there: dict[tuple[str, str], deque[bytes]] = defaultdict(deque)
    for entry in _whole_history(arriving):
        there[entry.kind, entry.key].append(_digest(entry))
    missing = []
    for entry in _whole_history(leaving):
        known = there[entry.kind, entry.key]
        if not known:
            missing.append(entry)
        elif known.popleft() != _digest(entry):
            raise _other_history(arriving, entry.kind, entry.key)
    for (kind, key), unknown in there.items():
        if unknown:
            raise _other_history(arriving, kind, key)
    return missing


def _whole_history(store: LedgerStore) -> Iterator[HistoryEntry]:
    return chain.from_iterable(store.history(kind) for kind in KINDS)


def _digest(entry: HistoryEntry) -> bytes:
    return hashlib.sha256(f"{entry.version} {entry.body}".encode()).digest()


def _other_history(store: LedgerStore, kind: str, key: str) -> BadInput:
    return BadInput(
        f"ledger {store.location}: history differs at {kind} {key}: the target is not an earlier"
        " copy of this ledger; give another address (--at)",
        ledger=store.location,
    )
