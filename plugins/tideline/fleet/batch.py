"""A run of many streams in one process: some at once, each by itself, none held up by another.

Each has its own ledger, lease and client of the brokers; Spark's warm driver is one for all of
them. What halts or fails one stream is told of it, and the others go on.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from time import monotonic
from typing import Literal
from zlib import crc32

from tideline.errors import Halted, ServiceAway, StreamBusy, TidelineError
from tideline.landing.context import RunContext
from tideline.launch.job import SparkPort
from tideline.launch.launcher import Launcher
from tideline.model.current import FoldRecord
from tideline.model.decoding import DecodeRecord
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord
from tideline.model.wording import duration_text, first_few, how_many
from tideline.pipeline.run_batch import decode_batch, fold_batch, land_batch
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
        state: `busy` where another run holds its live lane; `closed_before` where this run id had
            landed it.
        rows: Landed by this run.
        offset_lag: Offsets left for later runs; None where the run did not close.
        seconds: From its begin to its end.
        error: Why it did not end; None if it did.
        record: The closed run; None if there is none.
        decoded, folded: What this run id has decoded and folded; None for nothing.
        settled: Plans of other runs that it has finished.
        is_for_later: Whether the stream may end otherwise once others have landed.
    """

    stream: str
    state: State
    rows: int = 0
    offset_lag: int | None = None
    seconds: float = 0.0
    error: TidelineError | None = None
    record: RunRecord | None = None
    decoded: DecodeRecord | None = None
    folded: FoldRecord | None = None
    settled: tuple[DecodeRecord | FoldRecord, ...] = ()
    is_for_later: bool = False

    @property
    def has_landed(self) -> bool:
        """Whether a table has rows of this run id, of now or of before, or that it has finished."""
        is_raw = self.record is not None and self.record.table_commit is not None
        return is_raw or bool(self.decoded or self.folded or self.settled)

    @property
    def is_wrong(self) -> bool:
        """Whether somebody has to know of it."""
        return self.state in GRAVEST

    def __str__(self) -> str:
        what = self.state.replace("_", " ")
        if self.state == "done":
            what = how_many(self.rows, "row")
        if self.offset_lag:
            what += f", {how_many(self.offset_lag, 'offset')} left for later"
        why = f": {self.error}" if self.error is not None else ""
        return f"{self.stream}: {what}, {duration_text(self.seconds)}{why}"


def shard_of(stream: Stream, shards: int) -> int:
    """The number of the shard that lands a stream, from 0: it depends on the stream's name alone.

    Args:
        shards: How many there are.
    """
    return crc32(stream.stream.encode()) % shards


_TURNS_IN_VAIN = 2
"""So many turns in which nothing lands end a batch."""

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

    All streams land before any of them decodes. A stream that was not begun, because a service was
    away for others that need it, and one that somebody else holds, have a second turn once all
    others have landed. What is not begun then has further ones, until two turns were in vain.

    Args:
        run_id: Of each stream's run: each has a ledger of its own. It also says with which stream
            a batch begins, so that none is always the last one.
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
        self._in_vain: dict[Services, list[str]] = {}
        """Streams in a row that could not land, with nothing between that did."""
        self._lock = Lock()

    def run(self, streams: Sequence[Stream]) -> Iterator[StreamRun]:
        """Run all streams; each outcome is given when it is there.

        No error of a stream is raised. Whoever stops asking, or is interrupted, ends the batch:
        what is at work is stopped, and what has not begun does not begin.
        """
        first = crc32(self._run_id.encode()) % max(len(streams), 1)
        turn, landed = [*streams[first:], *streams[:first]], list[tuple[Stream, StreamRun]]()
        with _named_in_logs(), ThreadPoolExecutor(self._threads, "tideline-fleet") as pool:
            in_vain, is_first = 0, True
            while turn:
                goes_on, later = False, dict[str, tuple[Stream, StreamRun]]()
                with self._each(pool, [(s, partial(self._land, s)) for s in turn]) as outcomes:
                    for stream, found in outcomes:
                        is_away = isinstance(found.error, ServiceAway)
                        if found.is_for_later and (is_first or is_away):
                            later[stream.stream] = (stream, found)
                            continue
                        goes_on |= not is_away
                        if found.is_wrong or found.state == "busy" or stream.decode is None:
                            yield found
                        else:
                            landed.append((stream, found))
                in_vain = 0 if goes_on else in_vain + 1
                if in_vain == _TURNS_IN_VAIN:
                    yield from (found for _, found in later.values())
                    break
                turn, self._in_vain = [s for s in turn if s.stream in later], {}
                is_first = False
            work = [(s, partial(self._decode, s, found)) for s, found in landed]
            with self._each(pool, work) as outcomes:
                yield from (found for _, found in outcomes)

    @contextmanager
    def _each(
        self, pool: ThreadPoolExecutor, work: Sequence[tuple[Stream, Callable[[], StreamRun]]]
    ) -> Iterator[Iterator[tuple[Stream, StreamRun]]]:
        """What became of each stream, as soon as it is known; the block's end stops the rest."""
        left = {pool.submit(self._timed, s, one): s for s, one in work}

        def outcomes() -> Iterator[tuple[Stream, StreamRun]]:
            while left:
                for future in wait(left, return_when=FIRST_COMPLETED).done:
                    yield left.pop(future), future.result()

        try:
            yield outcomes()
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

    def _timed(self, stream: Stream, work: Callable[[], StreamRun]) -> StreamRun:
        began = monotonic()
        _AT_WORK.set(stream.stream)
        found = work()
        return replace(found, seconds=found.seconds + monotonic() - began)

    def _land(self, stream: Stream) -> StreamRun:
        services = services_of(stream)
        if (why := self._not_to_begin(services)) is not None:
            error = ServiceAway(f"not begun: {why}")
            return StreamRun(stream.stream, "retry", error=error, is_for_later=not self._is_stopped)

        def land(run: RunContext) -> StreamRun:
            record = self._closed(run) if self._only_left else None
            state: State = "closed_before"
            if record is None:
                record = land_batch(run)
                state = "nothing_to_do" if record.table_commit is None else "done"
            if run.typed is None:
                self._tell(run, record)
            rows = sum(v.rows for v in record.verified) if state == "done" else 0
            planned = record.plan or record.proposal
            lag = planned.offset_lag if planned is not None else 0
            return StreamRun(stream.stream, state, rows, lag, record=record)

        found = self._outcome(stream, land, StreamRun(stream.stream, "failed"))
        with self._lock:
            known = self._in_vain.get(services, [])
            is_away = isinstance(found.error, ServiceAway)
            self._in_vain[services] = [*known, stream.stream] if is_away else []
        return found

    def _decode(self, stream: Stream, landed: StreamRun) -> StreamRun:
        # Imported here: most streams have no typed tables.
        from tideline.decoding.decode_steps import decoded_before
        from tideline.folding.fold_steps import folded_before

        def decode(run: RunContext) -> StreamRun:
            run.decoded = decoded_before(run)
            run.folded = folded_before(run) if run.current is not None else None
            if landed.state != "closed_before" or run.decoded is None:
                decode_batch(run)
            if landed.state != "closed_before" or run.folded is None:
                fold_batch(run)
            self._tell(run, landed.record)
            settled = tuple(run.settled)
            return replace(landed, decoded=run.decoded, folded=run.folded, settled=settled)

        return self._outcome(stream, decode, landed)

    def _not_to_begin(self, services: Services) -> str | None:
        with self._lock:
            if self._is_stopped:
                return "the batch was stopped before it came to this stream"
            known = self._in_vain.get(services, [])
            if len(known) >= max(self._threads, 2):  # one alone may be the only one
                found = (
                    f"{how_many(len(known), 'stream')} in a row found a service away, the last was"
                )
                return f"{found} {known[-1]}"
        return None

    def _outcome(
        self, stream: Stream, work: Callable[[RunContext], StreamRun], before: StreamRun
    ) -> StreamRun:
        """What work on a stream came to, or why it did not end.

        Args:
            before: What is known of the stream.
        """
        spark = self._spark or Launcher(stream.spark, store=find_store(stream))
        with self._lock:
            if isinstance(spark, Launcher):
                self._at_work.add(spark)
        try:
            with open_run(stream, self._run_id, self._request, spark) as run:
                try:
                    return work(run)
                except Exception:
                    self._tell(run, None)
                    raise
        except TidelineError as error:
            return replace(
                before,
                state=self._state_of(error),
                error=error,
                is_for_later=isinstance(error, StreamBusy),
            )
        except Exception as error:  # one stream's bug must not keep the others from landing
            log.error("%s: %s", stream.stream, traceback.format_exc())
            bug = TidelineError(f"a bug of Tideline: {type(error).__name__}: {error}")
            return replace(before, state="failed", error=bug)
        finally:
            with self._lock:
                self._at_work.discard(spark)

    def _state_of(self, error: TidelineError) -> State:
        """What a stream ends with.

        Only who holds a live lane lands what this run would have. A window has to come again, a run
        that others have changed meanwhile, and one that waits for a backfill's, an erasure's or a
        rewind's end.
        """
        is_held = isinstance(error, StreamBusy) and error.facts.get("lease") == "live"
        if is_held and not error.facts.get("rewind"):
            return "busy" if self._request.lane == "live" else "retry"
        if isinstance(error, Halted):
            return "halted"
        return "retry" if error.retriable else "failed"

    def _closed(self, run: RunContext) -> RunRecord | None:
        """The run's record if it is closed, and is not to be planned anew."""
        record = run.record_in(run.ledger.read())
        if record is None or record.status in ("proposed", "planned") or record.is_to_replan:
            return None
        return record


Services = tuple[str, ...]


def services_of(stream: Stream) -> Services:
    """The connections that a stream needs to land: what is away for one is away for all of them."""
    ledger, store = stream.ledger_location, stream.table.connection
    return (stream.kafka.connection, str(store), ledger.kind, stream.spark.connection)


def gravest(runs: Sequence[StreamRun]) -> TidelineError | None:
    """The error that the whole batch ends with: of what is worst; None if nothing went wrong.

    A stream whose live lane another run holds is no error: that run lands it.
    """
    errors = [run.error for state in GRAVEST for run in runs if run.state == state]
    return next((error for error in errors if error is not None), None)


def summary(runs: Sequence[StreamRun]) -> str:
    """How many streams ended how, and the names of those that somebody has to look at."""
    counts = Counter(run.state for run in runs)
    states = [f"{counts[state]} {state.replace('_', ' ')}" for state in ORDER if counts[state]]
    rows = sum(run.rows for run in runs)
    lines = [
        f"{how_many(len(runs), 'stream')}: {', '.join(states) or 'none'}; {how_many(rows, 'row')}"
    ]
    for state in GRAVEST:
        names = sorted(run.stream for run in runs if run.state == state)
        if names:
            lines.append(f"{state}: {first_few(names, _NAMED)}")
    return "\n".join(lines)
