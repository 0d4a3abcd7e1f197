"""The watch of lags: one poll in Airflow's triggerer for all streams that have a `trigger`.

Each cluster is asked by itself, in a thread: where its topics end, by one request for each leader
and kind, however many streams there are. Nothing that goes wrong there leaves this module, since an
exception of a shared poll fails every trigger that shares it, and the triggerer with them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from tideline.airflow.telemetry import publish
from tideline.errors import TidelineError
from tideline.kafka.client import KafkaCluster
from tideline.kafka.settings import kafka_settings
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model import metrics
from tideline.model.observation import Ends
from tideline.rules.lag import Asked, Lag, asked, lag_of, may_ask, positions_of, reason
from tideline.stream.files import StreamFile
from tideline.stream.folder import StreamsFolder
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

log = logging.getLogger("tideline")
Due = dict[str, dict[str, Any]]
"""What is told of each Dag that a run of is asked for, by its id."""
_TICK = 1.0
"""Seconds between two looks at what is to be asked."""


class LagWatch:
    """What one triggerer knows of the lags of a folder's streams.

    Args:
        folder: Of the stream files; None: `streams_folder` says which.
        clock: Seconds that never go back.
    """

    def __init__(self, folder: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = StreamsFolder(None if folder is None else Path(folder))
        self._clock = clock
        self._members: Counter[str] = Counter()
        self._clusters: dict[str, KafkaCluster] = {}
        self._ledgers: dict[str, tuple[Stream, Ledger, LedgerState]] = {}
        self._asked: dict[str, Asked] = {}
        self._next: dict[str, float] = {}
        self._errors: Counter[str] = Counter()
        self._told: dict[str, str] = {}
        # Its connections stay open for days, and it tells each step of each.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)

    def join(self, dag_id: str) -> None:
        """From now on runs of a Dag are asked for."""
        self._members[dag_id] += 1

    def leave(self, dag_id: str) -> None:
        """From now on they are not, once everybody has left who joined."""
        self._members[dag_id] -= 1

    async def events(self) -> AsyncIterator[Due]:
        """The Dags of which a run is due, each time that there are any."""
        asking: dict[str, asyncio.Task[Due]] = {}
        while True:
            for connection in [c for c, task in asking.items() if task.done()]:
                if due := asking.pop(connection).result():
                    yield due
            for connection, files in (await asyncio.to_thread(self._to_ask)).items():
                if connection not in asking:  # one that hangs holds up no other
                    look = asyncio.to_thread(self.look, connection, files)
                    asking[connection] = asyncio.create_task(look)
            await asyncio.sleep(_TICK)

    def _to_ask(self) -> dict[str, list[StreamFile]]:
        """Streams with a trigger by their cluster's connection, where it is time to look."""
        try:
            streams = self._folder.streams().values()
        except Exception as error:
            self._failed("", error)
            return {}
        found: dict[str, list[StreamFile]] = defaultdict(list)
        for file in streams:
            if file.stream.trigger is not None and self._members[file.dag_id] > 0:
                found[file.stream.kafka.connection].append(file)
        now = self._clock()
        return {c: files for c, files in found.items() if now >= self._next.get(c, now)}

    def look(self, connection: str, files: Iterable[StreamFile]) -> Due:
        """Ask one cluster, and the ledgers of streams that seem to be behind; it never raises."""
        files = list(files)
        polls = [f.stream.trigger.poll_seconds for f in files if f.stream.trigger is not None]
        self._next[connection] = self._clock() + min(polls)
        try:
            ends = self._ends(connection, [file.stream for file in files])
        except Exception as error:
            self._failed(connection, error)
            cluster = self._clusters.pop(connection, None)  # secrets may be renewed
            if cluster is not None:
                with suppress(Exception):
                    cluster.close()
            return {}
        due: Due = {}
        is_well = True
        for file in files:
            try:
                told = self._due(file.stream, ends)
            except Exception as error:
                is_well = False
                self._failed(connection, error, file.stream.stream)
                continue
            if told is not None:
                streams = due.setdefault(file.dag_id, {"streams": {}, "at": _now()})["streams"]
                streams[file.stream.stream] = told
        if is_well:
            self._well(connection)
        return due

    def _ends(self, connection: str, streams: list[Stream]) -> Ends:
        topics: dict[str, str] = {}
        ages: dict[int, set[str]] = defaultdict(set)
        for stream in streams:
            trigger, kafka = stream.trigger, stream.kafka
            assert trigger is not None
            known = self._ledgers.get(stream.stream)
            names = {*kafka.topics, *(known[2].head.topics if known is not None else ())}
            # Of two streams of one topic that read it differently, one end counts for both.
            for name in names:
                topics.setdefault(name, kafka.isolation_level)
            if trigger.lag_seconds is not None:
                ages[trigger.lag_seconds] |= names
        cluster = self._clusters.get(connection)
        if cluster is None:
            cluster = self._clusters[connection] = KafkaCluster(kafka_settings(connection))
        return cluster.ends(topics, ages)

    def _due(self, stream: Stream, ends: Ends) -> dict[str, Any] | None:
        """What is told of a stream of which a run is due; None if none is."""
        known = self._ledgers.get(stream.stream)
        if known is None or known[0] is not stream:
            known = self._opened(stream)
        if _lag(stream, known[2], ends)[1] is None:
            return None
        _, ledger, state = known  # the head may have moved since
        state = ledger.read_since(state)
        self._ledgers[stream.stream] = (stream, ledger, state)
        lag, why = _lag(stream, state, ends)
        positions, now = positions_of(state.head), self._clock()
        before = self._asked.get(stream.stream)
        if why is None or _halts(stream, state) or not may_ask(before, positions, now):
            return None
        self._asked[stream.stream] = asked(before, positions, now)
        return {"lag": lag.records, "why": why}

    def _opened(self, stream: Stream) -> tuple[Stream, Ledger, LedgerState]:
        ledger = open_ledger(stream)
        self._ledgers[stream.stream] = known = (stream, ledger, ledger.read())
        return known

    def _failed(self, connection: str, error: Exception, stream: str | None = None) -> None:
        """Say what is wrong once, and count it; what was known of the stream's ledger is not."""
        place = stream or connection or "the folder of stream files"
        text = error.message if isinstance(error, TidelineError) else repr(error)
        if stream is not None:
            self._ledgers.pop(stream, None)  # it may have moved, and secrets may be renewed
        self._errors[connection] += 1
        publish(metrics.LAG_WATCH_ERRORS, self._errors[connection], connection=connection)
        if self._told.get(place) != text:
            self._told[place] = text
            log.warning("no run is started by the lag of %s: %s", place, text)

    def _well(self, connection: str) -> None:
        if self._errors.pop(connection, 0):
            self._told.clear()
            log.info("lags of %s are watched again", connection)
            publish(metrics.LAG_WATCH_ERRORS, 0, connection=connection)


def _lag(stream: Stream, state: LedgerState, ends: Ends) -> tuple[Lag, str | None]:
    """What is unread, and why a run is due; None if none is."""
    trigger = stream.trigger
    assert trigger is not None
    lag = lag_of(state.head, stream.kafka.topics, ends, trigger.lag_seconds)
    return lag, reason(lag, trigger.lag_records, trigger.lag_seconds)


def _halts(stream: Stream, state: LedgerState) -> bool:
    """Whether a run would halt: it would only fail, and every alert with it."""
    return stream.on_incident == "halt" and any(not i.is_decided for i in state.open_incidents)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def watch_of(folder: str | None) -> LagWatch:
    """The watch of a folder in this process: the one that all triggers share."""
    return LagWatch(folder)
