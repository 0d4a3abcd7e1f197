"""How far a job's Spark work is, as Spark's own status store knows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress

from pyspark import SparkContext

_EVERY_SECONDS = 0.5


def report(
    context: SparkContext, group: str, send: Callable[[bytes], None], ended: threading.Event
) -> None:
    """Send a line twice a second until the job has ended; a courtesy, so it never fails a job.

    Args:
        context: Spark's.
        group: The job group of all that the job runs.
        send: Takes a line: `progress` and JSON with `tasks`, `of_tasks` and `records`.
        ended: Set once the job has ended.
    """
    with suppress(OSError):  # the client is gone: others notice that
        while not ended.wait(_EVERY_SECONDS):
            found: dict[str, int] = {}
            with suppress(Exception):  # Spark has not noted a stage yet, or its JVM is gone
                found = progress_of(context, group)
            if found:
                send(b"progress " + json.dumps(found).encode() + b"\n")


def progress_of(context: SparkContext, group: str) -> dict[str, int]:
    """Tasks and records of the group's newest job; empty before there is one.

    Records are those that ended tasks have read, and what running ones have told so far: an
    executor tells it every ten seconds.
    """
    jobs = context.statusTracker().getJobIdsForGroup(group)
    job = context.statusTracker().getJobInfo(max(jobs)) if jobs else None
    if job is None:
        return {}
    store = context._jsc.sc().statusStore()
    stages = [store.lastStageAttempt(stage) for stage in job.stageIds]
    return {
        "tasks": sum(stage.numCompleteTasks() for stage in stages),
        "of_tasks": sum(stage.numTasks() for stage in stages),
        "records": sum(stage.inputRecords() for stage in stages),
    }
