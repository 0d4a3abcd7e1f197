"""The commands of a fleet: look for its topics, land all of them."""

from __future__ import annotations

import argparse
import logging

from tideline.cli.output import CommandOutput, first_lines
from tideline.cli.runs import new_run_id
from tideline.contract.answers import Discovered, FleetRun, FleetStream, FleetTopic
from tideline.errors import BadInput, TidelineError
from tideline.fleet.batch import GRAVEST, Batch, StreamRun, gravest, summary
from tideline.fleet.discovery import discover
from tideline.launch.progress import counted
from tideline.model.incident import entries_for
from tideline.model.request import RunRequest
from tideline.model.wording import how_many
from tideline.stream.files import read_fleet


def discover_topics(options: argparse.Namespace, output: CommandOutput) -> int:
    """Find the topics of a fleet, and keep the list beside the fleet file.

    A topic that was deleted or is hidden stays in the list: the next run of its stream finds out
    why. A fleet file that names its topics needs no list.
    """
    found = discover(options.file, is_list_new=options.new_list)
    contents = read_fleet(options.file)
    fleet = contents.fleet
    if found is None:
        raise BadInput(
            f"{options.file}: topics: the fleet file names them; `tideline validate` checks it"
        )
    problems = [*map(str, contents.problems), *found.refused]
    answer = Discovered(
        fleet=fleet.fleet,
        topics=[FleetTopic.of(topic) for topic in found.topics.topics],
        new=found.new,
        gone=found.gone,
        back=found.back,
        problems=problems,
    )
    output.answer(answer, f"{fleet.fleet}: {found}", *first_lines("", problems, 20))
    return BadInput.exit_code if problems else 0


def run_fleet(options: argparse.Namespace, request: RunRequest, output: CommandOutput) -> int:
    """Look for topics, then land each that is known: a line for each, then how many ended how."""
    if options.parallel is not None and options.parallel < 1:
        raise BadInput(f"--parallel: got {options.parallel}; allowed: 1 or more")
    if not options.verbose:  # what a run says on its way is too much of many at once
        logging.getLogger("tideline").setLevel(logging.WARNING)
    not_found: TidelineError | None = None
    refused: tuple[str, ...] = ()
    try:
        found = discover(options.file)
        if found is not None:
            output.line(f"discovered: {found}")
            refused = found.refused
    except BadInput as error:  # topics that are known land all the same
        not_found = error
    contents = read_fleet(options.file)
    fleet = contents.fleet
    if not_found is not None and not contents.is_discovered:
        raise not_found
    problems = [*map(str, contents.problems), *refused]
    if not_found is not None:
        problems.append(f"topics were not looked for: {not_found.message}")
    run_id = options.run_id or new_run_id()
    threads = options.parallel or fleet.threads
    batch = Batch(run_id, request, threads=threads, only_left=options.run_id is not None)
    runs: list[StreamRun] = []
    at_once = f"at most {threads} at once" if threads > 1 else "one after the other"
    output.tell(f"{fleet.fleet}: landing {how_many(len(contents.streams), 'topic')}, {at_once}")
    with counted(fleet.fleet, len(contents.streams)) as count_one:
        for run in batch.run(contents.streams):
            runs.append(run)
            output.line(str(run))
            count_one(run.stream)
    answer = _answer(fleet.fleet, run_id, runs, problems)
    output.answer(answer, *first_lines("", problems, 20), summary(runs))
    worst = gravest(runs) or not_found
    if worst is not None:
        return worst.exit_code
    return BadInput.exit_code if problems else 0


def _answer(fleet: str, run_id: str, runs: list[StreamRun], problems: list[str]) -> FleetRun:
    wrong = [state for state in GRAVEST if any(run.state == state for run in runs)]
    if not wrong:
        is_done = any(run.state == "done" for run in runs)
        wrong = ["failed"] if problems else ["done"] if is_done else ["nothing_to_do"]
    streams = sorted((_stream(run) for run in runs), key=lambda item: item.stream)
    return FleetRun(
        status=wrong[0],
        fleet=fleet,
        run_id=run_id,
        rows=sum(run.rows for run in runs),
        streams=streams,
        problems=problems,
    )


def _stream(run: StreamRun) -> FleetStream:
    error = run.error
    return FleetStream.of(
        run,
        status=run.state,
        seconds=round(run.seconds, 3),
        error=None if error is None else type(error).__name__,
        message=None if error is None else error.message,
        runbook=() if error is None else entries_for(error),
    )
