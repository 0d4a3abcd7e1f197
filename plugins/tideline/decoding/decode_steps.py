"""The two steps that decode, where the stream has typed tables; both follow the six that land.

7. `decode_rows` decodes what is landed and not decoded yet: which coordinates, and how.
8. `verify_decoded` finds every raw row in one of both tables, once.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from tideline.decoding.decode_execution import execute_decoding
from tideline.decoding.decode_rules import (
    decided_to_quarantine,
    decode_plan_id,
    has_to_decode,
    split_by_ranges,
    split_decided,
    to_decode,
    to_remove,
)
from tideline.decoding.event_types import parts_of
from tideline.decoding.readers import has_all_schemas, refuse_unknown_columns
from tideline.decoding.typed_tables import (
    at_these_tables,
    check_tables,
    raw_table,
    refuse_other_tables,
)
from tideline.decoding.verifying import close_decoding
from tideline.errors import BadInput, VerificationFailed
from tideline.landing.context import RunContext, log, now
from tideline.landing.naming import name_tables
from tideline.ledger.state import LedgerState
from tideline.model.decoding import DecodePlan, DecodeRecord, EventDate, PartPlan, TypePlan
from tideline.model.maintenance import DERIVED, kind_of
from tideline.model.offsets import CoordinateRange
from tideline.model.wording import first_few, how_many
from tideline.stream.decode_section import Decode
from tideline.stream.stream import tables_of

CATCH_UP = 2
"""A run decodes at most so many times what it may land: after an outage of the registry it has to
catch up."""


def finish_open(run: RunContext) -> DecodeRecord | None:
    """Execute and close the plan that is open; its coordinates are nobody else's.

    A plan whose two commits are noted needs no Spark, unless they are not there any more: where
    both tables are new, they went with those before.

    Args:
        run: This run, with the decoder's lease.

    Returns:
        The closed record; None if no plan was open.

    Raises:
        BadInput: A table is not the one that holds what is decoded.
    """
    left = run.ledger.read().decoding.open
    if left is None:
        return None
    check_tables(run)
    log.info("finishing the decoding of run %s", left.plan.run_id)
    state = run.ledger.read()
    plan, is_anew = _of_now(run, state, left.plan), not state.decoding.table_ids
    if left.table_version is not None and plan == left.plan and not is_anew:
        try:
            return _settled(run, close_decoding(run, left))
        except VerificationFailed as error:
            log.warning("%s: its rows are made again", error)
    return _settled(run, close_decoding(run, execute_decoding(run, plan)))


def _settled(run: RunContext, closed: DecodeRecord) -> DecodeRecord:
    """A plan that is closed; noted where it is another run's, which does not tell of it."""
    if closed.plan.run_id != run.run_id:
        run.settled.append(closed)
    return closed


def finish_decided(run: RunContext) -> None:
    """Decode what a decision is about as the plan of the run that has halted, and nothing else.

    What has been landed since then is judged anew.

    Args:
        run: This run, with the decoder's lease; no plan is open. Where it has halted itself, this
            is its own plan.

    Raises:
        DecodingHalted: It fails something else now.
    """
    state = run.ledger.read()
    left = to_decode(state.head, state.decoding, sys.maxsize)
    incident = decided_to_quarantine(state.decoding, left)
    halted_in = incident.run_id if incident is not None else run.run_id
    if halted_in == run.run_id or run.ledger.find_decoding(halted_in) is not None:
        return
    ranges, _ = split_decided(left, state.decoding)
    log.info("carrying out the decision about run %s", halted_in)
    plan_id = decode_plan_id(state.control.ledger_id, run.stream.stream, halted_in)
    plan = replace(new_plan(run, state, ranges), plan_id=plan_id, run_id=halted_in)
    _settled(run, close_decoding(run, execute_decoding(run, plan)))


def plan_decoding(
    run: RunContext, state: LedgerState, *, only_removals: bool = False
) -> DecodePlan | None:
    """The plan that this run has to execute; None if there is nothing to decode.

    A run that was cut off executes its open plan. One that has decoded before decodes the same once
    more, as far as its rows are there still, and no other plan has decoded them since: what went
    into quarantine then was no more than allowed, or somebody decided so. What a rewind has undone
    since, and any other run decodes, is a new plan's, and not frozen yet.

    Args:
        state: The ledger, under the decoder's lease.
        only_removals: Whether nothing is decoded.

    Raises:
        DecodingHalted: A schema does not fit the typed table.
        ServiceAway: The registry, or the raw table, cannot be asked.
    """
    if state.decoding.open is not None:
        return _of_now(run, state, state.decoding.open.plan)
    before = run.ledger.find_decoding(run.run_id)
    if before is not None:
        landed = state.head.coverage.cut(before.plan.ranges)
        there = state.decoding.coverage.cut(landed)
        anew, ranges = split_by_ranges(there, run.ledger.decoded_since(run.run_id))
        if anew:
            log.info(
                "%d offsets stay as a redrive, or a later run, has decoded them since: %s",
                sum(len(r.offsets) for r in anew),
                first_few(anew),
            )
        removes = to_remove(state.head, state.decoding, ranges)
        plan = before.plan.without_halts()
        again = replace(plan, ranges=ranges, removes=removes, max_share=1.0)
        if ranges or not state.decoding.coverage.rest(landed):
            return _of_now(run, state, again) if ranges or removes else None
    most = CATCH_UP * run.stream.limits.max_records_per_run
    ranges = () if only_removals else to_decode(state.head, state.decoding, most)
    ranges = split_decided(ranges, state.decoding)[0] or ranges
    removes = to_remove(state.head, state.decoding, ranges)
    return new_plan(run, state, ranges, removes) if ranges or removes else None


def _of_now(run: RunContext, state: LedgerState, plan: DecodePlan) -> DecodePlan:
    """A plan that was left, for the tables as they are now.

    Where the stream file has other event types now, its tables are new ones: what the plan knows of
    schemas says nothing then.
    """
    decode = run.stream.decode
    assert decode is not None
    if plan.tables.keys() <= decode.addresses.keys():
        return at_these_tables(run, plan)
    left = tuple((uri, plan.quarantine_uri) for uri in plan.tables.values())
    return replace(
        new_plan(run, state, plan.ranges, plan.removes, plan.redrives),
        plan_id=plan.plan_id,
        run_id=plan.run_id,
        by=plan.by,
        left_at=(*plan.left_at, *left),
    )


def new_plan(
    run: RunContext,
    state: LedgerState,
    ranges: tuple[CoordinateRange, ...],
    removes: tuple[CoordinateRange, ...] = (),
    redrives: tuple[str, ...] = (),
) -> DecodePlan:
    """A plan with the stream file and the schemas of now.

    Args:
        state: The ledger, under the decoder's lease.
        ranges: What is decoded.
        removes: Whose decoded rows go.
        redrives: As of a `DecodePlan`.

    Raises:
        BadInput: The stream file names a field or a column that is not there.
    """
    decode = run.stream.decode
    assert decode is not None
    raw = raw_table(run)
    assert raw.version is not None
    plan = replace(
        plan_without_ranges(decode, parts_of(run, state.decoding, afresh=bool(redrives))),
        plan_id=decode_plan_id(state.control.ledger_id, run.stream.stream, run.run_id),
        run_id=run.run_id,
        raw_table_id=str(raw.table_id),
        raw_version=raw.version,
        ranges=ranges,
        removes=removes,
        redrives=redrives,
        by=run.request.by if redrives else None,
    )
    if not plan.types and all(map(has_all_schemas, plan.parts)):  # else once the records are read
        refuse_unknown_columns(run, plan)
    return plan


def plan_without_ranges(decode: Decode, parts: tuple[PartPlan, ...]) -> DecodePlan:
    """What the stream file says of any plan of now; it has no coordinates yet."""
    return DecodePlan(
        plan_id="",
        run_id="",
        frozen_at=now(),
        raw_table_id="",
        raw_version=0,
        ranges=(),
        removes=(),
        parts=parts,
        tombstones=decode.tombstones,
        event_date=_event_date(decode),
        transform=decode.transform,
        max_share=decode.quarantine.max_share,
        table_uri="" if decode.types else decode.table.uri,
        quarantine_uri=decode.quarantine.uri,
        own_columns=decode.own_columns,
        expect=decode.expectations,
        types=tuple(
            TypePlan(name, uri, decode.of_type(name).expectations)
            for name, uri in decode.addresses.items()
            if decode.types
        ),
    )


def _event_date(decode: Decode) -> EventDate | None:
    window = decode.window(now())
    if decode.event_time is None or window is None:
        return None
    return EventDate(decode.event_time.field, *window, decode.event_time.outside)


def decode_rows(run: RunContext, *, only_removals: bool = False) -> DecodeRecord | None:
    """Bring typed table and quarantine to what is landed; None where there is nothing to do.

    A plan that another run has left open is finished first. A run that has decoded before decodes
    its own plan once more: the same records with the same schemas give the same rows.

    Args:
        only_removals: Whether only rows go whose raw rows have gone, as after a rewind.

    Returns:
        The run's plan with its commits, still to be verified.

    Raises:
        DecodingHalted: A schema does not fit, or too many records cannot be decoded; nothing was
            committed, and the landing goes on.
        ServiceAway: Registry, Spark or a store is away; the landed rows stay as they are.
        StreamBusy: Somebody else decodes.
        BadInput: A table is not the one that holds what is decoded.
    """
    if run.typed is None or _has_nothing(run):
        return None
    with run.ledger.lease("decoder"):
        left = run.ledger.read().decoding.open
        if left is not None and left.plan.run_id != run.run_id:
            finish_open(run)
        else:
            check_tables(run)
        if not only_removals and run.ledger.read().decoding.open is None:
            finish_decided(run)
        plan = plan_decoding(run, run.ledger.read(), only_removals=only_removals)
        if plan is None:
            return None
        log.info("to decode: %s", how_many(sum(len(r.offsets) for r in plan.ranges), "offset"))
        return execute_decoding(run, plan)


def _has_nothing(run: RunContext) -> bool:
    """Asked before the lease is taken: most runs of most streams have nothing new.

    A run that is cleared decodes nothing where the raw table is gone, and that was approved.
    """
    state = run.ledger.read()
    if has_to_decode(state.head, state.decoding):
        return False
    if state.head.table_id is None and run.table.observe().version is None:
        return True
    return run.ledger.find_decoding(run.run_id) is None


def decoded_before(run: RunContext) -> DecodeRecord | None:
    """The run's closed decoding; None where it has none, or a rewind has undone some of it since.

    What is told of it would be told of rows that are in no table.
    """
    record = run.ledger.find_decoding(run.run_id)
    if record is None:
        return None
    undone = run.ledger.read().decoding.coverage.rest(record.plan.ranges)
    if undone:
        log.info("what this run has decoded is undone since: %s", first_few(undone))
        return None
    return record


def verify_decoded(run: RunContext) -> DecodeRecord | None:
    """The run's closed decoding; None where it had nothing to decode, or nothing of it stands.

    Raises:
        BadInput: The run's plan is open and not committed: only `verify_decoded` was cleared. Or a
            typed table was replaced by another one since then.
        VerificationFailed: A raw row is in neither table or in both, or one stands twice.
        ServiceAway: A table is gone, or its store is away.
        StreamBusy: Somebody else decodes.
    """
    if run.typed is None:
        return None
    with run.ledger.lease("decoder"):
        record = run.ledger.read().decoding.open
        if record is None or record.plan.run_id != run.run_id:
            return decoded_before(run)
        if record.table_version is None:
            raise BadInput(
                f"plan {record.plan.plan_id} is not committed: clear decode_rows and what follows,"
                " or run the same run id again",
                plan_id=record.plan.plan_id,
            )
        refuse_other_tables(run)
        closed = close_decoding(run, record)
        name_tables(run, *(r for r in tables_of(run.stream) if kind_of(r) in DERIVED))
        return closed
