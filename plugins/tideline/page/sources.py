"""What the page stands on: stream files, and ledgers and brokers asked in the background.

Who looks gets the last answer at once, and its age. However many people look, a service is asked
once at a time, and not again before some seconds have passed
(docs/adr/0034-the-page-asks-in-the-background.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from tideline.errors import BadInput, StreamFileError, TidelineError
from tideline.kafka.settings import KafkaSettings, kafka_settings
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.observation import Observation
from tideline.page.bands import Seen, StreamFacts, StreamView
from tideline.stream.files import read_stream, stream_paths
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

log = logging.getLogger("tideline")
Answer = TypeVar("Answer")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
# Seconds: how old an answer may be before whoever looks has it asked anew.
_BROKERS_EVERY = 10
_LEDGER_EVERY = 2
_LIST_EVERY = 30
"""Of a ledger in the list, which asks all of them."""
_FILES_EVERY = 5
_BROKER_PATIENCE_MS = 8000
# Threads: services that are away keep so many, and the others' answers come.
_LEDGERS_AT_ONCE = 4
_CLUSTERS_AT_ONCE = 4


class Sources:
    """Streams, ledgers and brokers of one Airflow.

    `folder` has the stream files; None: `streams_folder` says which.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._files = _StreamFiles(folder)
        self._opened: dict[str, tuple[Stream, Ledger]] = {}
        self._read: dict[str, tuple[Ledger, LedgerState]] = {}
        self._facts: dict[str, StreamFacts] = {}
        self._looks: dict[str, tuple[Observation, Mapping[str, LedgerState]]] = {}
        """By connection: the last observation, and what ledgers were known before it."""
        self._pool = ThreadPoolExecutor(_LEDGERS_AT_ONCE, "tideline-ledgers")
        clusters = ThreadPoolExecutor(_CLUSTERS_AT_ONCE, "tideline-brokers")
        self._ledgers = Lookout(self._read_ledger, self._pool, _LEDGER_EVERY)
        self._brokers = Lookout(self._observe, clusters, _BROKERS_EVERY)
        # Each look connects, and kafka-python tells it in twenty lines.
        logging.getLogger("kafka").setLevel(logging.WARNING)

    def names(self) -> set[str]:
        """Names of all streams whose files are accepted.

        Raises:
            BadInput: There is no folder of stream files.
        """
        return set(self._files.streams())

    def views(self, names: set[str]) -> list[StreamView]:
        """Some streams, by name, as the list shows them. It never waits for a service."""
        streams = self._files.streams()
        return [self._view(streams[name], _LIST_EVERY) for name in sorted(names) if name in streams]

    def view(self, name: str) -> StreamView | None:
        """One stream; None if there is none of that name. It never waits for a service."""
        stream = self._files.streams().get(name)
        return None if stream is None else self._view(stream, _LEDGER_EVERY)

    def ask(self, name: str, question: Callable[[Ledger], Answer]) -> Future[Answer]:
        """Ask the ledger of a stream that there is something that its state does not tell.

        The question reads the ledger in a thread of its own.
        """
        stream = self._files.streams()[name]
        return self._pool.submit(lambda: question(self._ledger(stream)))

    def _view(self, stream: Stream, every: float) -> StreamView:
        ledger = self._ledgers.look(stream.stream, every)
        brokers = self._brokers.look(stream.kafka.connection)
        return StreamView(stream, ledger, brokers, self._work_out(stream, ledger, brokers))

    def _work_out(
        self, stream: Stream, ledger: Seen[LedgerState], brokers: Seen[Observation]
    ) -> StreamFacts | None:
        """The same facts as before where nothing has changed: they may be of many partitions."""
        if ledger.value is None:
            return None
        made_of = (stream, ledger.value, brokers.value)
        known = self._facts.get(stream.stream)
        if known is None or not known.stand_on(*made_of):
            observation, states = self._looks.get(stream.kafka.connection, (None, {}))
            is_newer = observation is brokers.value and states.get(stream.stream) is ledger.value
            known = StreamFacts(*made_of, is_newer=is_newer)
            self._facts[stream.stream] = known
        return known

    def _ledger(self, stream: Stream) -> Ledger:
        """Opened once: moving on to a newer version costs a tenth of opening."""
        known = self._opened.get(stream.stream)
        if known is None or known[0] is not stream:
            known = (stream, open_ledger(stream))
            self._opened[stream.stream] = known
        return known[1]

    def _read_ledger(self, name: str) -> LedgerState:
        stream = self._files.streams()[name]
        try:
            ledger = self._ledger(stream)
            known, state = self._read.get(name, (None, None))
            # Another ledger may have the same version.
            state = ledger.read_since(state) if state and known is ledger else ledger.read()
        except BaseException:
            self._opened.pop(name, None)  # secrets may be renewed, and the ledger moved
            raise
        self._read[name] = ledger, state
        return state

    def _observe(self, connection: str) -> Observation:
        """All topics of all streams of a connection, in one request for each leader and kind."""
        # Imported here: the first look need not wait for it.
        from tideline.kafka.client import KafkaCluster

        topics: set[str] = set()
        states: dict[str, LedgerState] = {}
        for name, stream in self._files.streams().items():
            if stream.kafka.connection == connection:
                topics |= set(stream.kafka.topics)
                state = self._ledgers.known(name)
                if state is not None:
                    states[name] = state
                    topics |= set(state.head.topics)
        with KafkaCluster(_less_patient(kafka_settings(connection))) as cluster:
            found = cluster.observe(topics, {})
        self._looks[connection] = found, states
        return found


def _less_patient(settings: KafkaSettings) -> KafkaSettings:
    """People look: say sooner than to a run that the brokers are away."""
    own = int(settings.patience_seconds * 1000)
    patience = str(min(own, _BROKER_PATIENCE_MS))
    properties = {**settings.properties, "default.api.timeout.ms": patience}
    return replace(settings, properties=properties)


class _StreamFiles:
    """Accepted stream files by the name of their stream; a file is parsed when it has changed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._parsed: dict[Path, tuple[tuple[int, int], Stream | None]] = {}
        self._streams: Mapping[str, Stream] = {}
        self._read_at: float | None = None
        self._lock = threading.Lock()

    def streams(self) -> Mapping[str, Stream]:
        with self._lock:
            now = time.monotonic()
            if self._read_at is None or now - self._read_at >= _FILES_EVERY:
                self._streams = self._read()
                self._read_at = now
            return self._streams

    def _paths(self) -> list[Path]:
        try:
            return stream_paths(self._folder)
        except BadInput as error:  # it names a folder, and anybody may have asked
            log.error("the page: %s", error)
            raise BadInput(
                "the page has no folder of stream files; see the log of Airflow's server"
            ) from None

    def _read(self) -> Mapping[str, Stream]:
        parsed = {}
        for path in self._paths():
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue  # deleted since it was listed
            stamp = (stat.st_mtime_ns, stat.st_size)
            known = self._parsed.get(path)
            parsed[path] = known if known and known[0] == stamp else (stamp, _accepted(path))
        self._parsed = parsed
        # As for Dags: of two files that name one stream, the one named like it counts.
        found = [(path, s) for path, (_, s) in parsed.items() if s is not None]
        order = sorted(found, key=lambda item: item[0].stem == item[1].stream)
        return {stream.stream: stream for _, stream in order}


def _accepted(path: Path) -> Stream | None:
    try:
        return read_stream(path)
    except StreamFileError:
        return None  # its Dag shows why


class Lookout(Generic[Key, Value]):
    """Asks a kind of service by key.

    Args:
        ask: Asks, and waits; its errors become the `problem`.
        pool: Runs `ask`.
        every_seconds: No key is asked again before so many seconds have passed since it was.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        ask: Callable[[Key], Value],
        pool: Executor,
        every_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._pool = pool
        self._every = every_seconds
        self._clock = clock
        self._seen: dict[Key, Seen[Value]] = {}
        self._asked: dict[Key, float] = {}
        self._lock = threading.Lock()

    def look(self, key: Key, every_seconds: float | None = None) -> Seen[Value]:
        """What is known now; asks in the background where that is too old. It never waits.

        `every_seconds` is how old an answer may be, if that is more than the lookout's own.
        """
        wait = max(self._every, every_seconds or 0)
        with self._lock:
            seen = self._seen.get(key, Seen())
            asked = self._asked.get(key)
            if seen.is_pending or (asked is not None and self._clock() - asked < wait):
                return seen
            # Both before the lock is free: whoever looks next finds that somebody asks.
            self._asked[key] = self._clock()
            self._seen[key] = seen = replace(seen, is_pending=True)
        self._pool.submit(self._go, key)
        return seen

    def known(self, key: Key) -> Value | None:
        """The last answer; nobody is asked."""
        return self._seen.get(key, Seen()).value

    def _go(self, key: Key) -> None:
        try:
            value = self._ask(key)
        except TidelineError as error:
            self._note(key, error.message)
        except Exception as error:
            log.exception("the page could not look at %s", key)
            self._note(key, f"{type(error).__name__}: see the log of Airflow's server")
        else:
            with self._lock:
                self._seen[key] = Seen(value, datetime.now(UTC))

    def _note(self, key: Key, problem: str) -> None:
        with self._lock:
            self._seen[key] = replace(self._seen[key], problem=problem, is_pending=False)
