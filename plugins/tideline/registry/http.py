"""One client for what answers over HTTP with a login of ours: registries, Unity Catalog.

An answer is bounded in size and in time, and comes as it is: a small one could unpack to any size.
Redirects are not followed: they would carry login or token to another address. A proxy reads what
is sent in clear: none is asked where that holds a secret.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from tideline.registry.connecting import RegistrySettings
from tideline.waits import waiting


class AnswerTooLarge(Exception):
    """An answer has no end, or none that anybody waits for."""


class AnswerTooSlow(Exception):
    """An answer has not ended in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; all of it are somebody else's words.

    Args:
        status: Of HTTP.
        reason: In the words of the status line.
        body: Empty for a redirect.
        target: Where a redirect leads; None for any other answer.
    """

    status: int
    reason: str
    body: bytes
    target: str | None = None


class Http:
    """Asks one place; its connections are kept until `close`.

    Args:
        settings: Where it is, and how to log in.
        seconds: How long an answer may take, from the request to its last byte.
        accept: Which kinds of answers.
        context: What to trust.
    """

    def __init__(
        self, settings: RegistrySettings, seconds: float, accept: str, context: ssl.SSLContext
    ) -> None:
        self._settings = settings
        self._seconds = seconds
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token}"
        self._client = httpx.Client(
            headers=headers,
            auth=(settings.login, settings.password or "") if settings.login else None,
            verify=context,
            timeout=seconds,
            follow_redirects=False,
            trust_env=not settings.tells_in_clear,
        )
        self.close: Callable[[], None] = self._client.close
        self._is_late: threading.Event | None = None
        self._stream: Any = None
        """The connection that was opened last: it is kept, and the next request has it as well."""

    def ask(
        self, path: str, most_bytes: int, method: str = "GET", body: dict[str, Any] | None = None
    ) -> Answer:
        """What is answered to a request.

        Args:
            path: Below the address of the settings.
            most_bytes: Of the answer.
            body: Sent as JSON; None for nothing.

        Raises:
            httpx.HTTPError, httpx.InvalidURL: There is none.
            AnswerTooLarge, AnswerTooSlow: It is not read to its end.
        """
        is_late = self._is_late = threading.Event()
        # A little later than the client's own limit of one read, which says more.
        end = threading.Timer(1.2 * self._seconds, self._cut, [is_late])
        end.daemon = True
        end.start()
        try:
            with waiting(self._settings.url, self._seconds):
                answer = self._answer(path, most_bytes, method, body)
        except httpx.TransportError:
            if not is_late.is_set():
                raise
        else:
            if not is_late.is_set():  # one without a length ends where its connection does
                return answer
        finally:
            end.cancel()
        raise AnswerTooSlow(f"the answer takes more than {self._seconds:g} s")

    def _answer(
        self, path: str, most_bytes: int, method: str, body: dict[str, Any] | None
    ) -> Answer:
        found, url = bytearray(), f"{self._settings.url}{path}"
        seen = {"trace": self._note}
        with self._client.stream(method, url, json=body, extensions=seen) as response:
            status, reason = response.status_code, response.reason_phrase
            if response.is_redirect:
                target = response.headers.get("location", "nowhere").partition("?")[0]
                return Answer(status, reason, b"", self._settings.without_secrets(target))
            for chunk in response.iter_raw():
                found += chunk
                if len(found) > most_bytes:
                    raise AnswerTooLarge(f"the answer has more than {most_bytes:,} bytes")
            return Answer(status, reason, bytes(found))

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]
            if self._is_late is not None and self._is_late.is_set():
                self._end()  # of several addresses the first ones have taken all the time

    def _cut(self, is_late: threading.Event) -> None:
        """End the request: each byte of a header begins the client's own limit anew."""
        is_late.set()
        self._end()

    def _end(self) -> None:
        if self._stream is not None:
            with suppress(OSError, AttributeError):
                self._stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
