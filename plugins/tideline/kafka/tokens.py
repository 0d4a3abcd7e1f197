"""Tokens for SASL OAUTHBEARER: OAuth 2.0 client credentials (RFC 6749, section 4.4) over HTTP.

Redirects are not followed, and no proxy is looked for: both would carry the client's secret to
somebody else. Spark's Java client asks by classes of its own, with the same properties.

For AWS_MSK_IAM, kafka-python asks AWS' library itself; here it is only looked for.
"""

from __future__ import annotations

import json
import math
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import quote_plus, urlsplit

from kafka import errors as kafka_errors
from kafka.net.sasl.oauth import AbstractTokenProvider

from tideline.errors import ConnectionMissing
from tideline.kafka.broker_refusals import BrokerRefusal
from tideline.kafka.kafka_settings import ENDPOINT, TOKEN_SECONDS, KafkaSettings

_LONGEST_ANSWER = 1 << 20
_UNSAID_LIFETIME_SECONDS = 60
_LATER = (408, 425, 429)
"""With every 5xx: the endpoint may answer otherwise later (RFC 9110, section 15.5)."""


class TokenRefused(kafka_errors.KafkaError):  # type: ignore[misc]
    """The token endpoint gives no token, for good.

    Args:
        refusal: Why.
    """

    def __init__(self, refusal: BrokerRefusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


class TokenEndpointAway(kafka_errors.KafkaError):  # type: ignore[misc]
    """The token endpoint does not answer now."""


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Gives one token to all connections of a client, and a new one before that expires.

    Args:
        settings: Of a connection with OAUTHBEARER.
        clock: Seconds that only grow.
    """

    def __init__(
        self, settings: KafkaSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._token = ""
        self._use_until = 0.0

    def token(self) -> str:
        """A token that is valid for a while yet."""
        if self._clock() >= self._use_until:
            asked = self._clock()
            self._token, lifetime = self._fetched()
            # Renewed early: a broker may look at a token a while after it was given.
            self._use_until = asked + 0.8 * lifetime
        return self._token

    def _fetched(self) -> tuple[str, float]:
        """A new token, and for how many seconds it is valid."""
        status, content = self._asked()
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        fields = answer if isinstance(answer, dict) else {}
        if status in _LATER or status >= 500:
            raise self._away(f"HTTP {status}")
        if status != 200:
            raise self._refused(f"HTTP {status}{_reason(fields)}")
        token = fields.get("access_token")
        if not (isinstance(token, str) and token and token.isascii() and token.isprintable()):
            raise self._refused("its answer has no usable access_token")
        return token, _seconds(fields.get("expires_in"))

    def _asked(self) -> tuple[int, bytes]:
        """The endpoint's status and answer."""
        import httpx  # half a second, for this mechanism only

        from tideline.bounded_http import AnswerTooLarge, AnswerTooSlow, Http, origin

        place, mark, query = self._url.partition("?")
        ca = self._given("https.ca.location") if urlsplit(place).scheme == "https" else None
        encoded = quote_plus if self._settings.encodes_client else str
        client, secret = (
            encoded(self._given(f"sasl.oauthbearer.client.{part}") or "")
            for part in ("id", "secret")
        )
        scope = self._given("sasl.oauthbearer.scope")
        form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        headers = {"Accept": "application/json"}
        try:
            trusted = ssl.create_default_context(cafile=ca)
            with closing(Http(place, TOKEN_SECONDS, headers, trusted, (client, secret))) as http:
                answer = http.ask(f"{mark}{query}", _LONGEST_ANSWER, "POST", data=form)
            return answer.status, answer.body
        except AnswerTooLarge as error:
            raise self._away("its answer has no end") from error
        except AnswerTooSlow as error:
            raise self._away(str(error)) from error
        except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._by_error(origin(error)) from error

    def _by_error(self, error: BaseException) -> TokenRefused | TokenEndpointAway:
        if not isinstance(error, ssl.SSLError):
            return self._away(f"{type(error).__name__}: {error}")
        if isinstance(error, ssl.SSLCertVerificationError) or error.library in ("X509", "PEM"):
            return self._refused(str(error), "certificate")
        if error.reason == "WRONG_VERSION_NUMBER":
            return self._refused("it does not speak TLS, so https is wrong")
        return self._away(str(error))

    @property
    def _url(self) -> str:
        return str(self._settings.properties[ENDPOINT])

    @property
    def _name(self) -> str:
        """The endpoint, for messages; a query may be secret."""
        return f"token endpoint {self._url.partition('?')[0]}"

    def _given(self, name: str) -> str | None:
        value: Any = self._settings.properties.get(name)
        return None if value is None else str(value)

    def _refused(self, text: str, cause: Any = "authentication") -> TokenRefused:
        message = self._settings.without_secrets(f"{self._name}: {text}")
        return TokenRefused(BrokerRefusal(cause, message))

    def _away(self, text: str) -> TokenEndpointAway:
        return TokenEndpointAway(self._settings.without_secrets(f"{self._name}: {text}"))


def _seconds(lifetime: Any) -> float:
    """A lifetime as endpoints say it: a number, for some as text; one of our own otherwise."""
    try:
        seconds = float(lifetime)
    except (TypeError, ValueError):
        return _UNSAID_LIFETIME_SECONDS
    return seconds if 0 < seconds < math.inf else _UNSAID_LIFETIME_SECONDS


def _reason(answer: dict[str, Any]) -> str:
    """What an error's answer says (RFC 6749, section 5.2)."""
    parts = [str(answer[key]) for key in ("error", "error_description") if answer.get(key)]
    return f": {': '.join(parts)}" if parts else ""


def check_msk_iam(connection: str) -> None:
    """Make sure that there are AWS' library, credentials and a region.

    kafka-python would meet what is missing while it connects, try until its time is up, and not say
    it.

    Raises:
        ConnectionMissing: One of them is missing.
    """
    try:
        from botocore.session import Session
    except ImportError:
        lacking = "the Python package botocore; install it beside Tideline"
    else:
        session = Session()
        if not session.get_config_variable("region"):
            lacking = "a region; set AWS_DEFAULT_REGION"
        elif session.get_credentials() is None:
            lacking = (
                "credentials; give the process a role, or set AWS_ACCESS_KEY_ID and"
                " AWS_SECRET_ACCESS_KEY"
            )
        else:
            return
    raise ConnectionMissing(
        f"connection {connection}: extra sasl.mechanism: AWS_MSK_IAM lacks {lacking}",
        connection=connection,
    )
