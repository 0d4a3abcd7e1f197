"""The commands that erase by key, and show what was erased."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from tideline.cli.output import Output, grid, os_user
from tideline.cli.runs import new_run_id, watched_spark
from tideline.contract.answers import Erasure
from tideline.contract.building import build_erased, build_erasures
from tideline.contract.shapes import CoordinateTuple
from tideline.errors import AuditNotClean, BadInput
from tideline.landing.context import now
from tideline.model.erasing import untold_text
from tideline.model.request import RunRequest
from tideline.model.wording import first_few, not_among, shown, size_text
from tideline.stream.files import read_stream
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger, open_run, open_tables

_COLUMNS = ("table", "rows", "files that may hold them", "size", "out since version", "deleted")


def erase(options: argparse.Namespace, output: Output) -> int:
    """Erase the records of keys out of every table of the stream, and keep them out.

    With --plan nothing is changed. Without a key, erasures that were cut off go on, and files whose
    time has come are deleted. The ledger keeps coordinates and keyed hashes of the keys, which are
    pseudonyms: whoever can read the ledger can test guesses.
    """
    from tideline.operations.erase_finding import AskedKeys, read_keys  # other commands need none
    from tideline.operations.erasing import (
        ErasePlan,
        EraseRequest,
        finish_erasures,
        plan_erasure,
    )
    from tideline.operations.erasing import erase as erase_records

    stream = read_stream(options.file, options.stream)
    keys = tuple(map(_key, options.key))
    raw_keys = tuple(map(_raw_key, options.raw_key))
    if options.keys_from is not None:
        keys = (*keys, *read_keys(Path(options.keys_from)))
    if not 0 < options.most <= 1:
        raise BadInput(f"--most: got {options.most}; allowed: a share above 0, and at most 1")
    by = os_user(options.by)
    tables = open_tables(stream)
    with open_run(stream, new_run_id("erase"), RunRequest(by=by), watched_spark(stream)) as run:
        if not keys and not raw_keys:
            return _answer_all(stream, output, bool(finish_erasures(run, tables)))
        asked = EraseRequest(
            AskedKeys(keys, raw_keys, options.quarantine_by_bytes, options.whole_keys),
            options.reason or ("" if not options.plan else "a plan"),
            by,
            options.future,
            options.now,
            options.most,
            tuple(options.settles),
        )
        if not options.plan:
            _ask(stream, options)
        plan: ErasePlan = (plan_erasure if options.plan else erase_records)(run, tables, asked)
    answer = build_erased(stream.stream, plan, now(), is_plan=options.plan)
    lines: list[str | Table] = []
    if answer.erasure is not None:
        lines = [_grid(answer.erasure), *_about(answer.erasure)]
    before = f"; erased before: {', '.join(answer.before)}" if answer.before else ""
    summary = {
        "planned": "nothing was changed: this is what would be done",
        "removed": "out of every table; files of older versions go when they are due",
        "done": "out of every table and every file that is reached",
        "nothing_to_do": "no record of these keys is in a table"
        + (", so later ones are not refused" if options.future else ""),
    }[answer.status]
    lines += plan.warnings
    pending = f"; {answer.undecoded:,} offsets are decoded first" if answer.undecoded else ""
    if answer.erasure is None:
        lines += _undecided(answer.undecided)
    if answer.older_keys:
        lines.append(f"{plan.found.older}: --whole-keys erases all of their changes")
    output.answer(answer, *lines, f"{summary}{pending}{before}")
    return _status(answer.erasure)


def _status(erasure: Erasure | None) -> int:
    """That of an audit, where it found a flaw."""
    audit = None if erasure is None else erasure.audit
    is_clean = audit is None or audit == "clean" or audit.startswith("not possible")
    return 0 if is_clean else AuditNotClean.exit_code


def _ask(stream: Stream, options: argparse.Namespace) -> None:
    """Ask a person at a terminal whether time travel may end.

    Raises:
        BadInput: The answer is another one, or nobody can be asked.
    """
    if not options.now or options.yes:
        return
    breaks = "--now deletes every file of older versions: time travel ends, running readers fail."
    if not sys.stdin.isatty():
        raise BadInput(f"{breaks} Nobody can be asked here; allowed: --now --yes")
    print(f"{breaks} Type the stream's name, {stream.stream}, to go on: ", end="", file=sys.stderr)
    if (said := input()) != stream.stream:
        raise BadInput(f"got {shown(said)}; allowed: {stream.stream}. Nothing was changed")


def _key(text: str) -> Mapping[str, str]:
    column, equals, value = text.partition("=")
    if not equals or not column or not value:
        raise BadInput("--key: got something else; allowed: COLUMN=VALUE")  # it may hold a key
    return {column: value}


def _raw_key(text: str) -> bytes:
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise BadInput("--raw-key: got 0x and no hexadecimal digits") from error


def erasures(options: argparse.Namespace, output: Output) -> int:
    """List erasures, those under way included; with an id, one of them as a page in Markdown."""
    stream = read_stream(options.file, options.stream)
    return _answer_all(stream, output, True, options.id)


def _answer_all(stream: Stream, output: Output, has_any: bool, only: str | None = None) -> int:
    ledger = open_ledger(stream)
    erasing, known = ledger.read().erasing, ledger.erasures()
    if only is not None and only not in (names := [e.erasure_id for e in known]):
        raise BadInput(f"erasure: {not_among(only, names)}")
    chosen = [e for e in known if only in (None, e.erasure_id)]
    answer = build_erasures(stream.stream, erasing, chosen, now())
    if only is not None:
        output.answer(answer, page_of(stream.stream, answer.erasures[0]))
        return 0
    rows = [
        [e.erasure_id, e.status, e.records, e.by, e.begun_at, e.due_at, "yes" if e.overdue else ""]
        for e in answer.erasures
    ]
    columns = ("erasure", "status", "records", "by", "begun", "due", "overdue")
    lines: list[str | Table] = [grid(columns, rows)] if rows else []
    lines += map(untold_text, answer.untold)
    tail = f"{answer.suppressed:,} coordinates are kept out, {answer.refused:,} later records were"
    output.answer(answer, *lines, f"{tail} refused" if rows or has_any else "nothing is under way")
    return max((_status(e) for e in answer.erasures if e.status != "begun"), default=0)


def _grid(erasure: Erasure) -> Table:
    return grid(
        _COLUMNS,
        [
            [
                t.table if t.table not in [e.table for e in erasure.tables[:n]] else t.uri,
                t.rows,
                t.files,
                size_text(t.bytes),
                t.version,
                None if t.vacuumed is None else t.vacuumed.files,
            ]
            for n, t in enumerate(erasure.tables)
        ],
    )


def _about(erasure: Erasure) -> list[str]:
    """What is not in the table of tables."""
    unknown = sum(t.undecided for t in erasure.tables)
    lines = [
        f"Kafka still serves {k.records:,} of them in {k.topic}"
        + ("" if k.retention_ms is None else f", for at most {k.retention_ms / 86_400_000:g} days")
        for k in erasure.kafka
    ]
    if unknown:
        lines.append(f"{unknown:,} records may be of a key, and no column tells it: read them")
    lines += _undecided(erasure.undecided)
    lines += (f"its keys are those of {name}, too" for name in erasure.settles)
    if erasure.keys and erasure.without_records:
        lines.append(f"{len(erasure.without_records)} of {len(erasure.keys)} keys had no record")
    if erasure.keys and erasure.unread != 0:
        many = "an unknown number of" if erasure.unread is None else f"{erasure.unread:,}"
        lines.append(f"{many} offsets were not landed when it was begun: it has not reached them")
    lines += (f"not reached: {place}" for place in erasure.elsewhere if "of before" in place)
    if erasure.status != "done":
        lines.append(f"the last file that may hold one goes on {erasure.due_at:%Y-%m-%d %H:%M} UTC")
    return [*lines, *([f"audit: {erasure.audit}"] if erasure.audit is not None else [])]


def _undecided(places: Sequence[CoordinateTuple]) -> list[str]:
    """Where to look before they are taken by an explicit word, or by their raw key."""
    if not places:
        return []
    shown = first_few(f"{t}-{p} [{start}, {end})" for t, _, _, p, start, end in places)
    return [f"undecided, with a key among their bytes: {shown}: --quarantine-by-bytes takes them"]


def page_of(stream: str, erasure: Erasure) -> str:
    """One erasure as a page in Markdown, for who has to show it."""
    asked = "Records and later ones" if erasure.future else "Records"
    rows = [
        f"| {t.table} | {t.uri} | {t.rows:,} | {'' if t.version is None else t.version}"
        f" | {'' if t.vacuumed is None else t.vacuumed.files:} | {t.cut} |"
        for t in erasure.tables
    ]
    without = {*erasure.without_records}
    times = {
        "begun": erasure.begun_at,
        "out of every table": erasure.removed_at,
        "files due to go": erasure.due_at,
        "done": erasure.finished_at,
    }
    return "\n".join(
        [
            f"# {erasure.erasure_id} of stream {stream}",
            "",
            f"Asked by {erasure.by}: {erasure.reason}",
            "",
            f"{asked} by {', '.join(erasure.columns)}; {len(erasure.keys)} keys, as keyed hashes:",
            "",
            *(f"- `{key}`{': **no record**' * (key in without)}" for key in erasure.keys),
            "",
            f"Status: **{erasure.status}**{', OVERDUE' if erasure.overdue else ''}."
            f" {erasure.records:,} records.",
            "",
            *(f"- {name}: {at:%Y-%m-%d %H:%M:%S} UTC" for name, at in times.items() if at),
            "",
            "| table | address | rows | out since version | files deleted | log entries deleted |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            *(f"- {line}" for line in _about(erasure)),
            "",
            "Not reached by this:",
            "",
            *(f"- {place}" for place in erasure.elsewhere),
        ]
    )
