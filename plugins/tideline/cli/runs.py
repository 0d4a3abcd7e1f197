"""What each command that begins a run needs: an id, and Spark that shows its progress."""

from __future__ import annotations

import sys
import uuid
from datetime import UTC, datetime

from tideline.launch.launcher import Launcher
from tideline.launch.progress import ProgressLine
from tideline.stream.stream import Stream
from tideline.wiring import find_store


def new_run_id(kind: str = "manual") -> str:
    """A run id for a run that was not given one."""
    return f"{kind}__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}__{uuid.uuid4().hex[:8]}"


def watched_spark(stream: Stream) -> Launcher | None:
    """Spark that shows its progress on a terminal; None where there is none: Spark as usual."""
    if not sys.stderr.isatty():
        return None
    return Launcher(stream.spark, store=find_store(stream), watcher=ProgressLine())
