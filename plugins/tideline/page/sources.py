"""What the page stands on: stream files, and ledgers and brokers asked in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tideline.errors import StreamFileError
from tideline.kafka.settings import KafkaSettings, kafka_settings
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.observation import Observation
from tideline.page.lookout import Lookout, Seen, StreamFacts
from tideline.stream.files import read_stream, stream_paths
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

Answer = TypeVar("Answer")
_BROKERS_EVERY = 10
_LEDGER_EVERY = 2
_LIST_EVERY = 30
"""Seconds: how old a ledger's answer may be in the list, which asks all of them."""
_FILES_EVERY = 5
_BROKER_PATIENCE_MS = 8000
_LEDGERS_AT_ONCE = 4
_CLUSTERS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream, and what is known of its services.

    Args:
        stream: From its file.
        ledger: Its ledger's state.
        brokers: The last observation of its cluster, of all topics of all streams there.
        facts: What follows from both; None where the ledger has never answered.
    """

    stream: Stream
    ledger: Seen[LedgerState]
    brokers: Seen[Observation]
    facts: StreamFacts | None

    @property
    def is_pending(self) -> bool:
        """Whether one of them is being asked now."""
        return self.ledger.is_pending or self.brokers.is_pending


class Sources:
    """Streams, ledgers and brokers of one Airflow.

    Args:
        folder: Folder of stream files; None: `streams_folder` says which.
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
        """Ask a stream's ledger something that its state does not tell.

        Args:
            name: Of a stream that there is.
            question: Reads the ledger; runs in a thread of its own.
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

    def _read(self) -> Mapping[str, Stream]:
        parsed = {}
        for path in stream_paths(self._folder):
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
