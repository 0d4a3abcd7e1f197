"""What each command that begins a run needs: an id, and Spark that shows its progress."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tideline.cli.output import os_user
from tideline.landing.context import RunContext
from tideline.launch.job import SparkPort
from tideline.launch.launcher import Launcher
from tideline.launch.progress import ProgressLine, working
from tideline.model.request import RunRequest
from tideline.stream.stream import Stream
from tideline.wiring import find_store, open_run


def new_run_id(kind: str = "manual") -> str:
    """A run id for a run that was not given one."""
    return f"{kind}__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}__{uuid.uuid4().hex[:8]}"


@contextmanager
def watched_run(
    stream: Stream, run_id: str, request: RunRequest | None = None, doing: str = ""
) -> Iterator[RunContext]:
    """A run that shows a terminal that it is at work, and how far Spark or a fold is.

    Args:
        request: None: no backfill, by this user.
        doing: As of `working`.
    """
    request = request or RunRequest(by=os_user())
    with working(doing) as line:
        shown = None if line is None else line.note
        with open_run(stream, run_id, request, _spark(stream, line), stage=shown) as run:
            yield run


def _spark(stream: Stream, line: ProgressLine | None) -> SparkPort:
    return Launcher(stream.spark, store=find_store(stream), watcher=line)
