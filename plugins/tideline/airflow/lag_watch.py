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
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tideline.airflow.telemetry import publish
from tideline.errors import TidelineError
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import kafka_settings
from tideline.landing.halting import triage_for
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model import metrics
from tideline.model.fleet import update_topics
from tideline.model.incident import Incident
from tideline.model.observation import Ends
from tideline.model.offsets import TopicPartition
from tideline.rules.incidents import blocked_by
from tideline.rules.lag import (
    MOST_WAIT,
    AskedRun,
    Lag,
    Positions,
    asked,
    lag_of,
    may_ask,
    positions_of,
    reason,
)
from tideline.stream.contents import FleetContents, known_topics, with_topics
from tideline.stream.files import StreamFile, taken_names
from tideline.stream.folder import StreamsFolder
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

log = logging.getLogger("tideline")
Due = dict[str, dict[str, Any]]
"""What is told of each Dag that a run of is asked for, by its id."""
_TICK = 1.0
"""Seconds between two looks at what is to be asked."""
_MOST_CLUSTERS = 64
"""So many are asked at once."""
Answer = TypeVar("Answer")


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
        self._read_at: dict[str, float] = {}
        """When the ledger of a stream was read last, by our clock."""
        self._asked: dict[str, AskedRun] = {}
        self._behind: dict[str, tuple[Positions, float]] = {}
        """Where the head of a stream with unread records stands, and since when, by our clock."""
        # Other triggers of this process share asyncio's own executor, of few threads.
        self._executor = ThreadPoolExecutor(_MOST_CLUSTERS, "tideline-lag")
        self._finding: dict[str, list[FleetContents]] = {}
        """Fleets by connection: topics that are in no list yet are taken up by a run of them."""
        self._next: dict[str, float] = {}
        self._errors: Counter[str] = Counter()
        self._told: dict[str, str] = {}

    def join(self, dag_id: str) -> None:
        """From now on runs of a Dag are asked for."""
        self._members[dag_id] += 1

    def leave(self, dag_id: str) -> None:
        """From now on they are not, once everybody has left who joined."""
        self._members[dag_id] -= 1

    async def events(self) -> AsyncIterator[Due]:
        """The Dags of which a run is due, each time that there are any."""
        asking: dict[str, asyncio.Future[Due]] = {}
        while True:
            for connection in [c for c, task in asking.items() if task.done()]:
                if due := asking.pop(connection).result():
                    yield due
            for connection, files in (await self._in_thread(self._to_ask)).items():
                if connection not in asking:  # one that hangs holds up no other
                    asking[connection] = asyncio.ensure_future(
                        self._in_thread(self.look, connection, files)
                    )
            await asyncio.sleep(_TICK)

    async def _in_thread(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    def _to_ask(self) -> dict[str, list[StreamFile]]:
        """Streams with a trigger by their cluster's connection, where it is time to look."""
        try:
            streams, files = self._folder.streams().values(), self._folder.files()[0]
        except Exception as error:
            self._failed("", error)
            self._count("")
            return {}
        self._well("")
        found: dict[str, list[StreamFile]] = defaultdict(list)
        for file in streams:
            if file.stream.trigger is not None and self._members[file.dag_id] > 0:
                found[file.stream.kafka.connection].append(file)
        finding: dict[str, list[FleetContents]] = defaultdict(list)
        for contents in files.values():
            if not isinstance(contents, FleetContents):
                continue
            fleet, template = contents.fleet, contents.template
            is_watched = template.trigger is not None and self._members[fleet.fleet] > 0
            if is_watched and fleet.shards is not None and fleet.topic_pattern is not None:
                finding[template.kafka.connection].append(contents)
        self._finding, now = finding, self._clock()
        return {c: found[c] for c in {*found, *finding} if now >= self._next.get(c, now)}

    def look(self, connection: str, files: Iterable[StreamFile]) -> Due:
        """Ask one cluster, and the ledgers of streams that seem to be behind; it never raises."""
        files, fleets = list(files), self._finding.get(connection, ())
        streams = [*(f.stream for f in files), *(f.template for f in fleets)]
        polls = [s.trigger.poll_seconds for s in streams if s.trigger is not None]
        if not polls:  # nobody asks any more
            return {}
        self._next[connection] = self._clock() + min(polls)
        there = dict[str, str]()
        try:
            if any(s.kafka.topic_pattern is not None for s in streams) or fleets:
                there = self._cluster(connection).topic_ids(".*")
            files += self._new(connection, fleets, there)
            ends = self._ends(connection, [file.stream for file in files], there)
        except Exception as error:
            self._failed(connection, error)
            self._count(connection)
            cluster = self._clusters.pop(connection, None)  # secrets may be renewed
            if cluster is not None:
                with suppress(Exception):
                    cluster.close()
            return {}
        due: Due = {}
        is_well = True
        for file in files:
            try:
                seen = self._due(file.stream, ends[file.stream.kafka.isolation_level], there)
            except Exception as error:
                is_well = False
                self._failed(connection, error, file.stream.stream)
                continue
            if seen is not None:
                streams = due.setdefault(file.dag_id, {"streams": {}, "at": _now()})["streams"]
                streams[file.stream.stream] = seen
        if is_well:
            self._well(connection)
        else:
            self._count(connection)
        return due

    def _new(
        self, connection: str, fleets: Iterable[FleetContents], there: dict[str, str]
    ) -> Iterable[StreamFile]:
        """Streams of topics that no run of their fleet has found yet, as it will have them."""
        for contents in fleets:
            fleet, path = contents.fleet, contents.parsed.file
            found = {name: topic_id for name, topic_id in there.items() if fleet.means(name)}
            if not found.keys() - {*contents.topics}:
                continue
            try:
                known = known_topics(fleet, path)
                taken = {t.name for t in known.topics} if known is not None else set()
                listed = update_topics(known, fleet.fleet, found, datetime.now(UTC))
                more = with_topics(contents, listed)
                others = taken_names(more, *self._folder.files())
            except Exception as error:
                self._failed(connection, error, fleet.fleet)
                continue
            if len(found) > fleet.max_topics:
                continue  # a look takes none of them up, and says why
            for topic, stream in more.by_topic.items():
                if topic not in taken and topic not in others:
                    yield StreamFile(stream, Path(path), fleet)

    def _cluster(self, connection: str) -> KafkaCluster:
        cluster = self._clusters.get(connection)
        if cluster is None:
            settings = kafka_settings(connection).less_patient()
            cluster = self._clusters[connection] = KafkaCluster(settings)
        return cluster

    def _ends(
        self, connection: str, streams: list[Stream], there: Collection[str]
    ) -> dict[str, Ends]:
        """Where topics end for streams of each isolation level."""
        topics: dict[str, set[str]] = defaultdict(set)
        ages: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for stream in streams:
            trigger, kafka = stream.trigger, stream.kafka
            assert trigger is not None
            known = self._ledgers.get(stream.stream)
            names = {*_meant(stream, there), *(known[2].head.topics if known is not None else ())}
            topics[kafka.isolation_level] |= names
            if trigger.lag_seconds is not None:
                ages[kafka.isolation_level][trigger.lag_seconds] |= names
        return {
            level: self._cluster(connection).ends(dict.fromkeys(names, level), ages[level])
            for level, names in topics.items()
        }

    def _due(self, stream: Stream, ends: Ends, there: Collection[str]) -> dict[str, Any] | None:
        """What is told of a stream of which a run is due; None if none is."""
        topics = _meant(stream, there)
        known = self._ledgers.get(stream.stream)
        if known is None or known[0] is not stream:
            known = self._opened(stream)
        elif self._clock() - self._read_at[stream.stream] >= MOST_WAIT:
            known = self._read(*known)
        if self._lag(stream, known[2], ends, topics)[1] is None:
            return None
        _, _, state = self._read(*known)  # the head may have moved since
        barred = blocked_by(_undecided(stream, state.live_incidents()), state.head)
        lag, why = self._lag(stream, state, ends, topics, barred)
        positions, now = positions_of(state.head), self._clock()
        before = self._asked.get(stream.stream)
        if why is None or _halts(stream, state) or not may_ask(before, positions, now):
            return None
        self._asked[stream.stream] = asked(before, positions, now)
        log.info("%s: a run is due: %s", stream.stream, why)
        return {"lag": lag.records, "why": why}

    def _lag(
        self,
        stream: Stream,
        state: LedgerState,
        ends: Ends,
        topics: Collection[str],
        barred: Collection[TopicPartition] = (),
    ) -> tuple[Lag, str | None]:
        """What is unread, and why a run is due; None if none is.

        Of a record from the future no time tells that others wait behind it: where the head has
        stood still beside unread records for so long, one of them has waited so long.
        """
        trigger = stream.trigger
        assert trigger is not None
        seconds, positions = trigger.lag_seconds, positions_of(state.head)
        lag = lag_of(state.head, topics, ends, seconds, barred)
        where, since = self._behind.get(stream.stream, (None, 0.0))
        if not lag.records:
            self._behind.pop(stream.stream, None)
        elif where != positions:
            self._behind[stream.stream] = (positions, self._clock())
        elif seconds is not None and self._clock() - since > seconds:
            lag = replace(lag, is_old=True)
        return lag, reason(lag, trigger.lag_records, seconds)

    def _opened(self, stream: Stream) -> tuple[Stream, Ledger, LedgerState]:
        ledger = open_ledger(stream)
        return self._keep(stream, ledger, ledger.read())

    def _read(
        self, stream: Stream, ledger: Ledger, state: LedgerState
    ) -> tuple[Stream, Ledger, LedgerState]:
        return self._keep(stream, ledger, ledger.read_since(state))

    def _keep(
        self, stream: Stream, ledger: Ledger, state: LedgerState
    ) -> tuple[Stream, Ledger, LedgerState]:
        self._ledgers[stream.stream] = known = (stream, ledger, state)
        self._read_at[stream.stream] = self._clock()
        return known

    def _failed(self, connection: str, error: Exception, stream: str | None = None) -> None:
        """Say what is wrong once; what was known of the stream's ledger is not any more."""
        place = stream or connection or "the folder of stream files"
        text = error.message if isinstance(error, TidelineError) else repr(error)
        if stream is not None:
            self._ledgers.pop(stream, None)  # it may have moved, and secrets may be renewed
        if self._told.get(place) != text:
            self._told[place] = text
            log.warning("no run is started by the lag of %s: %s", place, text)

    def _count(self, connection: str) -> None:
        """One more look in a row that has failed, for some of its streams at least."""
        self._errors[connection] += 1
        publish(metrics.LAG_WATCH_ERRORS, self._errors[connection], connection=connection)

    def _well(self, connection: str) -> None:
        if self._errors.pop(connection, 0):
            self._told.clear()
            log.info("lags of %s are watched again", connection)
            publish(metrics.LAG_WATCH_ERRORS, 0, connection=connection)


def _meant(stream: Stream, there: Collection[str]) -> Collection[str]:
    """The topics that a stream file names, or those of the cluster that its pattern matches."""
    named = stream.kafka.topics
    return named or [topic for topic in there if stream.kafka.means(topic)]


def _halts(stream: Stream, state: LedgerState) -> bool:
    """Whether a run would land nothing: it would only fail, and every alert with it.

    What halts decoding or fold, or a backfill, halts no landing.
    """
    if state.control.rewind is not None:
        return True
    incidents = (*state.live_incidents(), *state.incidents_of_table())
    return stream.on_incident == "halt" and bool(_undecided(stream, incidents))


def _undecided(stream: Stream, incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """Those that keep a run of now from landing: neither a person nor a policy has decided.

    What is about a topic that the file does not mean any more keeps nobody.
    """
    found = triage_for(stream, incidents, proceed=False)
    return (*found.halting, *found.asking)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def watch_of(folder: str | None) -> LagWatch:
    """The watch of a folder in this process: the one that all triggers share."""
    return LagWatch(folder)
