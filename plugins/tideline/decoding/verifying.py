"""The typed table and the quarantine held against the raw rows, for a run and for an audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from tideline.decoding.decode_rules import as_one_table, closed, reconciled, rows_within
from tideline.decoding.typed_tables import RAW_IS_GONE, decoded_here
from tideline.errors import BadInput, ServiceAway, StreamBusy, VerificationFailed
from tideline.failpoints import reach
from tideline.landing.context import RunContext, log, now
from tideline.ledger.state import LedgerState
from tideline.model.decoding import DecodeRecord
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import LandedRange, places_of
from tideline.model.wording import first_few, how_many
from tideline.rules.audit import TypedAudit, audit_typed, without_row
from tideline.rules.upkeep import still_expired
from tideline.table.scans import valueless
from tideline.table.table_port import TablePort

_TRIES = 5


def typed_against_raw(run: RunContext) -> TypedAudit | None:
    """Every decoded coordinate against all three tables; None without typed tables.

    Raises:
        BadInput: The stream file names other tables than those that hold what is decoded.
        StreamBusy: Decodings closed faster than the tables could be read.
        ServiceAway: A store is away.
    """
    if run.typed is None or run.stream.decode is None:
        return None
    for _ in range(_TRIES):
        state, version = run.ledger.read(), run.table.observe().version
        decoding = state.decoding
        coverage, wrong = decoded_here(run, state)
        ranges = coverage.ranges()
        found = audit_typed(
            coverage,
            decoding.open.plan.ranges if decoding.open is not None else (),
            state.head.coverage,
            {} if version is None else run.table.landed(ranges, version),
            chain.from_iterable(t.stored() for t in run.typed.by_type.values()),
            run.typed.quarantine.stored(),
            dropped_tombstones=(
                valueless(run.table, ranges, version)
                if run.stream.decode.tombstones == "drop" and version is not None
                else None
            ),
            let_go=let_go(run, state),
        )
        after = run.ledger.read()
        if (after.decoding, after.head.coverage) == (decoding, state.head.coverage):
            if wrong is not None:  # or a decoding has made them meanwhile
                raise BadInput(wrong)
            return found
    raise StreamBusy("decodings close faster than the tables can be read; audit again")


def refuse_lacking(
    run: RunContext, ranges: Iterable[CoordinateRange], why: str, at: int | None = None
) -> None:
    """Make sure that what is decoded still has its rows, before somebody builds on the typed table.

    Another program may have put an older version back, or deleted rows. Coordinates are counted as
    after each decoding: by statistics where these prove what a file holds.

    Args:
        ranges: Decoded coordinates.
        why: What was not done, for the message.
        at: The version of the stream's typed table that is read; None for the newest.

    Raises:
        VerificationFailed: A decoded record has no row; names the tables and the offsets.
        ServiceAway: A table is gone, or its store is away.
    """
    assert run.typed is not None
    assert run.stream.decode is not None
    state = run.ledger.read()
    under_way = () if state.decoding.open is None else state.decoding.open.plan.ranges
    wanted = (Places.of(ranges) - Places.of(under_way)).ranges()
    if not wanted:
        return
    left, there = Places.of(wanted), list[str]()
    for table in run.typed.by_type.values():
        left = _rest(left, table, at if table is run.source else None, there)
    if left and state.head.waits_for_table and run.table.observe().version is None:
        left = NOWHERE  # that its rows are lost was approved
    if left:  # other tables are opened only now: most decoded records have a row
        landed, raw = _landed(run.table, run.stream.table.uri, left.ranges())
        left &= places_of(landed)
        if left and run.stream.decode.tombstones == "drop":
            assert raw.version is not None
            left = without_row(left, valueless(run.table, left.ranges(), raw.version))
    left = _rest(left, run.typed.quarantine, None, there)
    if left:
        left = without_row(left, let_go(run, state))
    if left:
        lacking = left.ranges(state.head.topic_names)
        raise VerificationFailed(
            f"stream {run.stream.stream}: {how_many(left.offsets, 'decoded record')} stand in no"
            f" row of {'; '.join(there)}: {first_few(lacking)}. Another program has removed them,"
            " or has put an older version back; or they have no value, and decode.tombstones was"
            f" drop when they were decoded. {why}. Next: restore the table, or tideline decode FILE"
            " --again; then run again",
            lacking=[str(r) for r in lacking],
        )


def _rest(left: Places, table: TablePort, at: int | None, there: list[str]) -> Places:
    """Of `left` what has no row in a table, at a version or the newest; `there` says which."""
    if not left:
        return left
    version = table.observe().version if at is None else at
    if version is None:
        return left
    there.append(f"table {table.uri}, version {version}")
    return without_row(left, places_of(table.landed(left.ranges(), version)))


def let_go(run: RunContext, state: LedgerState) -> Places:
    """Decoded coordinates that need no row: let go for their age, or erased by key."""
    return state.erasing.erased | still_expired(run.ledger.expired_rows())


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
    raw, _ = _landed(run.table, run.stream.table.uri, wanted, RAW_IS_GONE)
    quarantined, other = _landed(run.typed.quarantine, plan.quarantine_uri, wanted)
    typed, token = dict[str, Mapping[PartitionIdentity, LandedRange]](), other.token or 0
    for name, table in run.typed.by_type.items():
        if name in plan.tables or table.observe().exists:  # else of a type that came later
            typed[name], newest = _landed(table, plan.tables.get(name, name), wanted)
            token = max(token, newest.token or 0)
    held = rows_by_log(run.typed.quarantine, other.version)
    ranges, wrong = reconciled(
        plan, raw, as_one_table(typed.values()), quarantined, record.tombstones
    )
    if wrong:
        raise VerificationFailed(
            f"plan {plan.plan_id} of run {plan.run_id} is not decoded as it should be:"
            f" {'; '.join(wrong)}. Nothing moved; clear decode_rows, or run the same run id again",
            plan_id=plan.plan_id,
            mismatches=list(wrong),
        )
    rows = {name: rows_within(held, plan.ranges) for name, held in typed.items()}
    by_type = tuple(replace(t, rows=rows[t.name]) for t in record.by_type)
    done = replace(record, status="done", ranges=ranges, closed_at=now(), by_type=by_type)
    before = run.ledger.find_decoding(plan.run_id)
    was_decoded = before is not None and before.plan.frozen_at == plan.frozen_at
    reach("decode:closing")
    run.ledger.update(lambda state: _close(state, done, token, held, was_decoded=was_decoded))
    reach("decode:closed")
    log.info(
        "decoded %d, quarantined %d, tombstones %d", done.decoded, done.quarantined, done.tombstones
    )
    return done


def rows_by_log(table: TablePort, version: int | None) -> int | None:
    """How many rows a version of a table has, as its log says; None where nobody says."""
    if version is None:
        return None
    counts = [part.rows for part in table.files_by("", version).values()]
    return None if None in counts else sum(n for n in counts if n is not None)


def _close(
    state: LedgerState, done: DecodeRecord, token: int, held: int | None, *, was_decoded: bool
) -> LedgerState:
    open_now = state.decoding.open
    if open_now is None or open_now.plan != done.plan:
        return state  # by this very call, whose answer was lost, or by another attempt
    resumed = state.with_decoding_resumed(done.plan, now(), was_decoded=was_decoded)
    decoding = closed(resumed.decoding, done, was_decoded=was_decoded)
    decoding = replace(decoding, token=token, in_quarantine=held)
    folding = state.folding.having_decoded(done.plan.ranges)
    return replace(resumed, decoding=decoding, folding=folding).noting(done)


def _landed(
    table: TablePort,
    uri: str,
    ranges: tuple[CoordinateRange, ...],
    remedy: str = "Next: restore it, then run again",
) -> tuple[dict[PartitionIdentity, LandedRange], TableObservation]:
    """What the table holds at coordinates, and the table itself."""
    seen = table.observe()
    if seen.version is None:
        raise ServiceAway(f"table {uri} is gone: nothing moved. {remedy}")
    return table.landed(ranges, seen.version), seen
