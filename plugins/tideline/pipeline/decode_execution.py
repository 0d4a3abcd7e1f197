"""Execute a plan to decode: have Spark decode it, freeze it, and commit its rows."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import BadInput
from tideline.failpoints import reach
from tideline.launch.job import DecodeResult
from tideline.ledger.state import LedgerState
from tideline.model.decoding import DecodePlan, DecodeRecord
from tideline.model.incident import Finding
from tideline.pipeline.context import RunContext
from tideline.pipeline.decode_attempt import TypedAttempt, begin_typed_attempt, put_in_place, submit
from tideline.pipeline.decode_columns import refuse_missing_fields
from tideline.pipeline.decode_halting import goes_to_quarantine, halted
from tideline.pipeline.decode_schemas import parts_with
from tideline.rules.decoding import share_of_quarantine

_ROUNDS = 5
"""How many times the registry is asked about ids that records bring, a thousand at a time: each
round is a pass over the records. Whoever sends more made-up ids halts nobody: the rest is unknown.
"""


def execute(run: RunContext, plan: DecodePlan) -> DecodeRecord:
    """Decode a plan, freeze it if it is not frozen, and commit its rows.

    Raises:
        DecodingHalted: A schema does not fit, or too many records cannot be decoded.
        ServiceAway: Registry, Spark or a store is away.
    """
    attempt, result = decode(run, plan)
    _refuse_burying(run, attempt, result)
    return commit(run, attempt, result)


def commit(run: RunContext, attempt: TypedAttempt, result: DecodeResult) -> DecodeRecord:
    """Freeze an attempt's plan, and put its rows in place.

    Returns:
        The open record, still to be verified.
    """
    classes = tuple(sorted(result.classes.items()))
    frozen = DecodeRecord(attempt.plan, tombstones=result.tombstones, classes=classes)
    reach("decode:freezing")
    run.ledger.update_under("decoder", lambda state: _with_open(state, frozen))
    reach("decode:frozen")
    made = put_in_place(run, attempt, result, frozen)
    run.ledger.update_under("decoder", lambda state: _with_open(state, made))
    reach("decode:noted")
    return made


def decode(run: RunContext, plan: DecodePlan) -> tuple[TypedAttempt, DecodeResult]:
    """Have Spark decode, once more for as long as records bring schemas that nobody knew.

    Returns:
        The attempt, whose plan has all schemas; and what Spark has written, not committed.

    Raises:
        BadInput: A field that the stream file lists is in none of them.
    """
    attempt, result = _decoded(run, plan)
    try:
        if plan.ranges:  # else no record has said which schemas there are
            refuse_missing_fields(run, attempt.plan.parts)
    except BadInput:
        attempt.discard(run)
        raise
    return attempt, result


def _decoded(run: RunContext, plan: DecodePlan) -> tuple[TypedAttempt, DecodeResult]:
    for _ in range(_ROUNDS):
        attempt = begin_typed_attempt(run, plan)
        result = submit(run, attempt)
        if not result.new_ids:
            return attempt, result
        attempt.discard(run)
        plan = replace(plan, parts=parts_with(run, plan, result.new_ids))
    attempt = begin_typed_attempt(run, plan)
    return attempt, submit(run, attempt, is_last_round=True)


def _refuse_burying(run: RunContext, attempt: TypedAttempt, result: DecodeResult) -> None:
    """Halt rather than put more into quarantine than the stream file allows.

    Raises:
        DecodingHalted: It would be more, and nobody has decided for it.
    """
    plan, quarantined = attempt.plan, sum(result.classes.values())
    if plan.redrives:
        return  # they are in quarantine already
    share = share_of_quarantine(result.raw_rows, quarantined)
    if share <= plan.max_share or goes_to_quarantine(run, "quarantine_share"):
        return
    attempt.discard(run)
    kinds = ", ".join(f"{n} {name}" for name, n in sorted(result.classes.items()))
    first, *more = plan.ranges
    finding = Finding(
        kind="quarantine_share",
        expected=f"at most {plan.max_share:.1%} (decode.quarantine.max_share)",
        actual=f"{quarantined} of {result.raw_rows} records ({share:.1%}): {kinds}",
        topic=None if more else first.topic,
        topic_id=None if more else first.topic_id,
        partition=None if more else first.partition,
        intervals=() if more else (first.offsets,),
    )
    raise halted(run, finding)


def _with_open(state: LedgerState, record: DecodeRecord) -> LedgerState:
    return replace(state, decoding=replace(state.decoding, open=record))
