"""The commands that look and change nothing, and the demo."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from tideline.cli.output import Output, closed_line, grid, grid_of, headroom_lines
from tideline.contract.answers import Validation
from tideline.contract.building import build_audit, build_ledger
from tideline.errors import AuditNotClean, BadInput, StreamFileError
from tideline.model.request import RunRequest
from tideline.operations.reading import audit_stream
from tideline.rules.audit import TypedAudit
from tideline.stream.files import Problem, read_stream
from tideline.wiring import open_ledger, open_run

_SHOWN = 20
"""How many of the newest runs, closed incidents and rewinds a person is shown."""


def validate(options: argparse.Namespace, output: Output) -> int:
    """Check stream files; report every problem of every file."""
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
    answer = Validation(streams=list(names))
    output.answer(answer, *(f"{file}: {name}" for name, file in names.items()))
    return 0


def ledger(options: argparse.Namespace, output: Output) -> int:
    """Show head, plans, coverage, incidents and rewinds."""
    stream = read_stream(options.file)
    store = open_ledger(stream)
    state = store.read()
    closed_runs, closed_incidents = list(store.closed_runs()), list(store.closed_incidents())
    rewinds = store.rewinds()
    answer = build_ledger(
        stream.stream, store.store.location, state, closed_runs, closed_incidents, rewinds
    )
    positions = ("topic", "partition", "generation", "next_offset", "leader_epoch", "followed")
    runs = ("run_id", "lane", "status", "offsets", "rows", "table_version")
    output.answer(
        answer,
        f"ledger {answer.location}, version {answer.version}",
        grid_of(positions, answer.head),
        *headroom_lines(answer.headroom),
        *(f"open: {incident}" for incident in state.open_incidents),
        *(f"closed: {closed_line(incident)}" for incident in closed_incidents[-_SHOWN:]),
        *(str(rewind) for rewind in rewinds[-_SHOWN:]),
        grid_of(runs, answer.plans[-_SHOWN:]),
    )
    return 0


def audit(options: argparse.Namespace, output: Output) -> int:
    """Compare ledger, table and broker."""
    stream = read_stream(options.file)
    with open_run(stream, "audit", RunRequest()) as run:
        result, findings = audit_stream(run)
    answer = build_audit(result, findings)
    kinds = ("gaps", "overlaps", "duplicates", "missing", "foreign", "unverified")
    flaws = {kind: getattr(answer, kind) for kind in kinds}
    columns = ("topic", "partition", "generation", "start_offset", "end_offset", "offsets")
    rows = [
        [kind, *(getattr(flaw, name) for name in columns)] for kind in kinds for flaw in flaws[kind]
    ]
    counts = ", ".join(f"{len(flaws[kind])} {kind}" for kind in kinds)
    output.answer(
        answer,
        *([grid(("flaw", *columns), rows)] if rows else []),
        *(f"damaged: {file}" for file in result.damaged),
        *typed_lines(result.typed),
        *(str(finding) for finding in findings),
        f"{'clean' if answer.clean else 'NOT CLEAN'}: {answer.rows} rows, {counts}",
    )
    return 0 if answer.clean else AuditNotClean.exit_code


def typed_lines(typed: TypedAudit | None) -> list[str]:
    """The typed tables in a line; and what is wrong there."""
    if typed is None:
        return []
    line = (
        f"typed tables: {typed.rows} rows, {typed.quarantined} in quarantine,"
        f" {typed.pending} offsets to decode"
        + (f", {typed.let_go} quarantined rows have expired" if typed.let_go else "")
    )
    return [line, *([str(typed)] if not typed.clean else [])]


def demo(options: argparse.Namespace, output: Output) -> int:
    """Start the embedded stack, land sample events, and prove the result."""
    checkout = Path(__file__).parents[3]
    if not (checkout / "devstack").is_dir():
        raise BadInput(
            f"tideline demo: no devstack/ in {checkout}. The embedded stack is not in the package:"
            " run the command in a checkout of Tideline"
        )
    sys.path.insert(0, str(checkout))
    try:
        # By its name: nothing that ships depends on what is only in a checkout.
        run_demo: Callable[[Output], int] = import_module("devstack.demo").run_demo
    except ModuleNotFoundError as error:
        raise BadInput(
            f"tideline demo: the Python module {error.name} is missing; `make setup` installs it"
        ) from error

    return run_demo(output)
