"""Threads for questions to services, of which one that does not answer holds up nobody else.

An executor of the standard library is no good here: a few services that hang would take all its
threads, and Python waits for them before it ends (docs/adr/0045-a-turn-is-not-a-thread.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class Workers(Executor):
    """Works on some questions at once, each in a thread of its own that ends with the process.

    Args:
        name: Of the threads.
        at_once: Questions that have a turn at the same time.
        turn_seconds: After so long the next question gets the turn; the one that had it goes on.
        most: Questions under way, with and without a turn; others wait until one of them ends.
    """

    def __init__(self, name: str, at_once: int, turn_seconds: float, most: int) -> None:
        self._name = name
        self._turn = turn_seconds
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._room = threading.Semaphore(most)
        self._idle = at_once
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., Answer], /, *args: Any, **kwargs: Any) -> Future[Answer]:
        """Begin with it once there is a turn."""
        future: Future[Answer] = Future()
        self._waiting.put(partial(_answer, future, partial(work, *args, **kwargs)))
        with self._lock:
            if self._idle:  # not before it is needed: a process may fork first
                self._idle -= 1
                self._start(self._name, self._give_turns)
        return future

    def _give_turns(self) -> None:
        while True:
            question = self._waiting.get()
            self._room.acquire()
            done = threading.Event()
            self._start(f"{self._name}-question", self._answer, question, done)
            done.wait(self._turn)

    def _answer(self, question: Callable[[], None], done: threading.Event) -> None:
        try:
            question()
        finally:
            self._room.release()
            done.set()

    def _start(self, name: str, work: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=work, args=args, name=name, daemon=True).start()


def _answer(future: Future[Answer], work: Callable[[], Answer]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
