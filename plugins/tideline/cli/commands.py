"""One function per command; each returns the exit status."""

from __future__ import annotations

import argparse
import sys
import uuid
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tideline.cli.output import (
    Output,
    ended_line,
    finding_data,
    grid,
    headroom_data,
    headroom_lines,
    incident_data,
    rewind_data,
)
from tideline.errors import BadInput, Halted, ServiceAway, StreamFileError, TidelineError
from tideline.json_codec import to_data
from tideline.model.plan import PlannedRange
from tideline.model.request import RunRequest, read_form
from tideline.model.run import RunRecord
from tideline.model.stream import Stream
from tideline.operations.audit import audit_stream
from tideline.operations.dry_run import dry_run
from tideline.pipeline.run_batch import run_batch
from tideline.stream_files import Problem, read_stream
from tideline.wiring import open_ledger, open_run

_RANGE = ("topic", "partition", "generation", "start_offset", "end_offset")


def validate(options: argparse.Namespace, output: Output) -> int:
    """Check stream files; every problem of every file is shown."""
    names: dict[str, str] = {}
    problems: list[dict[str, Any]] = []
    messages: list[str] = []
    for file in options.files:
        try:
            stream = read_stream(file)
        except StreamFileError as error:
            problems += error.problems
            messages.append(error.message)
            continue
        if stream.stream in names:
            first = names[stream.stream]
            problem = Problem(file, 1, "stream", repr(stream.stream), f"{first} has it already")
            problems.append(asdict(problem))
            messages.append(str(problem))
        names.setdefault(stream.stream, file)
    if messages:
        raise StreamFileError("\n".join(messages), problems=problems)
    output.answer({"streams": list(names)}, *(f"{file}: {name}" for name, file in names.items()))
    return 0


def plan(options: argparse.Namespace, output: Output) -> int:
    """Plan and detect; persists nothing."""
    stream = read_stream(options.file)
    with open_run(stream, "plan", _request(options)) as run:
        found = dry_run(run)
    proposal, findings = found.proposal, found.findings
    data = {
        "stream": stream.stream,
        "ranges": [to_data(r) for r in proposal.ranges],
        "findings": [finding_data(f) for f in findings],
        "incidents": [incident_data(i) for i in found.incidents],
        "notices": [to_data(n) for n in found.notices],
        "headroom": [headroom_data(h) for h in found.headroom],
        "gone": [to_data(g) for g in proposal.gone],
        "estimated_records": proposal.estimated_records,
        "estimated_bytes": proposal.estimated_bytes,
        "offset_lag": proposal.offset_lag,
    }
    rows = [[getattr(r, name) for name in _RANGE] for r in proposal.ranges]
    summary = f"{proposal.estimated_records} offsets to read, {proposal.offset_lag} left for later"
    if found.halts:
        summary = f"nothing will be read: {len(findings)} findings, {len(proposal.gone)} gone"
    output.answer(
        data,
        grid(_RANGE, rows),
        *headroom_lines(found.headroom),
        *(str(n) for n in found.notices),
        *(str(f) for f in findings),
        *(f"gone from Kafka: {g}" for g in proposal.gone),
        *(f"open: {i}" for i in found.incidents),
        summary,
    )
    if found.halts:
        return Halted.exit_code
    return ServiceAway.exit_code if any(f.kind == "transient" for f in findings) else 0


def run(options: argparse.Namespace, output: Output) -> int:
    """One run through all steps."""
    stream = read_stream(options.file)
    if options.run_id is None:
        options.run_id = f"manual__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}__{uuid.uuid4().hex[:8]}"
    request = _request(options)
    try:
        with open_run(stream, options.run_id, request) as context:
            record = run_batch(context)
    except TidelineError as error:
        output.error(error, _unfinished(stream, options.run_id, request))
        return error.exit_code
    data = run_data(record)
    columns = (*_RANGE, "rows")
    table = grid(columns, ([r[name] for name in columns] for r in data["ranges"]))
    lines = [table] if data["ranges"] else []
    summary = "nothing to do"
    if record.superseded_by is not None:
        summary = f"nothing to do: superseded by {record.superseded_by}"
    elif record.table_commit is not None:
        summary = (
            f"done: {data['rows']} rows, table version {record.table_commit.version},"
            f" {data['offset_lag']} offsets left for later"
        )
    output.answer(data, *lines, summary)
    return 0


def run_data(record: RunRecord) -> dict[str, Any]:
    """A closed run with the keys of the contract."""
    found = record.plan
    ranges = [_range_data(v.planned, v.rows) for v in record.verified]
    return {
        "status": "done" if record.status == "done" else "nothing_to_do",
        "run_id": record.run_id,
        "plan_id": found.plan_id if found is not None else None,
        "lane": record.lane,
        "ranges": ranges,
        "rows": sum(r["rows"] for r in ranges),
        "offset_lag": found.offset_lag if found is not None else 0,
        "table_version": record.table_commit.version if record.table_commit is not None else None,
        "incidents": [incident_data(i) for i in record.resolved],
        "notices": [to_data(n) for n in record.notices],
        "superseded_by": record.superseded_by,
        "window": str(record.request.window) if record.request.window is not None else None,
        "reason": record.request.reason,
    }


def _request(options: argparse.Namespace) -> RunRequest:
    """What --from, --to and --ranges ask for."""
    form = {"from": options.window_start, "to": options.window_end, "ranges": options.ranges}
    return read_form(form, datetime.now(UTC))


def _unfinished(stream: Stream, run_id: str, request: RunRequest) -> dict[str, Any]:
    """What the ledger knows of a run that did not come to its end."""
    record = None
    with suppress(ServiceAway):
        record = open_ledger(stream).find_run(run_id)
    if record is None:
        record = RunRecord(run_id, request.lane, "proposed", "", datetime.now(UTC))
    data = {**run_data(record), "offset_lag": None}
    if record.plan is not None and not record.verified:
        data["ranges"] = [_range_data(r) for r in record.plan.ranges]
    return data


def ledger(options: argparse.Namespace, output: Output) -> int:
    """Head, open and closed plans, coverage."""
    stream = read_stream(options.file)
    found = open_ledger(stream)
    state = found.read()
    closed, ended = list(found.closed_runs()), list(found.closed_incidents())
    rewinds = found.rewinds()
    head = [to_data(p) for p in state.head.positions]
    runs = [*closed, *state.runs.values()]
    data: dict[str, Any] = {
        "location": found.store.location,
        "stream": stream.stream,
        "version": state.version,
        "head": head,
        "plans": [_plan_data(r) for r in runs],
        "coverage": [to_data(c) for c in state.head.coverage],
        "incidents": [incident_data(i) for i in (*state.control.incidents, *ended)],
        "headroom": [headroom_data(h) for h in state.head.headroom],
        "rewinds": [rewind_data(r) for r in rewinds],
    }
    columns = ("topic", "partition", "generation", "next_offset", "leader_epoch")
    plan_columns = ("run_id", "lane", "status", "offsets", "rows", "table_version")
    output.answer(
        data,
        f"ledger {found.store.location}, version {state.version}",
        grid(columns, ([p[name] for name in columns] for p in head)),
        *headroom_lines(state.head.headroom),
        *(f"open: {i}" for i in state.control.incidents),
        *(f"closed: {ended_line(i)}" for i in ended[-20:]),
        *(str(r) for r in rewinds[-20:]),
        grid(plan_columns, ([p[name] for name in plan_columns] for p in data["plans"][-20:])),
    )
    return 0


def audit(options: argparse.Namespace, output: Output) -> int:
    """Hold ledger, table and broker against each other."""
    stream = read_stream(options.file)
    with open_run(stream, "audit", RunRequest()) as run:
        found, findings = audit_stream(run)
    clean = found.clean and not findings
    data = {
        **to_data(found),
        "clean": clean,
        "findings": [finding_data(f) for f in findings],
    }
    kinds = ("gaps", "overlaps", "duplicates", "missing", "foreign", "unverified")
    columns = ("flaw", "topic", "partition", "generation", "start_offset", "end_offset", "offsets")
    rows = [[kind, *(flaw[name] for name in columns[1:])] for kind in kinds for flaw in data[kind]]
    counts = ", ".join(f"{len(data[kind])} {kind}" for kind in kinds)
    output.answer(
        data,
        *([grid(columns, rows)] if rows else []),
        *(str(f) for f in findings),
        f"{'clean' if clean else 'NOT CLEAN'}: {found.rows} rows, {counts}",
    )
    return 0 if clean else 6


def demo(options: argparse.Namespace, output: Output) -> int:
    """The embedded stack, from nothing to a proof."""
    checkout = Path(__file__).parents[3]
    if not (checkout / "devstack").is_dir():
        raise BadInput(
            "tideline demo needs a checkout of Tideline: the embedded stack is not packaged"
        )
    sys.path.insert(0, str(checkout))
    try:
        from devstack.demo import run_demo
    except ModuleNotFoundError as error:
        raise BadInput(
            f"tideline demo: the Python module {error.name} is missing; `make setup` installs it"
        ) from error

    return run_demo(output)


def _plan_data(record: RunRecord) -> dict[str, Any]:
    found = record.plan
    return {
        "run_id": record.run_id,
        "plan_id": found.plan_id if found is not None else None,
        "lane": record.lane,
        "status": record.status,
        "offsets": sum(len(r.offsets) for r in found.ranges) if found is not None else None,
        "rows": sum(v.rows for v in record.verified) if record.verified else None,
        "table_version": record.table_commit.version if record.table_commit is not None else None,
        "ranges": [_range_data(r) for r in found.ranges] if found is not None else [],
    }


def _range_data(planned: PlannedRange, rows: int | None = None) -> dict[str, Any]:
    names = ("topic", "topic_id", "generation", "partition", "start_offset", "end_offset")
    return {**{name: getattr(planned, name) for name in names}, "rows": rows}
