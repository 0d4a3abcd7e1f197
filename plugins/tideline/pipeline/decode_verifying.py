"""Hold the typed table and the quarantine against the raw rows, and move the decoding's head."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import ServiceAway, VerificationFailed
from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.decoding import DecodeRecord
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.model.verification import LandedRange
from tideline.pipeline.context import RunContext, log, now
from tideline.rules.decoding import closed, reconciled
from tideline.table.port import TablePort


def close_decoding(run: RunContext, record: DecodeRecord) -> DecodeRecord:
    """Verify a plan that is committed, and close it.

    Returns:
        The closed record.

    Raises:
        VerificationFailed: A raw row is in neither table or in both, or one stands twice.
        ServiceAway: A table is gone, or its store is away.
    """
    assert run.typed is not None
    plan = record.plan
    wanted = (*plan.ranges, *plan.removes)
    raw = _landed(run.table, run.stream.table.uri, wanted)
    typed = _landed(run.typed.decoded, plan.table_uri, wanted)
    quarantined = _landed(run.typed.quarantine, plan.quarantine_uri, wanted)
    ranges, wrong = reconciled(plan, raw, typed, quarantined, record.tombstones)
    if wrong:
        raise VerificationFailed(
            f"plan {plan.plan_id} of run {plan.run_id} is not decoded as it should be:"
            f" {'; '.join(wrong)}. Nothing moved; clear decode_rows, or run the same run id again",
            plan_id=plan.plan_id,
            mismatches=list(wrong),
        )
    done = replace(record, status="done", ranges=ranges, closed_at=now())
    reach("decode:closing")
    run.ledger.update_under("decoder", lambda state: _close(state, done))
    reach("decode:closed")
    log.info(
        "decoded %d, quarantined %d, tombstones %d", done.decoded, done.quarantined, done.tombstones
    )
    return done


def _close(state: LedgerState, done: DecodeRecord) -> LedgerState:
    open_now = state.decoding.open
    if open_now is None or open_now.plan != done.plan:
        return state  # by this very call, whose answer was lost, or by another attempt
    resumed = state.with_decoding_resumed(f"run {done.plan.run_id} has decoded", now())
    after = replace(resumed, decoding=closed(resumed.decoding, done))
    return replace(after, closed_decodings=(*after.closed_decodings, done))


def _landed(
    table: TablePort, uri: str, ranges: tuple[CoordinateRange, ...]
) -> dict[PartitionIdentity, LandedRange]:
    version = table.observe().version
    if version is None:
        raise ServiceAway(f"table {uri} is gone: nothing moved, restore it, then run again")
    return table.landed(ranges, version)
