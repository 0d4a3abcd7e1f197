"""A run of many streams in one process: some at once, each by itself, none held up by another.

Each has its own ledger, lease and client of the brokers; Spark's warm driver is one for all of
them. What halts or fails one stream is told of it, and the others go on.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from threading import Lock
from time import monotonic
from typing import Literal
from zlib import crc32

from tideline.errors import Halted, ServiceAway, StreamBusy, TidelineError
from tideline.landing.context import RunContext
from tideline.launch.job import SparkPort
from tideline.launch.launcher import Launcher
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord
from tideline.model.wording import duration_text, first_few
from tideline.pipeline.run_batch import decode_batch, fold_batch, run_batch
from tideline.stream.stream import Stream
from tideline.wiring import find_store, open_run

log = logging.getLogger("tideline")
State = Literal["done", "nothing_to_do", "closed_before", "busy", "halted", "retry", "failed"]
GRAVEST: tuple[State, ...] = ("failed", "halted", "retry")
"""States that a person has to know of, the worst first."""
ORDER: tuple[State, ...] = (
    "done",
    "nothing_to_do",
    "closed_before",
    "busy",
    "retry",
    "halted",
    "failed",
)
"""Every state, the worst last."""
_NAMED = 50
"""Streams by name in a summary, at most."""


@dataclass(frozen=True, slots=True)
class StreamRun:
    """What became of one stream of many.

    Args:
        stream: Its name.
        state: `busy` where another run holds it; `closed_before` where this run id had landed it.
        rows: Landed by this run.
        offset_lag: Offsets left for later runs; None where the run did not close.
        seconds: From its begin to its end.
        error: Why it did not end; None if it did.
        record: The closed run; None if there is none.
    """

    stream: str
    state: State
    rows: int = 0
    offset_lag: int | None = None
    seconds: float = 0.0
    error: TidelineError | None = None
    record: RunRecord | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether somebody has to know of it."""
        return self.state in GRAVEST

    def __str__(self) -> str:
        what = self.state.replace("_", " ")
        if self.state == "done":
            what = f"{self.rows:,} rows"
        if self.offset_lag:
            what += f", {self.offset_lag:,} offsets left for later"
        why = f": {self.error}" if self.error is not None else ""
        return f"{self.stream}: {what}, {duration_text(self.seconds)}{why}"


def shard_of(stream: Stream, shards: int) -> int:
    """The number of the shard that lands a stream, from 0: it depends on the stream's name alone.

    Args:
        shards: How many there are.
    """
    return crc32(stream.stream.encode()) % shards


_AT_WORK: ContextVar[str] = ContextVar("stream")
"""The stream that a thread works on."""


@contextmanager
def _named_in_logs() -> Iterator[None]:
    """Have each line of the log begin with the stream that it is about."""

    def name(record: logging.LogRecord) -> bool:
        stream = _AT_WORK.get(None)
        if stream is not None:
            record.msg = f"{stream}: {record.msg}"
        return True

    log.addFilter(name)
    try:
        yield
    finally:
        log.removeFilter(name)


class Batch:
    """Runs of many streams under one run id.

    Args:
        run_id: Of each stream's run: each has a ledger of its own.
        request: What each run is asked for.
        threads: How many streams are worked on at once.
        only_left: Whether streams that this run id has closed are left alone, so that a batch that
            is run again lands only what it has not landed.
        tell: Is told of each run that has ended, in its thread, and of its closed record; None for
            one that halted or failed.
        spark: For tests; otherwise as each stream's Spark connection says.
    """

    def __init__(
        self,
        run_id: str,
        request: RunRequest,
        *,
        threads: int,
        only_left: bool = False,
        tell: Callable[[RunContext, RunRecord | None], None] = lambda *_: None,
        spark: SparkPort | None = None,
    ) -> None:
        self._run_id = run_id
        self._request = request
        self._threads = threads
        self._only_left = only_left
        self._tell = tell
        self._spark = spark
        self._at_work: set[Launcher] = set()
        self._is_stopped = False
        self._in_vain: list[str] = []
        """Streams in a row that a service was away for, with nothing between that went well."""
        self._lock = Lock()

    def run(self, streams: Sequence[Stream]) -> Iterator[StreamRun]:
        """Run all streams; each outcome is given when it is there.

        No error of a stream is raised. Whoever stops asking, or is interrupted, ends the batch:
        what is at work is stopped, and what has not begun does not begin.
        """
        with _named_in_logs(), ThreadPoolExecutor(self._threads, "tideline-fleet") as pool:
            left: set[Future[StreamRun]] = {pool.submit(self._run_one, s) for s in streams}
            try:
                while left:
                    done, left = wait(left, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            finally:
                for future in left:
                    future.cancel()
                if left:
                    self.stop()

    def stop(self) -> None:
        """End what was started; streams that have not begun end as soon as they do."""
        with self._lock:
            self._is_stopped = True
            at_work = tuple(self._at_work)
        for launcher in at_work:
            launcher.stop()

    def _run_one(self, stream: Stream) -> StreamRun:
        began = monotonic()
        _AT_WORK.set(stream.stream)
        if (why := self._not_to_begin()) is not None:
            return StreamRun(stream.stream, "retry", error=ServiceAway(f"not begun: {why}"))
        try:
            found = self._outcome(stream)
        except StreamBusy as error:
            found = StreamRun(stream.stream, "busy", error=error)
        except TidelineError as error:
            state: State = "failed"
            if isinstance(error, Halted):
                state = "halted"
            elif error.retriable:
                state = "retry"
            found = StreamRun(stream.stream, state, error=error)
        except Exception as error:  # one stream's bug must not keep the others from landing
            log.error("%s: %s", stream.stream, traceback.format_exc())
            bug = TidelineError(f"a bug of Tideline: {type(error).__name__}: {error}")
            found = StreamRun(stream.stream, "failed", error=bug)
        with self._lock:
            self._in_vain = [*self._in_vain, stream.stream] if found.state == "retry" else []
        return replace(found, seconds=monotonic() - began)

    def _not_to_begin(self) -> str | None:
        with self._lock:
            if self._is_stopped:
                return "the batch was stopped before it came to this stream"
            if len(self._in_vain) >= max(self._threads, 2):  # one alone may be the only one
                found = f"{len(self._in_vain)} streams in a row found a service away, the last was"
                return f"{found} {self._in_vain[-1]}"
        return None

    def _outcome(self, stream: Stream) -> StreamRun:
        spark = self._spark or Launcher(stream.spark, store=find_store(stream))
        with self._lock:
            if isinstance(spark, Launcher):
                self._at_work.add(spark)
        try:
            with open_run(stream, self._run_id, self._request, spark) as run:
                state, record = self._run_in(run)
        finally:
            with self._lock:
                self._at_work.discard(spark)
        rows = sum(v.rows for v in record.verified) if state == "done" else 0
        planned = record.plan or record.proposal
        lag = planned.offset_lag if planned is not None else 0
        return StreamRun(stream.stream, state, rows, lag, record=record)

    def _run_in(self, run: RunContext) -> tuple[State, RunRecord]:
        record = None
        try:
            record = self._closed(run) if self._only_left else None
            if record is not None:
                _finish(run)
                return "closed_before", record
            record = run_batch(run)
            return "nothing_to_do" if record.table_commit is None else "done", record
        finally:
            self._tell(run, record)

    def _closed(self, run: RunContext) -> RunRecord | None:
        """The run's record if it is closed, and is not to be planned anew."""
        record = run.record_in(run.ledger.read())
        if record is None or record.status in ("proposed", "planned") or record.is_to_replan:
            return None
        return record


def _finish(run: RunContext) -> None:
    """What a run that has landed may have left undone: to decode and to fold."""
    if run.typed is not None and run.ledger.find_decoding(run.run_id) is None:
        decode_batch(run)
    if run.current is not None and run.ledger.find_fold(run.run_id) is None:
        fold_batch(run)


def gravest(runs: Sequence[StreamRun]) -> TidelineError | None:
    """The error that the whole batch ends with: of what is worst; None if nothing went wrong.

    A stream that another run holds is no error: that run lands it.
    """
    errors = [run.error for state in GRAVEST for run in runs if run.state == state]
    return next((error for error in errors if error is not None), None)


def summary(runs: Sequence[StreamRun]) -> str:
    """How many streams ended how, and the names of those that somebody has to look at."""
    counts = Counter(run.state for run in runs)
    told = [f"{counts[state]} {state.replace('_', ' ')}" for state in ORDER if counts[state]]
    rows = sum(run.rows for run in runs)
    lines = [f"{len(runs)} streams: {', '.join(told) or 'none'}; {rows:,} rows"]
    for state in GRAVEST:
        names = sorted(run.stream for run in runs if run.state == state)
        if names:
            lines.append(f"{state}: {first_few(names, _NAMED)}")
    return "\n".join(lines)
