"""The commands that erase by key, and show what was erased."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from tideline.cli.output import CommandOutput, grid, os_user
from tideline.cli.runs import new_run_id, watched_run
from tideline.contract.answers import Erasure
from tideline.contract.building import ELSEWHERE, build_erased, build_erasures
from tideline.contract.parts import CoordinateTuple
from tideline.errors import AuditNotClean, BadInput
from tideline.landing.context import now
from tideline.model.erasures import untold_text
from tideline.model.request import RunRequest
from tideline.model.wording import first_few, how_many, not_among, shown, size_text
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger, open_tables

_ABOUT_KEYS = ("plan", "reason", "future", "now", "quarantine_by_bytes", "whole_keys", "settles")
"""Options that say something of given keys."""
_COLUMNS = ("table", "rows", "files with rows", "size", "removed in version", "deleted")


def erase(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> int:
    """Erase the records of keys from every table of the stream, and keep them out.

    With --plan nothing is changed. Without a key the command finishes interrupted erasures, and
    deletes files that are due. The ledger keeps coordinates and keyed hashes of the keys, which are
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

    keys = tuple(map(_key, options.key))
    raw_keys = tuple(map(_raw_key, options.raw_key))
    if options.keys_from is not None:
        keys = (*keys, *read_keys(Path(options.keys_from)))
    if not keys and not raw_keys:
        _refuse_what_is_about_keys(options)
    if not 0 < options.most <= 1:
        raise BadInput(f"--most: got {options.most}; allowed: a share above 0, and at most 1")
    by = os_user(options.by)
    tables = open_tables(stream)
    if (keys or raw_keys) and not options.plan:
        _ask(stream, options)
    doing = f"looking for what is to be erased in the tables of {stream.stream}"
    with watched_run(stream, new_run_id("erase"), RunRequest(by=by), doing) as run:
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
        plan: ErasePlan = (plan_erasure if options.plan else erase_records)(run, tables, asked)
    answer = build_erased(stream.stream, plan, now(), is_plan=options.plan)
    lines: list[str | Table] = []
    if answer.erasure is not None:
        lines = [_grid(answer.erasure), *_about(answer.erasure)]
    before = f"; erased before: {', '.join(answer.before)}" if answer.before else ""
    summary = {
        "planned": "nothing was changed: the lines above show what would happen",
        "removed": "removed from every table; files of older versions are deleted when due",
        "done": "removed from every table, and from every file that Tideline can reach",
        "nothing_to_do": "no table has a record of these keys"
        + (", so later records are not refused" if options.future else ""),
    }[answer.status]
    lines += plan.warnings
    pending = f"; decoded first: {how_many(answer.undecoded, 'offset')}" if answer.undecoded else ""
    if answer.erasure is None:
        lines += _undecided(answer.undecided)
    if answer.older_keys:
        lines.append(f"{plan.found.older}: --whole-keys erases all of their changes")
    output.answer(answer, *lines, f"{summary}{pending}{before}")
    return _status(answer.erasure)


def _refuse_what_is_about_keys(options: argparse.Namespace) -> None:
    """Without a key interrupted erasures are finished, and files are deleted: not by mistake.

    Raises:
        BadInput: An option says that a key was meant.
    """
    given = (name for name in _ABOUT_KEYS if getattr(options, name))
    if (name := next(given, None)) is not None:
        raise BadInput(
            f"--{name.replace('_', '-')}: got no key; allowed only with --key, --raw-key or"
            " --keys-from. Without a key the command finishes interrupted erasures, and deletes"
            " files that are due. Nothing was changed"
        )


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
    ask = f"{breaks} Type the stream's name, {stream.stream}, to continue: "
    print(ask, end="", file=sys.stderr)
    if (given := input()) != stream.stream:
        raise BadInput(f"got {shown(given)}; allowed: {stream.stream}. Nothing was changed")


def _key(text: str) -> Mapping[str, str]:
    column, equals, value = text.partition("=")
    if not equals or not column or not value:
        raise BadInput(  # the text may be a key
            "--key: got another form; allowed: COLUMN=VALUE, with a value; is a variable of the"
            " shell not set?"
        )
    return {column: value}


def _raw_key(text: str) -> bytes:
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise BadInput(
            "--raw-key: got 0x and no hexadecimal digits; allowed: two for each byte, or text"
        ) from error


def erasures(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> int:
    """List all erasures; with an ID, print a report about one erasure in Markdown."""
    return _answer_all(stream, output, True, options.id)


def _answer_all(
    stream: Stream, output: CommandOutput, has_any: bool, only: str | None = None
) -> int:
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
    tail = f"coordinates kept out: {answer.suppressed:,}; later records refused: {answer.refused:,}"
    output.answer(answer, *lines, tail if rows or has_any else "nothing is under way")
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
        many = how_many(unknown, "record")
        lines.append(f"{many} may belong to a key, which no column shows: read them")
    lines += _undecided(erasure.undecided)
    lines += (f"its keys are also the keys of {name}" for name in erasure.settles)
    if erasure.keys and erasure.without_records:
        keys = how_many(len(erasure.keys), "key")
        lines.append(f"{len(erasure.without_records)} of {keys} had no record")
    if erasure.keys and erasure.unread != 0:
        many = (
            "an unknown number of offsets"
            if erasure.unread is None
            else how_many(erasure.unread, "offset")
        )
        lines.append(f"not reached, because not landed when the erasure began: {many}")
    lines += (f"not reached: {place}" for place in erasure.elsewhere if place not in ELSEWHERE)
    if erasure.status != "done":
        due = f"{erasure.due_at:%Y-%m-%d %H:%M} UTC"
        lines.append(f"the last file that may contain an erased record is deleted on {due}")
    return [*lines, *([f"audit: {erasure.audit}"] if erasure.audit is not None else [])]


def _undecided(places: Sequence[CoordinateTuple]) -> list[str]:
    """Where to look before they are taken by an explicit word, or by their raw key."""
    if not places:
        return []
    shown = first_few(f"{t}-{p} [{start}, {end})" for t, _, _, p, start, end in places)
    return [f"undecided, with a key in their bytes: {shown}: --quarantine-by-bytes erases them"]


def page_of(stream: str, erasure: Erasure) -> str:
    """One erasure as a page in Markdown, for who has to show it."""
    keys = how_many(len(erasure.keys), "key")
    asked = "Records and later records" if erasure.future else "Records"
    rows = [
        f"| {t.table} | {t.uri} | {t.rows:,} | {'' if t.version is None else t.version}"
        f" | {'' if t.vacuumed is None else t.vacuumed.files:} | {t.cut} |"
        for t in erasure.tables
    ]
    without = {*erasure.without_records}
    times = {
        "begun": erasure.begun_at,
        "removed from every table": erasure.removed_at,
        "files due for deletion": erasure.due_at,
        "done": erasure.finished_at,
    }
    return "\n".join(
        [
            f"# {erasure.erasure_id} of stream {stream}",
            "",
            f"Asked by {erasure.by}: {erasure.reason}",
            "",
            f"{asked} by {', '.join(erasure.columns)}; {keys}, as keyed hashes:",
            "",
            *(f"- `{key}`{': **no record**' * (key in without)}" for key in erasure.keys),
            "",
            f"Status: **{erasure.status}**{', OVERDUE' if erasure.overdue else ''}."
            f" {how_many(erasure.records, 'record')}.",
            "",
            *(f"- {name}: {at:%Y-%m-%d %H:%M:%S} UTC" for name, at in times.items() if at),
            "",
            "| table | address | rows | removed in version | files deleted | log entries deleted |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            *(f"- {line}" for line in _about(erasure)),
            "",
            "Not reached by the erasure:",
            "",
            *(f"- {place}" for place in erasure.elsewhere),
        ]
    )
