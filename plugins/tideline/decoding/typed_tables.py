"""The tables as the ledger knows them, before and after a plan; and how the decoding halts.

What halts the decoding never halts the landing: it is an incident of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from tideline.decoding.decode_rules import (
    TypedTable,
    covers,
    decoding_begins_anew,
    reasons_not_to_touch,
    unknown_tables,
)
from tideline.errors import BadInput, DecodingHalted, ServiceAway
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import open_and_halt
from tideline.landing.proof import foreign_changes
from tideline.landing.table_commit import create_table
from tideline.ledger.state import LedgerState
from tideline.model.decoding import QUARANTINE, DecodePlan, Decoding
from tideline.model.head import KnownCommit
from tideline.model.incident import Finding
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange
from tideline.model.places import NOWHERE, Places
from tideline.model.verdicts import FindingClass
from tideline.model.wording import first_few
from tideline.rules.older_ledger import erasures_in
from tideline.table.schema import removal_id

_KEY = "decode.value.types.{}"
RAW_IS_GONE = (
    "Next: restore it, then run again; or tideline run FILE, which opens an incident, and tideline"
    " resolve FILE --incident ID --choice approve: then an empty table takes its place"
)


def check_tables(run: RunContext) -> None:
    """Refuse tables that are somebody else's, or that lack what the ledger calls decoded.

    Two new tables are a new beginning: everything that is landed is decoded again. In place of a
    raw table whose end was approved there is an empty one afterwards, unless another one is there.

    Args:
        run: This run, with the decoder's lease.

    Raises:
        BadInput: A table is not the one that the ledger knows; nothing was decoded.
        ServiceAway: A store is away.
    """
    state, tables = _with_raw_table(run), _tables(run)
    _refuse_others(run, state, tables)
    commits = _unknown_commits(run, state.decoding, tables)
    newer = [e for e in erasures_in(commits) if e.number > state.erasing.begun]
    if newer:
        log.warning(
            "the ledger is older than an erasure: %s", first_few(e.erasure_id for e in newer)
        )
        run.ledger.update(lambda latest: latest.with_erasures_told(newer))
    if decoding_begins_anew(tables, state.decoding.known_tables):
        log.warning("the typed tables are new: everything that is landed is decoded again")
        run.ledger.update(_begun_anew)
    elif forgotten := _forgotten(state.decoding, commits):
        log.warning("the ledger is older than typed tables: %s are undone", first_few(forgotten))
        run.ledger.update(lambda latest: _without(latest, forgotten))


def _unknown_commits(
    run: RunContext, decoding: Decoding, tables: tuple[TypedTable, ...]
) -> tuple[KnownCommit, ...]:
    """Commits that are newer than what a decoding has left."""
    assert run.typed is not None
    return tuple(
        commit
        for table, known in zip(run.typed.tables, tables, strict=True)
        if decoding.token is not None and (known.seen.token or 0) > decoding.token
        for commit in table.commits_above(decoding.token)
    )


def _forgotten(decoding: Decoding, commits: Iterable[KnownCommit]) -> tuple[CoordinateRange, ...]:
    """What commits have written that no decoding knows: the ledger was put back since."""
    open_now = None if decoding.open is None else decoding.open.plan.plan_id
    return tuple(
        written
        for commit in commits
        if commit.commit_id != open_now and not commit.commit_id.endswith(removal_id(""))
        for written in commit.ranges
    )


def _without(state: LedgerState, forgotten: tuple[CoordinateRange, ...]) -> LedgerState:
    state = state.with_undecoded(forgotten)
    undone = state.decoding.undone | Places.of(forgotten)
    return replace(state, decoding=replace(state.decoding, undone=undone))


def refuse_other_tables(run: RunContext) -> None:
    """Make sure that rows which are verified now are in the tables that the ledger knows.

    Raises:
        BadInput: A table is another one.
    """
    _refuse_others(run, run.ledger.read(), _tables(run))


def decoded_here(run: RunContext, state: LedgerState) -> tuple[Places, str | None]:
    """What is decoded into the tables of the stream file; and why nobody can tell, if so.

    Nothing is decoded into new tables yet: the next run does it.
    """
    tables = _tables(run)
    anew = decoding_begins_anew(tables, state.decoding.known_tables)
    return NOWHERE if anew else state.decoding.coverage, _refusal(run, state, tables)[0]


def note_tables(run: RunContext) -> None:
    """Note the ids of the tables before their first rows, for every later run to compare.

    Args:
        run: This run, with the decoder's lease; the tables of its plan are there.

    Raises:
        BadInput: A table is not the one that the ledger knows; nothing was decoded.
        ServiceAway: Tables were deleted since they were checked: what was decoded went with them.
    """
    state, tables = run.ledger.read(), _tables(run)
    _refuse_others(run, state, tables)
    there = [table for table in tables if table.seen.exists]
    is_anew = decoding_begins_anew(tables, state.decoding.known_tables)
    if is_anew or len(there) < 2 or there[-1].name != QUARANTINE:
        raise ServiceAway(
            f"stream {run.stream.stream}: others have deleted typed tables since they were looked"
            " at; nothing was decoded, run again: everything that is landed is decoded anew"
        )
    ids = tuple(str(table.seen.table_id) for table in there)
    types = tuple(table.name for table in there if table.name not in ("", QUARANTINE))
    if (ids, types) != (state.decoding.table_ids, state.decoding.types):
        run.ledger.update(
            lambda s: replace(s, decoding=replace(s.decoding, table_ids=ids, types=types))
        )


def _with_raw_table(run: RunContext) -> LedgerState:
    """Create the raw table where its end was approved, or know the one that is there by now.

    What is left ends with that, and no fold, erasure or redrive waits for a record that may never
    come. Its rows are recorded as lost: of those that others have deleted nothing is decoded. One
    that is back is landed into, as is one that a landing has made.

    Returns:
        The ledger afterwards.
    """
    state = run.ledger.read()
    if not state.head.waits_for_table:
        return state
    uri = run.stream.table.uri
    if run.table.observe().version is None:
        log.warning("table %s is gone, which was approved: it is created, empty", uri)
        create_table(run, state.control.ledger_id)
    seen, changes = foreign_changes(run, state)
    if seen.version is None or changes:
        return state
    return run.ledger.update(lambda s: s.with_head(s.head.that_uses(seen.table_id, seen.version)))


def raw_table(run: RunContext) -> TableObservation:
    """The raw table, if it is the one that the ledger knows and nobody else has taken rows away.

    Rows of the typed table go where the raw rows are gone, and these may be put back.

    Raises:
        DecodingHalted: It is another one: it may hold other rows at the same coordinates.
        ServiceAway: It is gone, or its store is away.
    """
    state, uri = run.ledger.read(), run.stream.table.uri
    seen, changes = foreign_changes(run, state)
    if seen.version is None:
        raise ServiceAway(f"table {uri} is gone: nothing was decoded. {RAW_IS_GONE}")
    known = state.head.table_id
    if seen.table_id != known:
        raise DecodingHalted(
            f"table {uri} is another one: its id is {seen.table_id}, the ledger knows {known};"
            " nothing was decoded. Next: run the stream, which asks what to do about that table"
        )
    if changes:
        open_and_halt(run, state, changes)
    return seen


def at_these_tables(run: RunContext, plan: DecodePlan) -> DecodePlan:
    """A plan for where the tables are now: a plan that was left may be older than their addresses.

    Args:
        run: Its tables were checked.
        plan: What is decoded; the stream file names its event types.
    """
    decode = run.stream.decode
    assert decode is not None
    uris, quarantine = decode.addresses, decode.quarantine.uri
    then = {(uri, plan.quarantine_uri) for uri in plan.tables.values()}
    left = sorted(then - {(uri, quarantine) for uri in uris.values()} - {("", "")})
    types = tuple(replace(t, table_uri=uris[t.name]) for t in plan.types)
    return replace(
        plan,
        table_uri="" if types else uris[""],
        quarantine_uri=quarantine,
        left_at=(*plan.left_at, *left),
        types=types,
    )


def _begun_anew(state: LedgerState) -> LedgerState:
    parts = tuple(  # new tables have no columns of fields that are listed no more
        replace(part, reader=replace(part.reader, dropped=())) for part in state.decoding.parts
    )
    afresh = replace(state.decoding, coverage=NOWHERE, table_ids=(), parts=parts, undone=NOWHERE)
    return replace(state, decoding=replace(afresh, types=(), told=(), in_quarantine=None))


def _refuse_others(run: RunContext, state: LedgerState, tables: tuple[TypedTable, ...]) -> None:
    told, wrong = _refusal(run, state, tables)
    if told is not None:
        raise BadInput(told, tables=wrong)


def _refusal(
    run: RunContext, state: LedgerState, tables: tuple[TypedTable, ...]
) -> tuple[str | None, tuple[str, ...]]:
    """Why tables are not to be touched, or do not hold what is decoded; and each reason."""
    stream, ledger_id = run.stream.stream, state.control.ledger_id
    if wrong := tuple(reasons_not_to_touch(tables, stream, ledger_id)):
        return f"stream {stream}: {'; '.join(wrong)}. Nothing was decoded", wrong
    known, token = state.decoding.known_tables, state.decoding.token
    if wrong := tuple(unknown_tables(tables, known, token)):
        return (
            f"stream {stream}: {'; '.join(wrong)}. Nothing was decoded. Next: give both tables'"
            " addresses as they were, or restore them; or give two new addresses, or delete both"
            " tables: then everything that is landed is decoded again"
        ), wrong
    return None, ()


def _tables(run: RunContext) -> tuple[TypedTable, ...]:
    assert run.typed is not None
    decode = run.stream.decode
    assert decode is not None
    bad, uris = run.typed.quarantine.observe(), decode.addresses
    return (
        *(
            TypedTable(
                _KEY.format(name) if name else "decode.table.uri", uris[name], t.observe(), name
            )
            for name, t in run.typed.by_type.items()
        ),
        TypedTable("decode.quarantine.uri", decode.quarantine.uri, bad, QUARANTINE),
    )


def decoding_halted(run: RunContext, finding: Finding) -> DecodingHalted:
    """Open an incident about the decoding; the error that names it."""
    state = run.ledger.update(lambda s: s.with_decoding_halted(finding, run.run_id, now()))
    incident = state.decoding.incidents[-1]
    return DecodingHalted(
        f"{incident} The landed rows stay; landing continues", incidents=(incident,)
    )


def may_quarantine(
    run: RunContext,
    kind: FindingClass,
    ranges: Iterable[CoordinateRange],
    names: Collection[str],
) -> bool:
    """Whether somebody has decided for quarantine, of all that is decoded and was found.

    Args:
        kind: What was found.
        ranges: What is decoded; none where that says nothing, as of schemas.
        names: The rules that fail, the error classes, or what is wrong with schemas.
    """
    pieces = tuple(ranges)
    return any(
        i.finding.kind == kind and i.has_chosen("quarantine") and covers(i.finding, pieces, names)
        for i in run.ledger.read().decoding.incidents
    )
