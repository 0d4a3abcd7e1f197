"""The ledger's state as documents, and back."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tideline.documents import dump, load
from tideline.errors import BadInput, LedgerElsewhere, UnreadableDocument
from tideline.ledger.ledger_port import (
    CONTROL,
    DECODING,
    ERASING,
    FOLDING,
    HEAD,
    MARKER,
    RUN_PREFIX,
    DocKind,
    HistoryEntry,
    Snapshot,
)
from tideline.ledger.state import Control, LedgerState
from tideline.model.addresses import RelocationMarker
from tideline.model.current import Folding
from tideline.model.decoding import Decoding
from tideline.model.erasures import Erasing
from tideline.model.head import Head
from tideline.model.run import RunRecord

Value = TypeVar("Value")

DOCUMENTS = (
    DocKind(CONTROL, Control, "tokens, leases, open incidents, a rewind under way"),
    DocKind(HEAD, Head, "next offsets and coverage"),
    DocKind(f"{RUN_PREFIX}<run id>", RunRecord, "one per run that is not closed"),
    DocKind(DECODING, Decoding, "where the stream has typed tables"),
    DocKind(FOLDING, Folding, "where the stream has a current table"),
    DocKind(ERASING, Erasing, "what was erased by key, and stays out"),
    DocKind(MARKER, RelocationMarker, "this location does not hold the ledger"),
)
"""The ledger's state: documents by key, each replaced by compare-and-swap."""
_WHERE_USED: Mapping[str, type[Decoding] | type[Folding] | type[Erasing]] = {
    DECODING: Decoding,
    FOLDING: Folding,
    ERASING: Erasing,
}
"""Those that a stream has once it uses them; each is the state's field of that name."""


def decode_snapshot(snapshot: Snapshot, location: str, stream: str) -> LedgerState:
    """The state that a snapshot's documents hold; that of an empty ledger where there are none.

    Args:
        location: Of the store, for messages.
        stream: Whose ledger it has to be.

    Raises:
        LedgerElsewhere: A relocation marker stands there.
        UnreadableDocument: A document is damaged, missing, or of an unknown kind.
        BadInput: It is another stream's ledger.
    """
    documents = snapshot.documents
    marker = marker_in(snapshot, location)
    if marker is not None:
        raise LedgerElsewhere(marker.refusal(location))
    if not documents:
        return LedgerState(snapshot.version, Control(uuid.uuid4().hex, stream))
    control = document(Control, snapshot, CONTROL, location)
    if control.stream != stream:
        raise BadInput(
            f"ledger {location} belongs to stream {control.stream}, not to {stream}: one stream,"
            " one table, one ledger; give this one others"
        )
    runs = {key for key in documents if key.startswith(RUN_PREFIX)}
    if unknown := sorted(documents.keys() - runs - {CONTROL, HEAD, *_WHERE_USED}):
        # the next write would remove it
        allowed = ", ".join((CONTROL, HEAD, *_WHERE_USED, MARKER))
        raise UnreadableDocument(
            f"ledger {location}: unknown document {unknown[0]!r}; allowed: {allowed},"
            f" {RUN_PREFIX}<run id>. Another version of Tideline wrote it: use that version;"
            " nothing was changed"
        )
    used: dict[str, Any] = {
        name: document(kind, snapshot, name, location)
        for name, kind in _WHERE_USED.items()
        if name in documents
    }
    return LedgerState(
        version=snapshot.version,
        control=control,
        head=document(Head, snapshot, HEAD, location),
        runs={
            key.removeprefix(RUN_PREFIX): document(RunRecord, snapshot, key, location)
            for key in documents
            if key in runs
        },
        **used,
    )


def encode(state: LedgerState) -> dict[str, str]:
    """The documents of a state, by key; closed runs have none."""
    documents = {CONTROL: dump(state.control), HEAD: dump(state.head)}
    for name, kind in _WHERE_USED.items():
        if (used := getattr(state, name)) != kind():
            documents[name] = dump(used)
    for record in state.runs.values():
        if not is_closed(record):
            documents[RUN_PREFIX + record.run_id] = dump(record)
    return documents


def document(kind: type[Value], snapshot: Snapshot, key: str, location: str) -> Value:
    """One document of a snapshot.

    Raises:
        UnreadableDocument: It is damaged or missing.
    """
    if key not in snapshot.documents:
        raise UnreadableDocument(
            f"ledger {location}: document {key} is missing at version {snapshot.version}: restore"
            " the ledger from a copy; nothing was changed"
        )
    return load(kind, snapshot.documents[key], f"ledger {location}: document {key}")


def marker_in(snapshot: Snapshot, location: str) -> RelocationMarker | None:
    """The marker of a location that does not hold its ledger; None where it does."""
    if MARKER not in snapshot.documents:
        return None
    return document(RelocationMarker, snapshot, MARKER, location)


def with_head_kept(
    before: LedgerState, after: LedgerState
) -> tuple[LedgerState, list[HistoryEntry]]:
    """Runs that close name the head that they leave; it is kept once, however many leave it.

    Headroom is left out: it is a measurement of its time, and would make every head another one.
    """
    closing = [r for k, r in after.runs.items() if is_closed(r) and k in before.runs]
    if not closing:
        return after, []
    body = dump(replace(after.head, headroom=()))
    key = hashlib.sha256(body.encode()).hexdigest()[:32]
    named = {r.run_id: replace(r, head_key=key) for r in closing}
    named_after = replace(after, runs={**after.runs, **named})
    if key == after.control.kept_head:
        return named_after, []
    control = replace(after.control, kept_head=key)
    return replace(named_after, control=control), [HistoryEntry("head", key, body)]


def is_closed(record: RunRecord) -> bool:
    """Whether a run's record belongs to the history."""
    return record.status in ("done", "nothing_to_do", "superseded")
