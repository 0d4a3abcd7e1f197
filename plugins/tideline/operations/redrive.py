"""Decode records again, out of the raw table, with the schemas of now: quarantined ones, or all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import get_args

from tideline.decoding.decode_execution import TypedAttempt, commit, decode, halt_on_bad_rows
from tideline.decoding.decode_rules import in_portions, split_decided, still_decoded
from tideline.decoding.decode_steps import CATCH_UP, finish_open, new_plan
from tideline.decoding.typed_tables import check_tables, raw_table
from tideline.decoding.verifying import close_decoding
from tideline.errors import BadInput
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import open_and_halt
from tideline.landing.proof import foreign_changes
from tideline.ledger.state import LedgerState
from tideline.model.decoding import AGAIN, DecodedAgain, DecodePlan, ErrorClass, Redriven
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import DecodeResult
from tideline.model.wording import how_many
from tideline.rules.upkeep import still_expired
from tideline.table.scans import quarantined
from tideline.table.scans import since as rows_since

_MOST_RANGES = 10_000
"""Of one plan; what is left is for another pass."""


def redrive(
    run: RunContext, classes: Collection[str] = (), since: datetime | None = None
) -> Redriven:
    """Decode quarantined records again; what succeeds moves into the typed table.

    Kafka is not asked: the raw rows are there. The typed table is committed first, so that a record
    may stand in both tables if this dies, and never in none; whoever decodes next removes the copy.

    Args:
        run: This run; its id is the redrive's.
        classes: Only these error classes; all if empty.
        since: Only records with Kafka's time from this one on (inclusive); None for all.

    Raises:
        BadInput: The stream has no typed tables, or a class does not exist.
        ServiceAway: Registry, Spark or a store is away.
        StreamBusy: Somebody else decodes.
    """
    if run.typed is None:
        raise BadInput(f"stream {run.stream.stream}: decode: got nothing; a redrive needs it")
    if unknown := sorted(set(classes) - set(get_args(ErrorClass))):
        raise BadInput(
            f"class: got {', '.join(unknown)}; allowed: {', '.join(get_args(ErrorClass))}"
        )
    with run.ledger.lease("decoder"):
        _refuse_changed(run)
        check_tables(run)
        left = finish_open(run)  # its own as well: what it has moved is not in quarantine any more
        is_own = left is not None and left.plan.run_id == run.run_id
        records = [left] if left is not None and is_own else []
        asked = sum(len(r.offsets) for record in records for r in record.plan.ranges)
        state = run.ledger.read()
        ranges = state.head.coverage.cut(quarantined(run.typed.quarantine, classes, since))
        asked += sum(len(r.offsets) for r in ranges)
        _tell_let_go(run, state)
        for attempt, result in _decoded(run, ranges, tuple(classes) or ("all",)):
            if result.decoded.rows == 0:
                attempt.discard(run)
                log.info("none of %d records can be decoded yet", result.raw_rows)
                continue
            records.append(close_decoding(run, commit(run, attempt, result)))
    return Redriven(asked, tuple(records))


def _tell_let_go(run: RunContext, state: LedgerState) -> None:
    """Say how many records no redrive finds: an event type that was added since may claim them."""
    if gone := (still_expired(run.ledger.expired_rows()) & state.head.coverage).offsets:
        log.warning(
            "removed from the quarantine for their age (maintenance.quarantine_days): %s. A redrive"
            " does not find them; tideline decode FILE --again decodes them as well",
            how_many(gone, "record"),
        )


def decode_again(run: RunContext, since: datetime | None = None) -> DecodedAgain:
    """Make the rows of decoded records anew; nothing is committed where they come out the same.

    Each pass decodes as much as a run may, and is committed by itself. If this dies, the next run
    finishes the pass that is open.

    Args:
        run: This run; its id is the decoding's.
        since: Only records with Kafka's time from this one on (inclusive); None for all.

    Raises:
        BadInput: The stream has no typed tables, or a table is not the one that the ledger knows.
        DecodingHalted: Too many records of a pass cannot be decoded now, and nobody has decided
            for it. The passes before it count.
        ServiceAway: Registry, Spark or a store is away.
        StreamBusy: Somebody else decodes.
    """
    if run.typed is None:
        raise BadInput(f"stream {run.stream.stream}: decode: got nothing; required to decode again")
    done = DecodedAgain()
    with run.ledger.lease("decoder"):
        _refuse_changed(run)
        check_tables(run)
        finish_open(run)
        state = run.ledger.read()
        ranges = still_decoded(state.head, state.decoding)
        if since is not None and ranges:
            ranges = _since(run, ranges, since)
        for attempt, result in _decoded(run, ranges, AGAIN):
            done = replace(
                done,
                asked=done.asked + sum(len(r.offsets) for r in attempt.plan.ranges),
                changed=done.changed + result.changed,
                quarantine_changed=done.quarantine_changed + result.quarantine_changed,
            )
            if not result.changed and not result.quarantine_changed:
                attempt.discard(run)
                run.ledger.update(partial(_resumed, attempt.plan))
                continue
            halt_on_bad_rows(run, attempt, result)
            record = close_decoding(run, commit(run, attempt, result))
            done = replace(done, records=(*done.records, record))
    return done


def _resumed(plan: DecodePlan, state: LedgerState) -> LedgerState:
    """The state without what had halted a plan, whose rows come out the same by now."""
    return state.with_decoding_resumed(plan, now()) if state.decoding.incidents else state


def _refuse_changed(run: RunContext) -> None:
    """Make no rows anew of a raw table that others have changed before somebody has decided.

    Rows that stand go where the raw rows are gone, and these may be put back.
    """
    state = run.ledger.read()
    if findings := foreign_changes(run, state)[1]:
        open_and_halt(run, state, findings)


def _since(
    run: RunContext, ranges: tuple[CoordinateRange, ...], since: datetime
) -> tuple[CoordinateRange, ...]:
    version = raw_table(run).version
    assert version is not None
    found = rows_since(run.table, ranges, version, since)
    return found.cut(ranges)


def _decoded(
    run: RunContext, ranges: Iterable[CoordinateRange], redrives: tuple[str, ...]
) -> Iterator[tuple[TypedAttempt, DecodeResult]]:
    """Pass by pass, each by a plan that is not frozen yet; the caller commits or discards it."""
    most = CATCH_UP * run.stream.limits.max_records_per_run
    parts = split_decided(ranges, run.ledger.read().decoding)
    portions = chain.from_iterable(in_portions(part, most, _MOST_RANGES) for part in parts)
    for number, portion in enumerate(portions):
        plan = new_plan(run, run.ledger.read(), portion, redrives=redrives)
        yield decode(
            run, plan if number == 0 else replace(plan, plan_id=f"{plan.plan_id}-{number}")
        )
