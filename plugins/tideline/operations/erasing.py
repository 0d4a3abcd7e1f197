"""Erase by key: out of every table, kept out for good, and out of every file of older versions.

    begun      coordinates are frozen in the ledger, and no landing writes them any more
    removed    typed table, quarantine, raw table and current table have no such row
    done       the files of older versions are gone, and the log that told of them

Each step looks what is still to do, so whoever comes next goes on from there, without the key: the
ledger has coordinates, and keyed hashes with their secret (pseudonyms, `model.erasures`).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any

from tideline.decoding.typed_tables import RAW_IS_GONE, refuse_other_tables
from tideline.decoding.verifying import rows_by_log
from tideline.documents import dump
from tideline.errors import (
    AttemptFenced,
    BadInput,
    Halted,
    ServiceAway,
    StreamBusy,
    TidelineError,
    VerificationFailed,
)
from tideline.failpoints import reach
from tideline.folding.current_tables import last_sealed_fold, note_newest_commit, taken_by_others
from tideline.landing.attempts import Attempt, begin_attempt
from tideline.landing.context import RunContext, log, now
from tideline.landing.table_commit import commit_checked, remove
from tideline.ledger.state import LedgerState
from tideline.model.erasures import ERASURE, MOST, Erasure, SealedErasure
from tideline.model.maintenance import DERIVED, TableRole, kind_of
from tideline.model.offsets import (
    CoordinateRange,
)
from tideline.model.places import NOWHERE
from tideline.model.plan import places_of
from tideline.model.wording import first_few, how_many, not_among, reason_problem
from tideline.operations.erase_finding import (
    AskedKeys,
    FoundRecords,
    find_records,
    in_table,
    still_in_kafka,
    unread_offsets,
)
from tideline.operations.erase_history import Histories, current_key
from tideline.operations.former_tables import Former, open_former
from tideline.operations.maintaining import Tables, Upkeep
from tideline.operations.questions import audit_stream
from tideline.pipeline.run_batch import decode_batch, fold_batch
from tideline.stream.stream import tables_of
from tideline.table.schema import TableChange, removal_id
from tideline.table.table_port import MaintainedTablePort

_FEW = 100
"""So many records are erased whatever share of a table they are."""


@dataclass(frozen=True, slots=True)
class EraseRequest:
    """What a person asked for.

    Args:
        keys: Whose records.
        reason, by: For the ledger.
        is_future: Whether later records of the keys are refused as well.
        is_now: Whether files of older versions go at once, and time travel with them.
        most: The share of the raw tables' rows that it may be.
        settles: Erasures of which a table has told the coordinates only, and whose keys these are.
    """

    keys: AskedKeys
    reason: str
    by: str
    is_future: bool = False
    is_now: bool = False
    most: float = MOST
    settles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ErasePlan:
    """What an erasure would do, or has begun to do.

    Args:
        erasure: Not begun yet in a plan; None where nothing is to be erased.
        found: Where the records are.
        before: Ids of erasures that have taken out records of one of these keys.
        undecoded: Landed offsets whose keys nobody knows yet: they are decoded first.
        without: Which of the keys, and then of the raw keys, have no record, from 1.
        unread: Offsets of the stream that are not landed yet; None if Kafka does not tell.
    """

    erasure: Erasure | None
    found: FoundRecords
    before: tuple[str, ...]
    undecoded: int
    without: tuple[int, ...] = ()
    unread: int | None = None

    @property
    def warnings(self) -> list[str]:
        """What whoever has asked must not take for erased."""
        lines = []
        if self.without:
            lines.append(
                f"given keys without a record in any table: number {first_few(self.without, 20)}."
                " Look at case, blanks and column"
                + (f"; {self.undecoded:,} offsets are not decoded yet" if self.undecoded else "")
            )
        if self.erasure is None:
            lines += self.found.unasked
        if self.unread != 0:
            many = "an unknown number" if self.unread is None else f"{self.unread:,}"
            lines.append(
                f"unread offsets of the stream: {many}. They may have records of these keys,"
                " which the next run lands. Let the stream land, then erase again. --future"
                " refuses records that Kafka's key identifies"
            )
        return lines


def plan_erasure(run: RunContext, tables: Tables, asked: EraseRequest) -> ErasePlan:
    """What an erasure would find and take out; nothing is written.

    Args:
        run: This run.
        tables: Those of the stream.
        asked: What is to be erased.

    Raises:
        BadInput: No reason or key, no such column, or a value that does not fit it; nothing to
            settle; so many records that it has to be said; or a typed table is not the one that the
            ledger knows.
        Halted: A table is not the one that the ledger knows, or asks for Delta's own writer.
        ServiceAway: A store is away.
    """
    _check(asked)
    _check_ledger(run)
    state = run.ledger.read().with_secret(secrets.token_hex(32))
    for name in asked.settles:
        if name not in state.erasing.untold:
            raise BadInput(f"--settles: {not_among(name, state.erasing.untold)}")
    _check_tables(run, tables, state)
    if run.typed is not None:
        refuse_other_tables(run)  # as decoding does, which an erasure begins with
    former, unreached = open_former(run)
    keys = asked.keys.spelled(run, former)
    found = find_records(run, keys, asked.keys, state, former)
    unreached += found.unasked
    if found.older.keys and not asked.keys.whole_keys and _may_hold_values_of_before(run):
        whose = (table.uri for role, table in former if role == "current")
        why = "a row may have a value of an erased change; delete the table"
        unreached += tuple(f"the former current table at {uri}: {why}" for uri in whose)
    each, hashes = (of(state.erasing.secret) for of in (keys.each_hash, keys.hashes))
    had = {each[number] for number in found.had}
    known = run.ledger.erasures() if state.erasing.begun else []
    of_before = {*hashes, *asked.keys.hashes(state.erasing.secret)}  # of earlier versions
    before = tuple(e.erasure_id for e in known if ({*e.keys} - {*e.without_records}) & of_before)
    without = tuple(number for number, key in enumerate(each, 1) if key not in had)
    unread = unread_offsets(run, state.head)
    undecoded = 0 if run.typed is None else _undecoded(state)
    if asked.is_future and found.shared:
        raise BadInput(
            f"--future: other records share {found.shared} of Kafka's keys of these records, so"
            " these keys cannot identify later records. Nothing was changed"
        )
    if asked.is_future and found.keyless:
        raise BadInput(
            f"--future: {found.keyless} of these records have no key of Kafka's, so no key"
            " can identify later records. Nothing was changed"
        )
    if not found.ranges:
        return ErasePlan(None, found, before, undecoded, without, unread)
    _refuse_unverified(run, state, found.ranges)
    there = _there(tables, former)
    erasure = _drafted(run, there, state, asked, found)
    _refuse_many(there, sum(len(r.offsets) for r in found.ranges), asked.most)
    if found.nowhere:
        unreached += (
            f"{found.nowhere} of these records are in no raw table that can be reached,"
            " today's or former: if the log is read again in a new generation, they land again",
        )
    erasure = replace(
        erasure,
        keys=hashes,
        hashes=found.hashes,
        unreached=unreached,
        without_records=tuple(key for key in hashes if key not in had),
        unread=unread,
    )
    return ErasePlan(erasure, found, before, undecoded, without, unread)


def _refuse_unverified(
    run: RunContext, state: LedgerState, ranges: Sequence[CoordinateRange]
) -> None:
    """Make sure that the rows are those of the ledger's logs.

    Rows that no run has verified may go again, and be of another log: then the coordinates are
    somebody else's records.

    Raises:
        Halted: An incident about them is open.
        StreamBusy: Their run is to be finished first.
    """
    version = run.table.observe().version
    there = {} if version is None else run.table.landed(ranges, version)
    rows = (places_of(there) - state.head.coverage).offsets
    if not rows:
        return
    what = f"{rows} of these records stand in rows that no run has verified; nothing was changed."
    if state.control.incidents:
        raise Halted(f"{what} Next: decide {state.control.incidents[0].incident_id}, then erase")
    raise StreamBusy(f"{what} Next: let the stream's next run finish them, then erase")


def _check_ledger(run: RunContext) -> None:
    if run.ledger.read().version < 0:
        raise BadInput(
            f"stream {run.stream.stream}: nothing was landed yet, so nothing can be erased: its"
            f" ledger {run.ledger.store.location} is empty. If that was moved or is not mounted,"
            " bring it back"
        )


def _check_tables(run: RunContext, tables: Tables, state: LedgerState) -> None:
    """Make sure that every table of the stream is reached, and may be written to.

    Raises:
        BadInput: The stream file lacks a table that the ledger knows.
        Halted: A table is not the one that the ledger knows, or asks for Delta's own writer.
        ServiceAway: A table that the ledger knows is gone.
    """
    unnamed = {
        "decode": run.typed is None and bool(state.decoding.table_ids),
        "current": run.current is None and state.folding.table_id is not None,
    }
    for section, is_missing in unnamed.items():
        if is_missing:
            raise BadInput(
                f"stream {run.stream.stream}: {section}: got nothing, and the ledger knows a table"
                " of it, which may hold the key: put the section back to erase. Nothing was changed"
            )
    known = () if state.head.table_id is None else (tables["raw"].uri,)
    for role, table in _there(tables, (), known):
        Upkeep(run, role, table).checked()


def _drafted(
    run: RunContext,
    there: Former,
    state: LedgerState,
    asked: EraseRequest,
    found: FoundRecords,
) -> Erasure:
    """The next erasure, of these records; it has no keys yet."""
    unknown = dict(found.unknown)  # counted once a role: today's table comes first
    gone = (in_table(role, t, found.ranges, unknown.pop(role, 0)) for role, t in there)
    hours = (table.kept_hours(run.stream.maintenance.vacuum_hours) for _, table in there)
    at = now()
    return Erasure(
        erasure_id=f"{ERASURE}{state.erasing.begun + 1}",
        reason=asked.reason,
        by=asked.by,
        begun_at=at,
        columns=asked.keys.columns,
        keys=(),
        ranges=found.ranges,
        tables=tuple(part for part in gone if part is not None),
        kafka=still_in_kafka(run, found.ranges),
        due_at=at if asked.is_now else at + timedelta(hours=max(hours, default=0)),
        is_future=asked.is_future,
        is_now=asked.is_now,
        is_anew=state.folding.layout is not None and _may_hold_values_of_before(run),
        undecided=found.undecided,
        settles=asked.settles,
        whole=() if run.current is None else current_key(run, state),
    )


def _there(tables: Tables, former: Former, needed: Collection[str] = ()) -> Former:
    """Those that exist, the raw one first, and those of before at last.

    Args:
        needed: Addresses of those that have to: what was renamed has its rows, and may be back.

    Raises:
        ServiceAway: Such a table is gone.
    """
    found: list[tuple[TableRole, MaintainedTablePort]] = []
    for role, table in tables.items():
        if table.observe().exists:
            found.append((role, table))
        elif table.uri in needed:
            raise ServiceAway(
                f"table {table.uri} is gone, and its rows and files with it: nothing more was"
                f" erased. {RAW_IS_GONE if role == 'raw' else _FOLLOWER_IS_GONE}"
            )
    return (*found, *former)


def _needed(run: RunContext, erasure: Erasure, kinds: Collection[str]) -> tuple[str, ...]:
    """Addresses of tables that an erasure has to reach, as it began with them.

    Args:
        kinds: What has to be there beside the raw one, unless the end of that was approved.
    """
    is_raw_given_up = run.ledger.read().head.waits_for_table
    wanted = {*kinds, *(() if is_raw_given_up else ("raw",))}
    return tuple(part.uri for part in erasure.tables if kind_of(part.table) in wanted)


_FOLLOWER_IS_GONE = (
    "Next: restore it, then run again; if it was deleted for good, let the stream's next run make"
    " it anew (tideline decode FILE --again, tideline run FILE)"
)


def _check(asked: EraseRequest) -> None:
    if problem := reason_problem(asked.reason, "why, in words and without the key"):
        raise BadInput(f"--reason: {problem}")
    if not asked.keys.columns:
        raise BadInput("--key: got nothing; allowed: COLUMN=VALUE, --raw-key, --keys-from")
    texts = {text for key in asked.keys.keys for text in key.values()}
    texts |= {raw.decode(errors="replace") for raw in asked.keys.raw_keys}
    reason = asked.reason.casefold()
    if any(len(text) > 1 and text.casefold() in reason for text in texts):
        raise BadInput("--reason: it holds a key that is to be erased; allowed: words without it")


def _undecoded(state: LedgerState) -> int:
    return (state.head.coverage - state.decoding.coverage).offsets


def _refuse_many(there: Former, rows: int, most: float) -> None:
    every = sum(file.rows or 0 for role, table in there if role == "raw" for file in table.files())
    if rows > max(_FEW, most * every):
        raise BadInput(
            f"--most: {rows:,} of {every:,} rows would be erased, {rows / max(1, every):.1%}, and"
            f" got {most:g}; if you mean to erase so many, give a larger share. Nothing was changed"
        )


def _may_hold_values_of_before(run: RunContext) -> bool:
    """Whether a row may hold a value that an earlier change has brought."""
    decode = run.stream.decode
    return decode is not None and decode.value.unavailable is not None


def erase(run: RunContext, tables: Tables, asked: EraseRequest) -> ErasePlan:
    """Erase the records of keys, as far as it can be done today; earlier ones are finished first.

    What is landed and not decoded yet is decoded before: nobody else knows whose it is.

    Args:
        run: This run.
        tables: Those of the stream.
        asked: What is to be erased.

    Returns:
        The plan, with the erasure as it is now.

    Raises:
        BadInput: As `plan_erasure`.
        Halted: A table is not the one that the ledger knows, asks for Delta's own writer, or a
            rewind is unfinished.
        StreamBusy: Somebody else lands, decodes or folds.
        ServiceAway: Kafka, Spark or a store is away; the erasure goes on later.
    """
    _check(asked)
    _check_ledger(run)
    finish_erasures(run, tables)
    _decode_all(run)
    secret = secrets.token_hex(32)
    run.ledger.update(lambda state: state.with_secret(secret))
    with ExitStack() as held:
        held.enter_context(_as_writer(run))
        if run.ledger.read().decoding.open is not None:
            raise StreamBusy("records are being decoded; nothing was changed, erase again later")
        plan = plan_erasure(run, tables, asked)
        _refuse_risen(plan.found.older, asked.keys)
        for name in asked.settles:
            log.warning("%s: %s says that these are its keys", name, asked.by)
        if plan.erasure is None:
            run.ledger.update(lambda state: state.with_erasures_settled(asked.settles))
            return plan
        begun, hashes = plan.erasure, plan.found.hashes
        run.ledger.update(lambda state: state.with_erasure_begun(begun, hashes))
        log.warning("%s: %s", begun.erasure_id, how_many(begun.records, "record"))
        reach("erase:begun")
        return replace(plan, erasure=_go_on(run, tables, begun, held))


def _refuse_risen(older: Histories, keys: AskedKeys) -> None:
    if older.keyless or (older.moved and not keys.whole_keys):
        whole = "" if older.keyless else " --whole-keys, for all changes of these keys; or"
        raise BadInput(
            f"--key: {older}, since these changes are not all of theirs; allowed:{whole} --key by"
            f" {', '.join(older.key)}. Nothing was changed"
        )


def finish_erasures(run: RunContext, tables: Tables) -> tuple[Erasure, ...]:
    """Go on with what was cut off, and delete the files whose time has come.

    Rows that have come back, since somebody restored a table or put back a copy, go once more, as
    an erasure of its own.

    Returns:
        Those that were under way, as they are now.

    Raises:
        BadInput: The stream file lacks a table that the ledger knows.
        Halted: A table is not the one that the ledger knows, or asks for Delta's own writer.
        StreamBusy: Somebody else lands, decodes or folds.
        ServiceAway: Spark or a store is away; the erasure goes on later.
    """
    _begin_again(run, tables)
    done = []
    for left in run.ledger.read().erasing.open:
        with ExitStack() as held:
            if left.status == "begun":
                log.warning("%s was interrupted; this command continues it", left.erasure_id)
                held.enter_context(_as_writer(run))
                _check_tables(run, tables, run.ledger.read())
            done.append(_go_on(run, tables, left, held))
    return tuple(done)


def _go_on(run: RunContext, tables: Tables, erasure: Erasure, held: ExitStack) -> Erasure:
    """Do what is left to do; somebody else may have done it meanwhile.

    Args:
        held: The leases under which rows are taken out; given back afterwards.
    """
    try:
        former, left = open_former(run)
        every = dict.fromkeys((*erasure.unreached, *left))
        erasure = replace(erasure, unreached=tuple(every))
        with held:
            if erasure.status == "begun":
                there = _there(tables, former, _needed(run, erasure, DERIVED))
                erasure = _take_out(run, there, erasure)
        return _finish(run, tables, former, erasure)
    except (AttemptFenced, StreamBusy):
        known = {(e.erasure_id, e.begun_at): e for e in run.ledger.erasures()}
        done = known.get((erasure.erasure_id, erasure.begun_at))
        if done is None or done.status != "done":
            raise
        return done


def _begin_again(run: RunContext, tables: Tables) -> None:
    state = run.ledger.read()
    if not state.erasing.erased or state.erasing.is_removing:
        return
    there, back = _there(tables, open_former(run)[0]), NOWHERE
    every = state.erasing.erased.ranges(state.head.topic_names)
    for _, table in there:
        back |= places_of(table.landed(every, _newest(table)))
    if not back:
        return
    returned = back.ranges(state.head.topic_names)
    why = "erased rows had come back: somebody has restored a table, or put back a copy"
    asked = EraseRequest(AskedKeys(), why, run.request.by or "tideline")
    with _as_writer(run):
        state = run.ledger.read()
        _check_tables(run, tables, state)
        begun = _drafted(run, there, state, asked, FoundRecords(returned))
        log.warning("%s: %s", begun.erasure_id, why)
        run.ledger.update(lambda latest: latest.with_erasure_begun(begun, ()))


def _decode_all(run: RunContext) -> None:
    if run.typed is None:
        return
    left = _undecoded(run.ledger.read())
    for number in count():
        decode_batch(replace(run, run_id=f"{run.run_id}-{number}" if number else run.run_id))
        before, left = left, _undecoded(run.ledger.read())
        if left == 0:
            return
        if left >= before:
            raise StreamBusy(f"{left} offsets are not decoded yet; nothing was erased, try again")


@contextmanager
def _as_writer(run: RunContext) -> Iterator[None]:
    """Nobody lands, decodes or folds meanwhile."""
    with run.ledger.lease("writer"), run.ledger.lease("decoder"):
        yield


def _take_out(run: RunContext, there: Former, erasure: Erasure) -> Erasure:
    """Take the rows out of the tables that a current table is made of, under their leases.

    A commit is made also where no row stands: its token keeps out attempts that have read some.
    """
    of_today = tables_of(run.stream).values()
    raw = next((t for role, t in there if role == "raw" and t.uri in of_today), None)
    # what could be made of the raw table anew goes before it
    others = [t for role, t in there if kind_of(role) in DERIVED or t.uri not in of_today]
    if others:
        attempt = begin_attempt(run, run.ledger.read().control.ledger_id, *others)
        _known(attempt.state, erasure)
        change = _change(run, attempt, erasure)
        for table in others:
            removed = commit_checked(table, change, after_version=_newest(table))
            erasure = _out_of(erasure, table, removed.version)
            reach("erase:taken")
    if raw is not None:
        attempt = begin_attempt(run, run.ledger.read().control.ledger_id)
        _known(attempt.state, erasure)  # from here on the token would tell it
        version = _newest(raw)
        made = remove(run, _change(run, attempt, erasure), after_version=version)
        reach("erase:taken")
        run.ledger.update(
            lambda state: _known(state, erasure).with_head(state.head.with_commits(made))
        )
        erasure = _out_of(erasure, raw, made.version)
    out = replace(erasure, removed_at=now())
    held = None if run.typed is None else run.typed.quarantine
    left = None if held is None else rows_by_log(held, held.observe().version)
    run.ledger.update(lambda state: _known(state, out).with_in_quarantine(left).with_erasure(out))
    reach("erase:out")
    return out


def _change(run: RunContext, attempt: Attempt, erasure: Erasure) -> TableChange:
    """The removal, which tells what a ledger has to know that is put back to before it."""
    erasing = attempt.state.erasing
    begun = next(e for e in erasing.open if e.erasure_id == erasure.erasure_id)
    sealed = SealedErasure(replace(begun, ranges=()), erasing.seal)
    change = attempt.change(removal_id(erasure.erasure_id), erasure.ranges)
    return replace(change, erasure=dump(sealed))


def _known(state: LedgerState, erasure: Erasure) -> LedgerState:
    """The state, after making sure that it knows of the erasure.

    Raises:
        StreamBusy: The ledger was put back meanwhile: what the table tells has to be taken over.
    """
    if all(known.erasure_id != erasure.erasure_id for known in state.erasing.open):
        raise StreamBusy(
            f"the ledger was put back while {erasure.erasure_id} was running; run the stream,"
            " decide about its incident, then erase again"
        )
    return state


def _newest(table: MaintainedTablePort) -> int:
    version = table.observe().version
    if version is None:
        raise ServiceAway(f"table {table.uri} is gone; run again when it is back")
    return version


def _out_of(erasure: Erasure, table: MaintainedTablePort, version: int) -> Erasure:
    """Make sure of it, and say so.

    Raises:
        VerificationFailed: A row stands there still.
    """
    newest = _newest(table)
    if left := table.landed(erasure.ranges, newest):
        rows = sum(part.rows for part in left.values())
        raise VerificationFailed(
            f"{erasure.erasure_id}: {rows} rows stand in {table.uri} still, version {newest}; run"
            " tideline erase FILE again"
        )
    rows = sum(t.rows for t in erasure.tables if t.uri == table.uri)
    facts = (erasure.erasure_id, how_many(rows, "row"), table.uri, version)
    log.info("%s: removed %s from %s, table version %d", *facts)
    return _with(erasure, table, version=version)


def _with(erasure: Erasure, table: MaintainedTablePort, **done: Any) -> Erasure:
    """The erasure with what was done to a table; a table that was created since has no entry."""
    known = next((t for t in erasure.tables if t.uri == table.uri), None)
    return erasure if known is None else erasure.with_table(replace(known, **done))


def _finish(run: RunContext, tables: Tables, former: Former, erasure: Erasure) -> Erasure:
    """Fold what is out of the other tables, and delete the files once they may go."""
    if erasure.status == "begun":
        if run.current is not None and run.ledger.read().folding.layout is not None:
            fold_batch(run, "anew" if erasure.is_anew else "due")
        reach("erase:folded")
        kept = erasure.due_at - erasure.begun_at
        erasure = replace(erasure, status="removed", due_at=now() + kept, audit=_audited(run))
        erasure = _noted(run, erasure)
        reach("erase:removed")
    if erasure.due_at > now():
        return erasure
    there = _there(tables, former, _needed(run, erasure, (*DERIVED, "current")))
    if not erasure.is_now:  # a table or the stream may ask for more than it did then
        kept_now = max((_kept_hours(run, table) for _, table in there), default=0)
        due_at = (erasure.removed_at or erasure.begun_at) + timedelta(hours=kept_now)
        if due_at > now():
            return _noted(run, replace(erasure, due_at=due_at))
    with _as_writer(run):
        ledger_id = run.ledger.read().control.ledger_id
        is_as_left = run.current is not None and not taken_by_others(run, run.ledger.read())
        known = run.current.uri if run.current is not None and is_as_left else None
        for role, table in there:
            upkeep = Upkeep(run, role, table)
            upkeep.refuse_other(ledger_id)
            hours = 0 if erasure.is_now else max(0, _kept_hours(run, table) - 1)
            vacuumed = upkeep.vacuum(hours, at_once=erasure.is_now)
            if table.uri == known:
                upkeep.fence(last_sealed_fold(run))
                note_newest_commit(run)  # the log tells nothing any more of what came before
            cut = 0 if role == "raw" else upkeep.cut_log()
            erasure = _with(erasure, table, vacuumed=vacuumed, cut=cut)
            reach("erase:vacuumed")
    erasure = replace(erasure, status="done", finished_at=now(), audit=_audited(run))
    return _noted(run, erasure)


def _kept_hours(run: RunContext, table: MaintainedTablePort) -> int:
    return table.kept_hours(run.stream.maintenance.vacuum_hours)


def _noted(run: RunContext, erasure: Erasure) -> Erasure:
    """Write it down with its coordinates, which the state does not keep."""
    if not erasure.ranges:
        known = {e.erasure_id: e for e in run.ledger.erasures()}
        erasure = replace(erasure, ranges=known[erasure.erasure_id].ranges)
    run.ledger.update(lambda state: _known(state, erasure).with_erasure(erasure))
    log.warning("%s: %s", erasure.erasure_id, erasure.status)
    return erasure


def _audited(run: RunContext) -> str:
    """What an audit says now; it never fails an erasure."""
    try:
        result, findings = audit_stream(run)
    except TidelineError as error:
        return f"not possible: {error.message}"
    flaws = [str(result)] if not result.clean else []
    return "; ".join([*flaws, *map(str, findings)]) or "clean"
