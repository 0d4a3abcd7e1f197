"""One client for what answers over HTTP with a login of ours: registries, Unity, token endpoints.

An answer is bounded in size and in time, and comes as it is: a small one could unpack to any size.
Redirects are not followed: they would carry login or token to another address.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

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
        target: Where a redirect leads, without a query; None for any other answer.
    """

    status: int
    reason: str
    body: bytes
    target: str | None = None


def origin(error: BaseException) -> BaseException:
    """What an error of the client comes from: one of the system's or of TLS, where there is any."""
    while not isinstance(error, OSError) and (beneath := error.__cause__ or error.__context__):
        error = beneath
    return error


class Http:
    """Asks one place; its connections are kept until `close`.

    Args:
        url: Where it is, without a slash at the end; no secret.
        seconds: How long an answer may take, from the request to its last byte.
        headers: Sent with each request.
        context: What to trust.
        login: User and password of basic auth; None for none.
        by_proxy: Whether the environment's proxy is asked; it reads what is sent in clear.
    """

    def __init__(
        self,
        url: str,
        seconds: float,
        headers: Mapping[str, str],
        context: ssl.SSLContext,
        login: tuple[str, str] | None = None,
        *,
        by_proxy: bool = False,
    ) -> None:
        # At INFO it logs addresses with their queries, which may be secret.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._url = url
        self._seconds = seconds
        self._client = httpx.Client(
            headers={**headers, "Accept-Encoding": "identity"},
            auth=login,
            verify=context,
            timeout=seconds,
            follow_redirects=False,
            trust_env=by_proxy,
        )
        self.close: Callable[[], None] = self._client.close
        self._is_late: threading.Event | None = None
        self._stream: Any = None
        """The connection that was opened last: it is kept, and the next request has it as well."""

    def ask(self, path: str, most_bytes: int, method: str = "GET", **body: Any) -> Answer:
        """What is answered to a request.

        Args:
            path: Below the address, or the query behind it.
            most_bytes: Of the answer.
            body: As httpx takes it: `json`, or `data` for a form.

        Raises:
            httpx.HTTPError, httpx.InvalidURL: There is none.
            AnswerTooLarge, AnswerTooSlow: It is not read to its end.
        """
        is_late = self._is_late = threading.Event()
        # A little later than the client's own limits: an error of connecting says more.
        end = threading.Timer(1.2 * self._seconds, self._cut, [is_late])
        end.daemon = True
        end.start()
        try:
            with waiting(self._url, self._seconds):
                answer = self._answer(path, most_bytes, method, **body)
        except httpx.TransportError as error:
            # Chance decides which of the two limits comes first: the text is the same for both.
            if not (is_late.is_set() or isinstance(error, httpx.ReadTimeout)):
                raise
        else:
            if not is_late.is_set():  # one without a length ends where its connection does
                return answer
        finally:
            end.cancel()
        raise AnswerTooSlow(f"the answer takes more than {self._seconds:g} s")

    def _answer(self, path: str, most_bytes: int, method: str, **body: Any) -> Answer:
        found, url = bytearray(), f"{self._url}{path}"
        seen = {"trace": self._note}
        with self._client.stream(method, url, extensions=seen, **body) as response:
            status, reason = response.status_code, response.reason_phrase
            if response.is_redirect:
                target = response.headers.get("location", "nowhere").partition("?")[0]
                return Answer(status, reason, b"", target)
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
