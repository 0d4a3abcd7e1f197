"""Slow services, asked in the background: who looks gets the last answer at once, and its age.

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
from typing import Generic, TypeVar

from tideline.errors import TidelineError

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
