"""Execute a plan to decode: have Spark decode it, freeze it, and commit its rows to its tables.

An attempt is a job for Spark and the commits behind one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from tideline.decoding.decode_rules import share_of_quarantine
from tideline.decoding.event_types import parts_with, parts_with_known_fields
from tideline.decoding.readers import refuse_missing_fields, refuse_unknown_columns
from tideline.decoding.schemas.envelope import untold_columns
from tideline.decoding.typed_tables import decoding_halted, may_quarantine, note_tables, raw_table
from tideline.delta.delta_properties import kept_for
from tideline.errors import (
    BadInput,
    ServiceAway,
    VerificationFailed,
)
from tideline.failpoints import reach
from tideline.landing.attempts import answer_of, begin_attempt, discard, discarding
from tideline.landing.context import RunContext, log
from tideline.landing.table_commit import commit_checked
from tideline.ledger.state import LedgerState
from tideline.model.decoding import (
    NO_CHANGE,
    NO_FAULT,
    QUARANTINE,
    DecodePlan,
    DecodeRecord,
    TypeRows,
)
from tideline.model.incident import Finding
from tideline.model.run import TableCommit
from tideline.model.spark_job import DecodeJob, DecodeResult, Output, SparkResult, TypedOutput
from tideline.model.verdicts import FindingClass
from tideline.model.wording import how_many
from tideline.table.schema import (
    QUARANTINE_COLUMNS,
    Field,
    TableChange,
    delta_fields,
    typed_columns,
)
from tideline.table.table_port import TablePort


@dataclass(frozen=True, slots=True)
class TypedAttempt:
    """An attempt to bring all tables to a plan, with a token larger than all before (R5).

    Args:
        plan: What is decoded; not frozen yet, if its schemas may still grow.
        change: Coordinates and token; the same for all tables.
    """

    plan: DecodePlan
    change: TableChange

    def discard(self, run: RunContext) -> None:
        """Delete what Spark has written; the attempt has not committed."""
        assert run.typed is not None
        discard(self.change, *run.typed.tables)


def begin_typed_attempt(run: RunContext, plan: DecodePlan) -> TypedAttempt:
    """Take the next token; the caller holds the decoder's lease."""
    assert run.typed is not None
    ledger_id = run.ledger.read().control.ledger_id
    attempt = begin_attempt(run, ledger_id, *run.typed.tables)
    change = attempt.change(plan.plan_id, (*plan.ranges, *plan.removes))
    return TypedAttempt(plan, replace(change, by=plan.by))


def submit_decoding(
    run: RunContext, attempt: TypedAttempt, *, is_last_round: bool = False
) -> DecodeResult:
    """Have Spark decode a plan into files of its tables; nothing is committed.

    Args:
        attempt: Plan and token.
        is_last_round: Whether ids that the plan does not name count as unknown, for good.

    Raises:
        BadInput: The typed table is partitioned by days, and the plan has none.
        ServiceAway: It could not be started, or ended without a word.
    """
    plan = attempt.plan
    assert run.typed is not None
    _prepare_tables(run, attempt)
    if not plan.ranges:
        return DecodeResult()
    version = raw_table(run).version
    assert version is not None
    folder = attempt.change.folder
    outputs = {
        name: TypedOutput(
            Output(uri, folder, _partitions(run, plan, name)), _there(run, plan, name)
        )
        for name, uri in plan.tables.items()
    }
    first = next(iter(outputs.values()))  # which has the job's own files as well
    job = DecodeJob(
        store_options=run.store_options,
        stream=run.stream.stream,
        run_id=run.run_id,
        raw_uri=run.stream.table.uri,
        raw_files=run.table.files_at(plan.ranges, version),
        plan=plan,
        decoded=first.output,
        quarantine=Output(plan.quarantine_uri, folder),
        decoded_files=first.files if not plan.types else (),
        quarantined_files=_there(run, plan, QUARANTINE),
        is_last_round=is_last_round,
        types=outputs if plan.types else {},
    )
    return answer_of(run, job)


def _partitions(run: RunContext, plan: DecodePlan, name: str) -> tuple[str, ...]:
    """The columns by which a typed table is partitioned.

    Raises:
        BadInput: It is partitioned by days, and the plan has none.
        ServiceAway: It is gone.
    """
    assert run.typed is not None
    partition_by, uri = run.typed.by_type[name].observe().partition_by, plan.tables[name]
    if partition_by is None:
        raise ServiceAway(f"table {uri} is gone, or was changed: nothing was decoded, run again")
    if plan.event_date is None and "event_date" in partition_by:
        raise BadInput(
            f"decode.event_time: got nothing; table {uri} is partitioned by event_date, which needs"
            " it. Nothing was decoded. Next: give event_time as it was; or give new addresses for"
            " all of its tables: then everything that is landed is decoded again"
        )
    return partition_by


def _there(run: RunContext, plan: DecodePlan, name: str) -> tuple[str, ...]:
    """A table's data files that may hold rows at the plan's coordinates, to be compared with."""
    assert run.typed is not None
    table = run.typed.by_type.get(name, run.typed.quarantine)
    if not plan.is_again or (version := table.observe().version) is None:
        return ()
    return table.files_at(plan.ranges, version)


def _prepare_tables(run: RunContext, attempt: TypedAttempt) -> None:
    """Make the tables where they are not there, and add the columns that the plan needs."""
    assert run.typed is not None
    decode = run.stream.decode
    assert decode is not None
    wanted: tuple[tuple[TablePort, tuple[Field, ...], list[str]], ...] = (
        *(
            (
                run.typed.by_type[name],
                typed_columns(attempt.plan.of_type(name)),
                [*decode.table.partition_by],
            )
            for name in attempt.plan.tables
        ),
        (run.typed.quarantine, delta_fields(QUARANTINE_COLUMNS), []),
    )
    for table, fields, partition_by in wanted:
        kept = kept_for(run.stream.maintenance.vacuum_hours)
        table.create(run.stream.stream, attempt.change.ledger_id, partition_by, fields, kept)
    note_tables(run)  # which refuses another's before it is changed
    for table, fields, _ in wanted:
        table.add_columns(fields)
    reach("decode:prepared")


def commit_all_tables(
    run: RunContext, attempt: TypedAttempt, result: DecodeResult, frozen: DecodeRecord
) -> DecodeRecord:
    """Commit to all tables, also of event types that the plan does not know yet.

    The typed tables come first: if the attempt dies in between, a record that has left quarantine
    may stand in both, and the next attempt removes it from one. It never stands in neither.

    Raises:
        VerificationFailed: Spark's files are not what it reported.
        ServiceAway: A store is away.
    """
    assert run.typed is not None
    plan, change, version = attempt.plan, attempt.change, None
    by_type: list[TypeRows] = []
    for name, table in run.typed.by_type.items():
        if name not in plan.tables and not table.observe().exists:
            continue
        rows = result.by_type.get(name, SparkResult()) if plan.types else result.decoded
        version = _commit(table, plan.tables.get(name, name), change, rows).version
        if name in plan.tables and plan.types:
            by_type.append(TypeRows(name, version, rows.rows))
        reach("decode:committed")
    beside = _commit(run.typed.quarantine, plan.quarantine_uri, change, result.quarantined)
    return replace(
        frozen,
        table_version=version,
        quarantine_version=beside.version,
        by_type=tuple(by_type),
    )


def _commit(table: TablePort, uri: str, change: TableChange, result: SparkResult) -> TableCommit:
    """Put an attempt's files where the rows at its coordinates stand."""
    before = table.observe().version
    if before is None:
        raise ServiceAway(f"table {uri} is gone: nothing was committed, run again")
    with discarding(change, table):
        written = table.written(change, result)
        if doubled := sum(held.duplicates for held in written.landed.values()):
            raise VerificationFailed(
                f"{change.commit_id}: Spark has written {how_many(doubled, 'row')} too many into"
                f" {uri}; nothing was committed, run again",
                commit_id=change.commit_id,
            )
        return commit_checked(table, change, written.files, after_version=before)


_ROUNDS = 5
"""How many times the registry is asked about ids that records bring, a thousand at a time: each
round is a pass over the records. Whoever sends more made-up ids halts nobody: the rest is unknown.
"""


def execute_decoding(run: RunContext, plan: DecodePlan) -> DecodeRecord:
    """Decode a plan, freeze it if it is not frozen, and commit its rows.

    Raises:
        ServiceAway: Registry, Spark or a store is away.
    """
    attempt, result = decode(run, plan)
    halt_on_bad_rows(run, attempt, result)
    return commit(run, attempt, result)


def commit(run: RunContext, attempt: TypedAttempt, result: DecodeResult) -> DecodeRecord:
    """Freeze an attempt's plan, and put its rows in place.

    Returns:
        The open record, still to be verified.
    """
    classes = tuple(sorted(result.classes.items()))
    failed = tuple(result.failed.items())
    tombstones = result.tombstones
    untold = _untold(run, attempt.plan) if result.bare_updates else ()
    frozen = DecodeRecord(
        attempt.plan, tombstones=tombstones, classes=classes, failed=failed, untold=untold
    )
    for notice in frozen.notices:
        log.warning("%s", notice)
    reach("decode:freezing")
    run.ledger.update(lambda state: _with_open(state, frozen))
    reach("decode:frozen")
    made = commit_all_tables(run, attempt, result, frozen)
    run.ledger.update(lambda state: _with_open(state, made))
    reach("decode:noted")
    return made


def _untold(run: RunContext, plan: DecodePlan) -> tuple[str, ...]:
    """Columns in which a null may be an untold value, each once a table."""
    known = run.ledger.read().decoding.told
    return tuple(n for part in plan.parts for n in untold_columns(part) if n not in known)


def decode(run: RunContext, plan: DecodePlan) -> tuple[TypedAttempt, DecodeResult]:
    """Have Spark decode, once more for as long as records bring schemas that nobody knew.

    Returns:
        The attempt, whose plan has all schemas; and what Spark has written, not committed.

    Raises:
        BadInput: A field that the stream file lists, or the event's time, is in none of them.
    """
    attempt, result = _decoded(run, plan)
    try:
        if plan.ranges:  # else no record has said which schemas there are
            refuse_missing_fields(run, parts_with_known_fields(attempt.plan))
            for name in attempt.plan.tables:
                of_type = attempt.plan.of_type(name)
                if of_type.has_writers:  # else no record has brought one
                    refuse_unknown_columns(run, of_type)
    except BadInput:
        attempt.discard(run)
        raise
    return attempt, result


def _decoded(run: RunContext, plan: DecodePlan) -> tuple[TypedAttempt, DecodeResult]:
    sizes: dict[tuple[str, str], int] = {
        (part.part, part.type): part.reader.size for part in plan.parts
    }
    for _ in range(_ROUNDS):
        attempt = begin_typed_attempt(run, plan)
        result = submit_decoding(run, attempt)
        if not result.asks_again:
            return attempt, result
        attempt.discard(run)
        new = sum(map(len, (*result.new_ids.values(), *result.new_schemas.values())))
        log.info("decoding once more, with %s that records brought", how_many(new, "new schema"))
        parts = parts_with(run, plan, result.new_ids, result.new_schemas, sizes)
        plan = replace(plan, parts=parts)
    attempt = begin_typed_attempt(run, plan)
    result = submit_decoding(run, attempt, is_last_round=True)
    if result.unasked:
        log.warning(
            "%d records of plan %s carry schema ids that nobody has looked up: they bring more new"
            " ids than a run asks for. They are in quarantine as unknown_schema; tideline redrive"
            " asks for the next ones",
            result.unasked,
            plan.plan_id,
        )
    return attempt, result


def halt_on_bad_rows(run: RunContext, attempt: TypedAttempt, result: DecodeResult) -> None:
    """Halt where rows fail what halts, or more goes into quarantine than the stream file allows."""
    plan, quarantined = attempt.plan, sum(result.classes.values())
    if plan.redrives and not plan.is_again:
        return  # they are in quarantine already
    rules = {name for name, rule in plan.rules.items() if rule.on_fail == "halt"}
    failed = {name: n for name, n in result.failed.items() if n and name in rules}
    if result.halting and not may_quarantine(run, "expectation_failed", plan.ranges, failed):
        _halt(
            run,
            attempt,
            "expectation_failed",
            f"no record that fails {' or '.join(sorted(failed))} (decode.expect)",
            f"{result.halting} of {how_many(result.raw_rows, 'record')}: {_by_name(failed)}",
            failed,
        )
    no_fault = sum(result.classes.get(name, 0) for name in NO_FAULT)
    buried = quarantined - no_fault - result.halting  # these are decided
    shares = [(share_of_quarantine(result.raw_rows, buried), buried, result.raw_rows, "")]
    if plan.types:  # records of no type may be a hundred times as many
        read = sum(rows.rows for rows in result.by_type.values()) + result.bad_of_types
        bad = result.bad_of_types - result.classes.get(NO_CHANGE, 0) - result.halting
        shares.append((share_of_quarantine(read, bad), bad, read, " of its types"))
    share, buried, asked, whose = max(shares)
    is_share_decided = may_quarantine(run, "quarantine_share", plan.ranges, result.classes)
    if share > plan.max_share and not is_share_decided:
        _halt(
            run,
            attempt,
            "quarantine_share",
            f"at most {plan.max_share:.1%} (decode.quarantine.max_share)",
            f"{buried:,} of {how_many(asked, 'record')}{whose} ({share:.1%}):"
            f" {_by_name(result.classes)}",
            result.classes,
        )


def _by_name(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))


def _halt(
    run: RunContext,
    attempt: TypedAttempt,
    kind: FindingClass,
    expected: str,
    actual: str,
    names: Iterable[str],
) -> NoReturn:
    attempt.discard(run)
    first, *more = attempt.plan.ranges
    finding = Finding(
        kind=kind,
        expected=expected,
        actual=actual,
        topic=None if more else first.topic,
        topic_id=None if more else first.topic_id,
        partition=None if more else first.partition,
        intervals=() if more else (first.offsets,),
        ranges=attempt.plan.ranges,
        names=tuple(names),
    )
    raise decoding_halted(run, finding)


def _with_open(state: LedgerState, record: DecodeRecord) -> LedgerState:
    return replace(state, decoding=replace(state.decoding, open=record))
