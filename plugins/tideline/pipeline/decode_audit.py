"""Read the typed table and the quarantine for an audit."""

from __future__ import annotations

from tideline.errors import StreamBusy
from tideline.model.offsets import CoordinateRange
from tideline.pipeline.context import RunContext
from tideline.rules.decoding_audit import TypedAudit, audit_typed
from tideline.rules.retention import still_let_go

_TRIES = 5


def typed_against_raw(run: RunContext) -> TypedAudit | None:
    """Every decoded coordinate against all three tables; None without typed tables.

    Raises:
        StreamBusy: Decodings closed faster than the tables could be read.
        ServiceAway: A store is away.
    """
    if run.typed is None or run.stream.decode is None:
        return None
    for _ in range(_TRIES):
        state, version = run.ledger.read(), run.table.observe().version
        decoding = state.decoding
        ranges = [
            CoordinateRange(
                i.topic_id, i.topic_id, i.generation, i.partition, r.start_offset, r.end_offset
            )
            for i, intervals in decoding.covered.items()
            for r in intervals
        ]
        found = audit_typed(
            decoding.covered,
            decoding.open.plan.ranges if decoding.open is not None else (),
            state.head.covered,
            {} if version is None else run.table.landed(ranges, version),
            run.typed.decoded.stored(),
            run.typed.quarantine.stored(),
            dropped_tombstones=(
                run.table.valueless(ranges, version)
                if run.stream.decode.tombstones == "drop" and version is not None
                else None
            ),
            let_go=still_let_go(run.ledger.let_go()),
        )
        after = run.ledger.read()
        if (after.decoding, after.head.coverage) == (decoding, state.head.coverage):
            return found
    raise StreamBusy("decodings close faster than the tables can be read; audit again")
