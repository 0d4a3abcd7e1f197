"""End a job that gets nowhere: for too long no task has ended, and no record was read.

A limit of the whole time would end long and honest backfills. Spark itself waits for ever where a
call of a task never returns: a store that takes a connection and says nothing, a lock of a library.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

from pyspark.sql import SparkSession

from tideline.model.wording import duration_text
from tideline.spark.session import progress_of

_EVERY_SECONDS = 1.0
_CANCEL_SECONDS = 60.0
"""A job that was cancelled fails at once, even where its tasks do not end."""
_GROUP = "spark.jobGroup.id"


class StallLimit:
    """Watches one job, from `start` to `stop`.

    Args:
        seconds: How long nothing may have moved; 0 for no limit.

    Attributes:
        message: Why the job was ended; None if it was not.
    """

    def __init__(self, seconds: float) -> None:
        self.message: str | None = None
        self._seconds = seconds
        self._ended = threading.Event()

    def start(self, spark: SparkSession, give_up: Callable[[], None]) -> None:
        """Watch what this thread runs in a session.

        Args:
            give_up: Is called where the job does not end although it was cancelled: it does not
                wait for Spark then, but does something else that never returns.
        """
        if self._seconds:
            look, cancel = _ways(spark)
            arguments = (look, cancel, give_up)
            threading.Thread(target=self._watch, args=arguments, daemon=True).start()

    def stop(self) -> None:
        """The job has ended."""
        self._ended.set()

    def _watch(
        self, look: Callable[[], object], cancel: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        seen: object = None  # a job of a moment asks Spark nothing
        since = time.monotonic()
        while not self._ended.wait(_EVERY_SECONDS):
            now = look()
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > self._seconds:
                break
        else:
            return
        self.message = (
            f"no task of Spark has ended and no record was read for {duration_text(self._seconds)}"
            " (spark.stall_seconds), so the job was cancelled; nothing of it is in the table. The"
            " executors' logs and thread dumps say what they wait for"
        )
        until = time.monotonic() + _CANCEL_SECONDS
        while time.monotonic() < until:
            with suppress(Exception):
                cancel()  # again and again: a driver that hangs may begin its job afterwards
            if self._ended.wait(_EVERY_SECONDS):
                return
        give_up()


def _ways(spark: SparkSession) -> tuple[Callable[[], object], Callable[[], None]]:
    """How to see what has moved in a session's jobs, and how to cancel them."""
    inside = cast(Any, spark)
    if "SPARK_REMOTE" in os.environ:
        heard: list[object] = [None]

        def hear(stages: Iterable[Any] | None, **_: object) -> None:
            heard[0] = [(s.stage_id, s.num_completed_tasks, s.num_bytes_read) for s in stages or ()]

        inside.registerProgressHandler(hear)
        return lambda: heard[0], inside.interruptAll
    context = spark.sparkContext
    group = context.getLocalProperty(_GROUP)
    if not group:
        group = "tideline"
        context.setJobGroup(group, group, interruptOnCancel=True)

    def look() -> object:
        with suppress(Exception):  # Spark has not noted a stage yet
            jobs = context.statusTracker().getJobIdsForGroup(group)
            return len(jobs), progress_of(context, group)
        return None

    return look, lambda: context.cancelJobGroup(group)
