"""Move a ledger to another home, so that after a crash anywhere at most one is in charge.

    copy     the target holds everything and is marked unfinished; the source is in charge
    mark     the source says where its ledger went; nobody is in charge
    finish   the target's mark goes; the target is in charge

Each step is a compare-and-swap, and the command repeated goes on where it ended. The source is
marked from the very version that was copied: whoever wrote meanwhile, even without a lease, makes
the copy begin again. History is append-only in both homes, so what the target holds already has
to be the beginning of the source's, key by key; that is true of a copy that was cut off and of a
home that the ledger once left, and only the rest is appended.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain

from tideline.errors import BadInput, CommitConflict, LedgerElsewhere
from tideline.failpoints import reach
from tideline.json_codec import from_json, to_json
from tideline.ledger import leases
from tideline.ledger.ledger import CONTROL, MARK, Ledger
from tideline.ledger.port import HISTORY_KINDS, HistoryEntry, LedgerStore, Snapshot
from tideline.ledger.state import Control, LedgerState
from tideline.model.ledger_location import LedgerLocation, RelocationMarker

log = logging.getLogger("tideline")
_TRIES = 10
_ENTRIES_PER_COMMIT = 500
_LANES = ("live", "backfill", "writer")


@dataclass(frozen=True, slots=True)
class Move:
    """How a ledger was moved.

    Args:
        source: Where it was; None if it was in the target already.
        target: Where it is.
        is_empty: Whether there was nothing to move.
    """

    source: LedgerLocation | None
    target: LedgerLocation
    is_empty: bool = False


def move_ledger(
    source: LedgerLocation,
    target: LedgerLocation,
    open_store: Callable[[LedgerLocation], LedgerStore],
) -> Move:
    """Bring a ledger from one home to another, or to the end of a move that was cut off.

    Args:
        source: Where the stream file says it is.
        target: Where it should be.
        open_store: Opens the store of a home.

    Raises:
        BadInput: The source was moved elsewhere, or the target holds something else.
        StreamBusy: Somebody is at work on the stream.
        CommitConflict: Somebody wrote again and again.
    """
    arriving = open_store(target)
    if source == target:
        mark = mark_of(arriving.read())
        if mark is None:
            return Move(None, target)
        if mark.state == "moved_to":
            raise LedgerElsewhere(mark.refusal(arriving.location))
        source = mark.other
    handover = _Handover(source, target, open_store(source), arriving)
    before = handover.leaving.read()
    if not handover.is_marked(before):
        if CONTROL not in before.documents:
            return Move(source, target, is_empty=True)
        ledger = Ledger(open_store(source), source.stream)
        with _all_leases(ledger):
            handover.copy_and_mark(ledger.holder)
    handover.finish()
    return Move(source, target)


def mark_of(snapshot: Snapshot) -> RelocationMarker | None:
    """The mark of a home that is not in charge, None where there is none."""
    text = snapshot.documents.get(MARK)
    return None if text is None else from_json(RelocationMarker, text)


@contextmanager
def _all_leases(ledger: Ledger) -> Iterator[None]:
    """Keep every run out, whatever it would do."""
    known = {lease.name for lease in ledger.read().control.leases}
    with ExitStack() as held:
        for name in sorted({*_LANES, *known}):
            held.enter_context(ledger.lease(name))
        yield


@dataclass(frozen=True, slots=True)
class _Handover:
    source: LedgerLocation
    target: LedgerLocation
    leaving: LedgerStore
    arriving: LedgerStore

    def is_marked(self, snapshot: Snapshot) -> bool:
        """Whether the source says that its ledger went to the target.

        Raises:
            LedgerElsewhere: It is elsewhere.
        """
        mark = mark_of(snapshot)
        if mark is None:
            return False
        if mark.state != "moved_to" or mark.other != self.target:
            raise LedgerElsewhere(mark.refusal(self.leaving.location))
        return True

    def copy_and_mark(self, holder: str) -> None:
        """Copy, and mark the source from the version that was copied."""
        for _ in range(_TRIES):
            base = self.leaving.read()
            if self.is_marked(base):
                return
            control = from_json(Control, base.documents[CONTROL])
            # Stopped for long, this process may have lost its leases.
            leases.refuse_others(LedgerState(base.version, control), holder)
            try:
                self._copy(base, control)
                reach("move:copied")
                mark = RelocationMarker("moved_to", control.ledger_id, self.target)
                self.leaving.commit(base, put={MARK: to_json(mark)})
            except CommitConflict as conflict:
                log.info("copying again: %s", conflict)
                last = conflict
            else:
                reach("move:marked")
                return
        raise last

    def _copy(self, base: Snapshot, control: Control) -> None:
        """Make the target an unfinished copy of the source as it is in `base`."""
        there = self.arriving.read()
        _check_is_ours(there, control.ledger_id, self.arriving)
        documents = {
            **base.documents,
            CONTROL: to_json(replace(control, leases=())),
            MARK: to_json(RelocationMarker("unfinished", control.ledger_id, self.source)),
        }
        put = {k: v for k, v in documents.items() if there.documents.get(k) != v}
        self.arriving.commit(there, put=put, drop=set(there.documents) - set(documents))
        reach("move:begun")
        missing = _missing(self.leaving, self.arriving)
        for first in range(0, len(missing), _ENTRIES_PER_COMMIT):
            there = self.arriving.read()
            if there.documents != documents:
                raise CommitConflict(f"{self.arriving.location}: somebody else writes there")
            self.arriving.commit(
                there, put={}, history=missing[first : first + _ENTRIES_PER_COMMIT]
            )

    def finish(self) -> None:
        """Take the target's mark away; the source has its own.

        Raises:
            LedgerElsewhere: The target has given the ledger on, or is the copy of a third home.
        """
        for _ in range(_TRIES):
            there = self.arriving.read()
            mark = mark_of(there)
            if mark is None:
                return
            if mark.state != "unfinished" or mark.other != self.source:
                raise LedgerElsewhere(mark.refusal(self.arriving.location))
            try:
                self.arriving.commit(there, put={}, drop=[MARK])
                return
            except CommitConflict as conflict:
                last = conflict
        raise last


def _check_is_ours(there: Snapshot, ledger_id: str, store: LedgerStore) -> None:
    """Only an empty home or one that this very ledger left or did not quite reach is a target."""
    if not there.documents:
        return
    mark = mark_of(there)
    if mark is None or mark.ledger_id != ledger_id:
        raise BadInput(
            f"ledger {store.location} is not empty, and it holds no earlier copy of this one: give"
            " another address (--at), or remove what is there if nobody needs it",
            ledger=store.location,
        )


def _missing(leaving: LedgerStore, arriving: LedgerStore) -> list[HistoryEntry]:
    """The source's history without its beginning, which the target has.

    Raises:
        BadInput: What the target has is not the beginning of the source's.
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
    return chain.from_iterable(store.history(kind) for kind in HISTORY_KINDS)


def _digest(entry: HistoryEntry) -> bytes:
    return hashlib.sha256(f"{entry.version} {entry.body}".encode()).digest()


def _other_history(store: LedgerStore, kind: str, key: str) -> BadInput:
    return BadInput(
        f"ledger {store.location} knows another {kind} {key} than the ledger that would move there:"
        " it cannot be its earlier copy; give another address (--at)",
        ledger=store.location,
    )
