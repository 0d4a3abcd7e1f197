"""The commands about tables made of the raw one: decode, redrive, fold, look, sweep."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tideline.cli.output import CommandOutput
from tideline.cli.runs import new_run_id, watched_run
from tideline.contract.answers import CurrentView, Swept
from tideline.contract.building import (
    build_checked,
    build_decoded,
    build_decoded_again,
    build_folded,
    build_redriven,
)
from tideline.errors import AuditNotClean, BadInput
from tideline.model.current import Folding, FoldRecord
from tideline.model.decoding import DecodeRecord
from tideline.model.request import RunRequest, read_time
from tideline.model.wording import how_many, shown
from tideline.pipeline.run_batch import decode_batch, fold_batch
from tideline.stream.stream import Stream
from tideline.wiring import open_run

if TYPE_CHECKING:
    from tideline.folding.current_checking import CurrentCheck


def decode(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Decode the landed rows that are not decoded yet; land nothing.

    The id of an earlier run decodes its plan again. With --again, all rows that an older version of
    the rules decoded are decoded again by the present rules; with --since only those at or after
    that time.
    """
    if options.again:
        _decode_again(stream, options, output)
        return
    if options.since is not None:
        raise BadInput(f"--since: got {shown(options.since)}; allowed only together with --again")
    with watched_run(stream, options.run_id or new_run_id()) as context:
        decode_batch(context)
    lines = decoded_lines(context.decoded) or ["nothing to decode"]
    output.answer(build_decoded(context.run_id, context.decoded), *lines)


def _decode_again(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    from tideline.operations.redrive import decode_again  # other commands need none

    since = None if options.since is None else read_time("--since", options.since)
    doing = f"decoding again what {stream.stream} has landed"
    with watched_run(stream, options.run_id or new_run_id("again"), doing=doing) as context:
        done = decode_again(context, since)
    output.answer(
        build_decoded_again(context.run_id, done),
        f"decoded {how_many(done.asked, 'offset')} again; rows that changed: {done.changed:,} in"
        f" the typed table, {done.quarantine_changed:,} in the quarantine table",
    )


def redrive(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Decode quarantined records again.

    Without options all of them; otherwise only some error classes, or records at or after --since.
    """
    from tideline.operations.redrive import redrive as redrive_records  # other commands need none

    since = None if options.since is None else read_time("--since", options.since)
    doing = f"looking for quarantined records of {stream.stream}"
    with watched_run(stream, options.run_id or new_run_id("redrive"), doing=doing) as context:
        redriven = redrive_records(context, vars(options)["class"], since)
    answer = build_redriven(context.run_id, redriven)
    output.answer(
        answer,
        f"{answer.moved:,} of {how_many(answer.asked, 'quarantined record')} became typed rows;"
        f" {answer.left:,} stay in quarantine",
    )


def fold(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> int:
    """Update the current table from the decoded rows; land and decode nothing.

    The command folds at once, whatever current.every says. The id of an earlier run folds its
    changes again. With --anew every bucket is rebuilt from all decoded rows.
    """
    run_id = options.run_id or new_run_id()
    if options.check:
        return _check(stream, run_id, options.buckets, output)
    if options.buckets is not None:
        raise BadInput(f"--buckets: got {options.buckets}; allowed only together with --check")
    with watched_run(stream, run_id) as context:
        fold_batch(context, "anew" if options.anew else "due")
        folding = context.ledger.read().folding
    lines = folded_lines(context.folded, folding) or ["nothing to fold"]
    output.answer(build_folded(run_id, context.folded, folding), *lines)
    return 0


def _check(stream: Stream, run_id: str, count: int | None, output: CommandOutput) -> int:
    from tideline.folding.current_checking import check_current  # other commands need none

    if count is not None and count < 1:
        raise BadInput(f"--buckets: got {count}; allowed: 1 or more")
    doing = f"folding the changes of {stream.stream} once more, and comparing"
    with watched_run(stream, run_id, doing=doing) as context:
        check = check_current(context, count)
    answer = build_checked(check)
    summary = "clean: the current table matches" if answer.clean else "NOT CLEAN: checked against"
    if check.buckets:
        summary = f"{summary} (buckets {', '.join(map(str, check.buckets))})"
    output.answer(
        answer,
        *map(str, check.flaws),
        f"{summary} {how_many(answer.changes, 'change')}; {how_many(answer.rows, 'row')},"
        f" {answer.deleted:,} deleted",
        *([] if answer.clean else [_after_flaws(check)]),
    )
    return 0 if answer.clean else AuditNotClean.exit_code


def _after_flaws(check: CurrentCheck) -> str:
    anew = "Next: tideline fold FILE --anew"
    if any(flaw.place == "order" for flaw in check.flaws):
        return f"{anew}, which halts with key_moved: then decide what orders the changes"
    return anew


def current_view(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Print SQL that returns the latest row of each key, including changes not folded yet.

    The SQL stays right while more changes are folded; SQL that is printed again later reads less.
    With --history the SQL returns every version of each row, from the typed table alone.
    """
    from tideline.folding.views import view_of  # other commands need none

    names = None if options.names is None else tuple(options.names)
    if names and (not all(map(str.strip, names)) or names[0] == names[1]):
        raise BadInput(f"--names: got {shown(list(names))}; allowed: the names of two tables")
    with open_run(stream, "current", RunRequest()) as run:
        sql = view_of(run, options.sql, names, is_history=options.history)
    output.answer(CurrentView(sql=sql), sql)


def sweep(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """List rows whose delete was lost: rows that the last complete snapshot no longer contains.

    With --rows N the command deletes the rows, if there are still N of them.
    """
    from tideline.folding import sweeping  # other commands need none

    doing = f"looking for rows of {stream.stream} that no snapshot has"
    with watched_run(stream, new_run_id("sweep"), doing=doing) as context:
        if options.rows is None:
            stale, record = sweeping.find_stale_rows(context), None
        else:
            stale, record = sweeping.sweep(context, options.rows)
    is_done = record is not None
    answer = Swept(
        status="done" if is_done else "listed" if stale.rows else "nothing_to_do",
        rows=stale.rows,
        keys=stale.keys,
        snapshot_began_at=stale.began_at,
        snapshot_ended_at=stale.ended_at,
    )
    keys = (", ".join(f"{n}={v}" for n, v in key.items()) for key in stale.keys)
    since, until = stale.began_at, stale.ended_at
    rows = how_many(stale.rows, "row")
    what = "were deleted" if is_done else "no longer exist at the source"
    more = stale.rows - len(stale.keys)
    output.answer(
        answer,
        f"the last complete snapshot: {since:%Y-%m-%d %H:%M:%S} to {until:%H:%M:%S}",
        *(f"  {key}" for key in keys),
        *([f"  and {more} more"] if more else []),
        f"{rows} {what}",
        *([f"Next: tideline sweep FILE --rows {stale.rows}"] if answer.status == "listed" else []),
    )


def decoded_lines(record: DecodeRecord | None) -> list[str]:
    """What became of raw rows, for people; nothing where none was decoded."""
    if record is None:
        return []
    classes = ", ".join(f"{name} {count:,}" for name, count in record.classes)
    failed = ", ".join(f"{name} {count:,}" for name, count in record.failed if count)
    of_types = ", ".join(f"{t.name} {t.rows:,}" for t in record.by_type)
    return [
        f"decoded: {record.decoded:,}{f' ({of_types})' if of_types else ''},"
        f" tombstones {record.tombstones:,}, quarantined"
        f" {record.quarantined:,}{f' ({classes})' if classes else ''}"
        f"{f'; expectations not met: {failed}' if failed else ''}",
        *map(str, record.notices),
    ]


def folded_lines(record: FoldRecord | None, folding: Folding) -> list[str]:
    """What was folded, for people; nothing where nothing was."""
    if record is None:
        return []
    without = f", {record.keyless} without a key" if record.keyless else ""
    return [
        f"folded: {how_many(record.changes, 'change')}{without} into"
        f" {how_many(len(record.buckets), 'bucket')}; {how_many(folding.live, 'row')},"
        f" {folding.deleted:,} deleted"
    ]
