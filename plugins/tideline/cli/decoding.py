"""The commands about typed tables: `tideline decode` and `tideline redrive`."""

from __future__ import annotations

import argparse
import uuid
from datetime import UTC, datetime

from tideline.cli.output import Output
from tideline.cli.who import os_user
from tideline.contract.building import build_decoded, build_redriven
from tideline.errors import BadInput
from tideline.model.decoding import DecodeRecord
from tideline.model.request import RunRequest
from tideline.model.wording import shown
from tideline.pipeline.run_batch import decode_batch
from tideline.stream_files import read_stream
from tideline.wiring import open_run


def decode(options: argparse.Namespace, output: Output) -> int:
    """Decode what is landed, without landing anything.

    The id of a run that has decoded decodes its plan again.
    """
    stream = read_stream(options.file)
    if stream.decode is None:
        raise BadInput(f"{options.file}: decode: got nothing; required for this command")
    run_id = options.run_id or new_run_id()
    with open_run(stream, run_id, RunRequest(by=os_user())) as context:
        decode_batch(context)
    lines = decoded_lines(context.decoded) or ["nothing to decode"]
    output.answer(build_decoded(run_id, context.decoded), *lines)
    return 0


def redrive(options: argparse.Namespace, output: Output) -> int:
    """Decode quarantined records again.

    All of them; or only those of some error classes, or with Kafka's time from --since on.
    """
    from tideline.operations.redrive import redrive as redrive_records  # other commands need none

    stream = read_stream(options.file)
    run_id = options.run_id or new_run_id("redrive")
    with open_run(stream, run_id, RunRequest(by=os_user())) as context:
        redriven = redrive_records(context, options.classes or (), parsed_time(options.since))
    answer = build_redriven(run_id, redriven)
    output.answer(
        answer,
        f"{answer.moved} of {answer.asked} quarantined records are typed rows now,"
        f" {answer.left} stay",
    )
    return 0


def parsed_time(text: str | None) -> datetime | None:
    """A time with its offset from UTC; None for None.

    Raises:
        BadInput: It is none.
    """
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min
    if at.tzinfo is None:
        raise BadInput(
            f"--since: got {shown(text)}; allowed: ISO 8601 with its offset from UTC, for example"
            " 2026-01-31T00:00:00Z"
        )
    return at


def decoded_lines(record: DecodeRecord | None) -> list[str]:
    """What became of raw rows, for people; nothing where none was decoded."""
    if record is None:
        return []
    classes = ", ".join(f"{count} {name}" for name, count in record.classes)
    return [
        f"decoded: {record.decoded}, tombstones {record.tombstones}, quarantined"
        f" {record.quarantined}{f' ({classes})' if classes else ''}"
    ]


def new_run_id(kind: str = "manual") -> str:
    """A run id for a run that was not given one."""
    return f"{kind}__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}__{uuid.uuid4().hex[:8]}"
