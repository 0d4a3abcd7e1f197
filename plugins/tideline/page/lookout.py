"""What follows from a ledger's state and an observation: worked out once, however many look.

Slow services, asked in the background: who looks gets the last answer at once, and its age.

However many people look, a service is asked once at a time, and not again before some seconds
have passed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import Generic, TypeVar

from tideline.errors import TidelineError
from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.observation import Observation
from tideline.model.request import RequestedRange
from tideline.model.status import Standing
from tideline.page.bands import Painter, standings
from tideline.rules.positions import mark_named
from tideline.rules.status import doubt
from tideline.stream.stream import Stream

_RANGES = 20
"""At most so many ranges are offered to be landed."""


class StreamFacts:
    """A stream's facts, each worked out when somebody first asks for it.

    Args:
        stream: From its file.
        state: Of its ledger.
        observed: What the brokers said last; None if they have never answered.
        is_newer: Whether the ledger has not changed since before they were asked.
    """

    def __init__(
        self, stream: Stream, state: LedgerState, observed: Observation | None, *, is_newer: bool
    ) -> None:
        self.stream = stream
        self.state = state
        self.observed = observed
        self._is_newer = is_newer

    def stand_on(self, stream: Stream, state: LedgerState, observed: Observation | None) -> bool:
        """Whether they are made of these very objects."""
        return self.stream is stream and self.state is state and self.observed is observed

    @cached_property
    def head(self) -> Head:
        """The ledger's, with those topics set aside that the file no longer names."""
        return mark_named(self.state.head, self.stream.kafka)

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """Where each partition stands, by topic and number."""
        level = self.stream.kafka.isolation_level
        return standings(self.state.head, self.observed, level)

    @cached_property
    def painter(self) -> Painter:
        """Paints their bands."""
        return Painter(self.state.head, self.state.runs.values(), self.state.control.incidents)

    @cached_property
    def doubt(self) -> str | None:
        """Why the brokers' last answer does not tell how the stream is doing; None if it does."""
        if self.observed is None:
            return "the brokers have not answered yet"
        topics, stand = self.stream.kafka.topics, self.standings
        return doubt(topics, self.head, stand, self.observed, is_newer=self._is_newer)

    @cached_property
    def not_landed(self) -> tuple[RequestedRange, ...]:
        """Readable offsets below the next ones that nobody has landed, one range a partition."""
        return tuple(islice(filter(None, map(self._first_gap, self.standings)), _RANGES))

    def _first_gap(self, standing: Standing) -> RequestedRange | None:
        start = standing.log_start_offset
        if start is None or standing.topic is None:
            return None
        for log in self.painter.paint(standing):
            for band in log.bands if log.is_current else ():
                offsets = band.offsets
                if band.kind == "gap" and offsets.end_offset > start:
                    first = max(start, offsets.start_offset)
                    place = (standing.topic, standing.partition)
                    return RequestedRange(*place, first, offsets.end_offset)
        return None


log = logging.getLogger("tideline")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Seen(Generic[Value]):
    """What is known of a service.

    Args:
        value: Its last answer; None if it has never answered.
        asked_at: When it gave that answer, UTC-aware; None if it has never answered.
        problem: Why it did not answer last time; None if it did.
        is_pending: Whether it is being asked now.
    """

    value: Value | None = None
    asked_at: datetime | None = None
    problem: str | None = None
    is_pending: bool = False


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

        Args:
            key: Which service.
            every_seconds: How old an answer may be, if that is more than the lookout's own.
        """
        wait = max(self._every, every_seconds or 0)
        with self._lock:
            seen = self._seen.get(key, Seen())
            asked = self._asked.get(key)
            if seen.is_pending or (asked is not None and self._clock() - asked < wait):
                return seen
            self._asked[key] = self._clock()
            self._seen[key] = seen = replace(seen, is_pending=True)
        self._pool.submit(self._go, key)
        return seen

    def known(self, key: Key) -> Value | None:
        """The last answer; nobody is asked."""
        return self._seen.get(key, Seen()).value

    def forget(self, key: Key) -> None:
        """Ask anew: what the key stands for has changed."""
        with self._lock:
            self._asked.pop(key, None)

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
