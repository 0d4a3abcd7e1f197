"""Requests to an object store, and the faults that `StoreProxy` makes of them.

The proxy is a process of its own, so everything here can be pickled.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

_HOLD_SECONDS = 120
_SPARK = ("hadoop", "azure blob fs", "ghfs")
"""In lower case, in the user agents of Hadoop's clients."""
_AZURE = "x-ms-version"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """One request to the store.

    Args:
        method: HTTP's.
        target: Path and query, as they came.
        headers: Names in lower case.
        body: The whole body; empty where requests are listed.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def key(self) -> str:
        """The object's key, without the bucket; of a listing, its prefix."""
        if self.operation == "LIST":
            return self.query.get("prefix", [""])[0]
        depth = 2 if _AZURE in self.headers else 1  # an account is before the container
        return "/".join(unquote(urlsplit(self.target).path).lstrip("/").split("/")[depth:])

    @property
    def query(self) -> dict[str, list[str]]:
        """The query's parameters."""
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def operation(self) -> str:
        """GET, HEAD, PUT, DELETE, LIST, or POST for what deletes many and for parts."""
        is_list = "list-type" in self.query or self.query.get("comp") == ["list"]
        return "LIST" if self.method == "GET" and is_list else self.method

    @property
    def is_conditional(self) -> bool:
        """Whether it may only create an object."""
        google = self.headers.get("x-goog-if-generation-match")
        return self.headers.get("if-none-match") == "*" or google == "0"

    @property
    def is_spark(self) -> bool:
        """Whether Spark has sent it, and not the run."""
        agent = self.headers.get("user-agent", "").lower()
        return any(name in agent for name in _SPARK)


def counted(requests: Iterable[StoreRequest]) -> Counter[str]:
    """How many there are of each operation."""
    return Counter(request.operation for request in requests)


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """One answer of the store, or of a fault in its place."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)


Forward = Callable[[], StoreAnswer]
Adapter = Callable[[StoreRequest, Callable[[StoreRequest], StoreAnswer]], StoreAnswer]
"""Answers a request by others that the store understands; the second argument sends one."""


class Fault(Protocol):
    """What happens to a request; None cuts the connection."""

    def __call__(self, request: StoreRequest, forward: Forward) -> StoreAnswer | None:
        """Answer it; `forward` passes it on."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The store does it, and the client never hears of it."""

    def __call__(self, request: StoreRequest, forward: Forward) -> None:
        """Pass it on, and cut the connection."""
        forward()


@dataclass(frozen=True, slots=True)
class Answer:
    """The store says this error, as S3 does, and does nothing.

    Args:
        status: HTTP's.
        code: S3's, such as `SlowDown`.
    """

    status: int
    code: str

    def __call__(self, request: StoreRequest, forward: Forward) -> StoreAnswer:
        """Answer without passing it on."""
        text = f"<Error><Code>{self.code}</Code><Message>the fault of a test</Message></Error>"
        return StoreAnswer(self.status, (("Content-Type", "application/xml"),), text.encode())


@dataclass(frozen=True, slots=True)
class Page:
    """A web server answers in the store's place: whatever is asked, here is its page."""

    def __call__(self, request: StoreRequest, forward: Forward) -> StoreAnswer:
        """Answer without passing it on."""
        text = b"<html><body><p>Welcome</p></body></html>"
        return StoreAnswer(200, (("Content-Type", "text/html; charset=utf-8"),), text)


@dataclass(frozen=True, slots=True)
class Slow:
    """Each request takes so many seconds longer, as over a distance."""

    seconds: float

    def __call__(self, request: StoreRequest, forward: Forward) -> StoreAnswer:
        """Wait, then pass it on."""
        threading.Event().wait(self.seconds)
        return forward()


@dataclass(frozen=True, slots=True)
class Hold:
    """Holds a request until `StoreProxy.release`.

    Args:
        done: Whether the store does it first, and the answer is held and lost in the end.
        name: Of this hold; another one for each.
    """

    done: bool = False
    name: str = field(default_factory=lambda: f"hold-{next(_numbers)}")

    def __call__(self, request: StoreRequest, forward: Forward) -> StoreAnswer | None:
        """Wait until it is released."""
        reached, released = events(self.name)
        if self.done:
            forward()
        reached.set()
        if not released.wait(_HOLD_SECONDS):
            raise TimeoutError(f"nobody released {request}")
        return None if self.done else forward()


_events: dict[str, tuple[threading.Event, threading.Event]] = {}


def events(name: str) -> tuple[threading.Event, threading.Event]:
    """In the proxy's process: whether a hold was reached, and whether it is released."""
    return _events.setdefault(name, (threading.Event(), threading.Event()))


@dataclass(frozen=True, slots=True)
class IgnoreCondition:
    """The store puts what was to be created only, as if it did not know conditions.

    The condition is signed, so the request itself cannot be passed on without it.

    Args:
        uri: An address in the bucket.
        options: delta-rs', without a proxy.
    """

    uri: str
    options: Mapping[str, str]

    def __call__(self, request: StoreRequest, forward: Forward) -> StoreAnswer:
        """Put the object in a request of our own."""
        import obstore

        from tideline.store.table_files import object_store

        store, _ = object_store(self.uri, self.options)
        obstore.put(store, request.key, request.body)
        return StoreAnswer(200, (("ETag", '"put"'),), b"")


@dataclass(frozen=True, slots=True)
class Rule:
    """One fault, switched on by `StoreProxy.add`.

    Args:
        fault: What happens.
        operation: Of which requests, as `StoreRequest.operation`; None means any.
        key: The key contains this.
        conditional: Only requests that may only create.
        times: Applied at most so often; None means until it is removed.
        skip: Matching requests that pass unharmed first.
        name: Of this rule; another one for each.
    """

    fault: Fault
    operation: str | None = None
    key: str = ""
    conditional: bool = False
    times: int | None = None
    skip: int = 0
    name: str = field(default_factory=lambda: f"rule-{next(_numbers)}")

    def matches(self, request: StoreRequest) -> bool:
        """Whether it is about a request."""
        return (
            self.operation in (None, request.operation)
            and self.key in request.key
            and (request.is_conditional or not self.conditional)
        )
