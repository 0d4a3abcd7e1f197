"""The command that puts table and ledger back to the state after a run."""

from __future__ import annotations

import argparse
import getpass
from typing import Any

from tideline.cli.output import Output, lost_data, rewind_data
from tideline.errors import TidelineError
from tideline.json_codec import to_data
from tideline.model.request import RunRequest
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.stream_files import read_stream
from tideline.wiring import open_run


def rewind(options: argparse.Namespace, output: Output) -> int:
    """Undo everything after a run; the same command again finishes one that was cut off."""
    stream = read_stream(options.file)
    by = options.by or getpass.getuser()
    asked = RewindRequest(options.to_run, options.reason, by, options.accept_loss)
    try:
        with open_run(stream, "rewind", RunRequest()) as run:
            found = rewind_stream(run, asked)
            head = run.ledger.read().head
    except TidelineError as error:
        lost = [lost_data(item) for item in error.facts.get("lost", ())]
        output.error(error, {"to_run": options.to_run, "lost": lost})
        return error.exit_code
    data: dict[str, Any] = {
        "status": "nothing_to_do",
        "rewind_id": None,
        "to_run": options.to_run,
        "removed_rows": 0,
        "table_version": head.table_version,
        "undone_runs": [],
        "lost": [],
    }
    summary = f"nothing to do: this is the state after run {options.to_run}"
    if found is not None:
        data |= {**rewind_data(found), "status": "done"}
        data["table_version"] = found.removed_in_version or head.table_version
        summary = (
            f"{found.rewind_id}: {len(found.undone_runs)} runs undone, {found.rows} rows removed,"
            f" {found.lost_rows} of them for good"
        )
    data["head"] = [to_data(p) for p in head.positions]
    output.answer(data, summary)
    return 0
