"""`tideline rewind`: put table and ledger back to the state after a run."""

from __future__ import annotations

import argparse

from tideline.cli.output import Output
from tideline.cli.who import os_user
from tideline.contract.building import (
    build_not_rewound,
    build_rewind_failure,
    build_rewound,
)
from tideline.errors import TidelineError
from tideline.model.request import RunRequest
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.stream_files import read_stream
from tideline.wiring import open_run


def rewind(options: argparse.Namespace, output: Output) -> int:
    """Put table and ledger back to the state after a run.

    Every later run is undone. The same command again finishes an interrupted rewind.
    """
    stream = read_stream(options.file)
    by = os_user(options.by)
    asked = RewindRequest(options.to_run, options.reason, by, options.accept_loss)
    try:
        with open_run(stream, "rewind", RunRequest(by=by)) as run:
            finished = rewind_stream(run, asked)
            head = run.ledger.read().head
    except TidelineError as error:
        output.error(error, build_rewind_failure(error, asked.to_run))
        return error.exit_code
    if finished is None:
        output.answer(
            build_not_rewound(asked.to_run, head),
            f"nothing to do: this is the state after run {asked.to_run}",
        )
        return 0
    output.answer(
        build_rewound(finished, head),
        f"{finished.rewind_id}: {len(finished.undone_runs)} runs undone, {finished.rows} rows"
        f" removed; Kafka cannot give back {finished.lost_rows} of them",
    )
    return 0
