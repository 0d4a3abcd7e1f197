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
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tideline.errors import BadInput, ServiceAway, TidelineError
from tideline.kafka.kafka_settings import SHORT_PATIENCE, kafka_settings
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.head import Headroom
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition
from tideline.page.bands import PageFacts, Seen, StreamView
from tideline.page.workers import Workers
from tideline.rules.advance import MOST_MEASURED, headroom_of, unread_places
from tideline.rules.positions import mark_named
from tideline.stream.files import StreamFile
from tideline.stream.folder import StreamsFolder
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

if TYPE_CHECKING:
    from tideline.kafka.kafka_cluster import KafkaCluster

log = logging.getLogger("tideline")
Answer = TypeVar("Answer")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
# Seconds: how old an answer may be before whoever looks has it asked anew.
_BROKERS_EVERY = 10
_LEDGER_EVERY = 2
_LIST_EVERY = 30
"""Of a ledger in the list, which asks all of them."""
_BROKER_PATIENCE = SHORT_PATIENCE
PATIENCE_SECONDS = 8
"""Whoever looks is told after so long that a service does not answer."""
_AT_ONCE = 4
_TURN_SECONDS = 1
_MOST_WAITING = 64


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a cluster: what it said, which ledgers were known before, what is measured."""

    found: Observation | None = None
    states: Mapping[str, LedgerState] = field(default_factory=dict)
    headroom: Mapping[str, tuple[Headroom, ...]] = field(default_factory=dict)


_NOT_YET = _Look()


class Sources:
    """Streams, ledgers and brokers of one Airflow.

    `folder` has the stream files; None: `streams_folder` says which.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._files = _StreamFiles(folder)
        self._opened: dict[str, tuple[Stream, Ledger]] = {}
        self._read: dict[str, tuple[Ledger, LedgerState]] = {}
        self._facts: dict[str, PageFacts] = {}
        self._looks: dict[str, _Look] = {}
        """By connection: the last one."""
        self._written: dict[str, dict[tuple[str | None, TopicPartition, int], datetime]] = {}
        """By connection: when records at unread offsets were written."""
        self._late: dict[str, Future[Any]] = {}
        """By stream: a question that somebody has waited for in vain."""
        self._asking: dict[tuple[str, str], tuple[Hashable, Future[Any]]] = {}
        """By stream and kind: the question that is being answered."""
        self._lock = threading.Lock()
        self._pool = Workers("tideline-ledgers", _AT_ONCE, _TURN_SECONDS, _MOST_WAITING)
        clusters = Workers("tideline-brokers", _AT_ONCE, _TURN_SECONDS, _MOST_WAITING)
        self._ledgers = Poller(self._read_ledger, self._pool, _LEDGER_EVERY)
        self._brokers = Poller(self._observe, clusters, _BROKERS_EVERY)

    def names(self) -> set[str]:
        """Names of all streams whose files are accepted."""
        return set(self._files.streams())

    def readable(self, dag_ids: set[str]) -> set[str]:
        """Names of the streams that one of these Dags lands."""
        return {name for name, file in self._files.streams().items() if file.dag_id in dag_ids}

    def dag_of(self, name: str) -> str:
        """The Dag that lands a stream; for a name that is none's, a Dag of that name."""
        file = self._files.streams().get(name)
        return name if file is None else file.dag_id

    def views(self, names: set[str]) -> list[StreamView]:
        """Some streams, by name, as the list shows them. It never waits for a service."""
        streams = self._files.streams()
        return [self._view(streams[name], _LIST_EVERY) for name in sorted(names) if name in streams]

    def view(self, name: str) -> StreamView | None:
        """One stream; None if there is none of that name. It never waits for a service."""
        file = self._files.streams().get(name)
        return None if file is None else self._view(file, _LEDGER_EVERY)

    def ask(
        self,
        name: str,
        question: Callable[[Ledger], Answer],
        kind: str = "",
        asked: Hashable = None,
    ) -> tuple[Future[Answer], bool]:
        """Ask the ledger of a stream that there is something that its state does not tell.

        The question reads the ledger in a thread of its own. Of each kind a stream has one at a
        time: whoever asks the same meanwhile shares its answer.

        Args:
            asked: What is asked, for that.

        Returns:
            The answer, and whether it is one to this question; otherwise ask again after it.

        Raises:
            ServiceAway: An earlier question is not answered yet that `give_up` was told of.
        """
        late = self._late.get(name)
        if late is not None and not late.done():
            raise not_answered(name)
        stream = self._files.streams()[name].stream
        with self._lock:
            known = self._asking.get((name, kind))
            if known is not None and not known[1].done():
                return known[1], known[0] == asked
            future = self._pool.submit(lambda: question(self._ledger(stream)))
            self._asking[name, kind] = asked, future
        return future, True

    def give_up(self, name: str, asked: Future[Any]) -> None:
        """Let no more questions wait for a stream's ledger until this one is answered."""
        if not asked.done() and not asked.cancel():  # one that had no turn yet tells nothing
            self._late[name] = asked

    def _view(self, file: StreamFile, every: float) -> StreamView:
        stream = file.stream
        ledger = self._ledgers.look(stream.stream, every)
        brokers = self._brokers.look(stream.kafka.connection)
        return StreamView(file, ledger, brokers, self._work_out(stream, ledger, brokers))

    def _work_out(
        self, stream: Stream, ledger: Seen[LedgerState], brokers: Seen[Observation]
    ) -> PageFacts | None:
        """The same facts as before where nothing has changed: they may be of many partitions."""
        if ledger.value is None:
            return None
        made_of = (stream, ledger.value, brokers.value)
        known = self._facts.get(stream.stream)
        if known is None or not known.is_made_of(*made_of):
            look = self._looks.get(stream.kafka.connection, _NOT_YET)
            is_newer = look.states.get(stream.stream) is ledger.value
            is_newer = is_newer and look.found is brokers.value
            estimated = look.headroom.get(stream.stream, ())
            known = PageFacts(*made_of, estimated, is_newer=is_newer, mark=mark_named)
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
        stream = self._files.streams()[name].stream
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
        from tideline.kafka.kafka_cluster import KafkaCluster

        topics: set[str] = set()
        states: dict[str, LedgerState] = {}
        for name, file in self._files.streams().items():
            stream = file.stream
            if stream.kafka.connection == connection:
                topics |= set(stream.kafka.topics)
                state = self._ledgers.known(name)
                if state is not None:
                    states[name] = state
                    topics |= set(state.head.topics)
        with KafkaCluster(kafka_settings(connection).less_patient(_BROKER_PATIENCE)) as cluster:
            found = cluster.observe(topics, {})
            headroom = self._measure(cluster, connection, found, states)
        self._looks[connection] = _Look(found, states, headroom)
        return found

    def _measure(
        self,
        cluster: KafkaCluster,
        connection: str,
        found: Observation,
        states: Mapping[str, LedgerState],
    ) -> dict[str, tuple[Headroom, ...]]:
        """Headroom by stream where no run has measured it: of a paused one, nobody else does.

        When a record was written is asked once; like a run's, it is best effort.
        """
        unread = {
            name: unread_places(state.head.positions, found, MOST_MEASURED)
            for name, state in states.items()
            if not state.head.headroom
        }
        ids = {t.topic: t.topic_id for t in found.topics}
        places = {(ids[p.topic], p, at) for some in unread.values() for p, at in some.items()}
        known = self._written.get(connection, {})
        new = {place: at for _, place, at in islice(places - known.keys(), MOST_MEASURED)}
        try:
            written = cluster.written_at(new)
            known |= {(ids[p.topic], p, new[p]): at for p, at in written.items() if at is not None}
            kept = cluster.retention_ms({place.topic for _, place, _ in places}) if places else {}
        except Exception as error:
            log.warning("the page: retention headroom is unknown: %s", error)
            return {}
        self._written[connection] = {key: known[key] for key in places & known.keys()}
        return {
            name: headroom_of(
                some, {p: known.get((ids[p.topic], p, at)) for p, at in some.items()}, kept
            )
            for name, some in unread.items()
        }


def not_answered(name: str) -> ServiceAway:
    """Why there is no answer of a stream's ledger."""
    text = f"the ledger of {name} has not answered within {PATIENCE_SECONDS} s; try again"
    return ServiceAway(text)


class _StreamFiles(StreamsFolder):
    """Whoever looks is not told of folders."""

    def paths(self) -> list[Path]:
        try:
            return super().paths()
        except BadInput as error:  # it names a folder, and anybody may have asked
            log.error("the page: %s", error)
            raise BadInput(
                "the page has no folder of stream files; see the log of Airflow's server"
            ) from None


class Poller(Generic[Key, Value]):
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
        self._begun: dict[Key, float] = {}
        self._lock = threading.Lock()

    def look(self, key: Key, every_seconds: float | None = None) -> Seen[Value]:
        """What is known now; asks in the background where that is too old. It never waits.

        `every_seconds` is how old an answer may be, if that is more than the poller's own.
        """
        wait = max(self._every, every_seconds or 0)
        with self._lock:
            seen = self._seen.get(key, Seen())
            asked = self._asked.get(key)
            if seen.is_pending:
                return self._if_late(key, seen)
            if asked is not None and self._clock() - asked < wait:
                return seen
            # Both before the lock is free: whoever looks next finds that somebody asks.
            self._asked[key] = self._clock()
            self._seen[key] = seen = replace(seen, is_pending=True)
        self._pool.submit(self._go, key)
        return seen

    def _if_late(self, key: Key, seen: Seen[Value]) -> Seen[Value]:
        """What is known; with a problem where the service takes too long. It is not asked again."""
        begun = self._begun.get(key)
        if begun is None or self._clock() - begun < PATIENCE_SECONDS:
            return seen
        problem = f"no answer within {PATIENCE_SECONDS} s; it is still waited for"
        return replace(seen, problem=problem, is_pending=False)

    def known(self, key: Key) -> Value | None:
        """The last answer; nobody is asked."""
        return self._seen.get(key, Seen()).value

    def _go(self, key: Key) -> None:
        self._begun[key] = self._clock()
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
        finally:
            self._begun.pop(key, None)

    def _note(self, key: Key, problem: str) -> None:
        with self._lock:
            self._seen[key] = replace(self._seen[key], problem=problem, is_pending=False)
