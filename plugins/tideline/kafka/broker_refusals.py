"""Why brokers refuse a client: what is final, and what may pass. Needs no client.

    authentication   wrong user or password, a mechanism that the brokers do not offer, or a token
                     that they do not take or the token endpoint does not give
    certificate      the brokers' certificate is not trusted, has expired or is for another name,
                     or ours is refused or cannot be read; or that of the token endpoint
    protocol         TLS or SASL on one side only, or a version that one side does not speak
    authorization    the user lacks a right

Final is what the other side says: a SASL error, a TLS alert, an error code, or a certificate that
does not verify. Apache Kafka's own clients do not try again after these either (KIP-152). A
connection that is cut says nothing: the broker may be restarting.

`tideline.kafka.first_connect` classifies the errors of kafka-python, `refusal_in_java` those of the
client inside Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tideline.errors import AccessRefused

Cause = Literal["authentication", "certificate", "protocol", "authorization"]

_ADVICE: dict[Cause, str] = {
    "authentication": "correct sasl.mechanism and its login (sasl.username and sasl.password, or"
    " sasl.oauthbearer.*) in the connection",
    "certificate": "correct ssl.ca.location, ssl.certificate.location, ssl.key.location,"
    " ssl.key.password or https.ca.location in the connection, use the host names of the servers'"
    " certificates, and renew one that has expired",
    "protocol": "correct security.protocol, or the port in bootstrap.servers, in the connection",
    "authorization": "grant the connection's user this right",
}
_BY_JAVA_CLASS: dict[str, Cause] = {
    "SaslAuthenticationException": "authentication",
    "UnsupportedSaslMechanismException": "authentication",
    "SslAuthenticationException": "certificate",
    "IllegalSaslStateException": "protocol",
    "UnsupportedVersionException": "protocol",
    "TopicAuthorizationException": "authorization",
    "GroupAuthorizationException": "authorization",
    "ClusterAuthorizationException": "authorization",
}
"""Classes of `org.apache.kafka.common.errors`; none of them is a `RetriableException`."""
_JAVA_CLASS = re.compile(rf"\b(?P<name>{'|'.join(_BY_JAVA_CLASS)})\b[:)]?(?P<text>[^\n]*)")
_JAVA_TLS = re.compile(r"Caused by: javax\.net\.ssl\.SSL\w*Exception: (?P<text>[^\n]*)")
_JAVA_OTHER_PROTOCOL = ("Unsupported or unrecognized SSL message", "protocol_version")
_JAVA_NO_TOKEN = re.compile(
    r"The response code (?P<code>\d+) and error response (?P<text>[^\n]*?) was encountered"
    r" reading the token endpoint response; will not"
)
_LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True)
class BrokerRefusal:
    """Why brokers refuse a client for good: one of the module's causes, and what was said.

    Nothing said is a secret of ours.
    """

    cause: Cause
    text: str

    def __str__(self) -> str:
        return f"{self.cause}: {self.text}; {_ADVICE[self.cause]}, then run again"

    def as_error(self, connection: str, servers: str) -> AccessRefused:
        """The error that ends a run; `servers` is the connection's `bootstrap.servers`."""
        return AccessRefused(
            f"connection {connection}: Kafka at {servers} refuses it: {self}. Nothing has moved",
            connection=connection,
            bootstrap_servers=servers,
            cause=self.cause,
        )


def refusal_in_java(text: str) -> BrokerRefusal | None:
    """The refusal that the text of a Java error stands for; None if it may pass.

    Args:
        text: What Spark says of a failed read: messages, classes, and the causes beneath. Classes
            may be named in full or not, as Spark Connect shortens them.
    """
    found = _JAVA_CLASS.search(text)
    if found is None:
        endpoint = _JAVA_NO_TOKEN.search(text)
        if endpoint is None:
            return None
        reason = f"token endpoint: HTTP {endpoint['code']}: {endpoint['text']}"
        return BrokerRefusal("authentication", reason[:_LONGEST_TEXT])
    cause = _BY_JAVA_CLASS[found["name"]]
    reason = f"{found['name']}: {found['text'].strip()}"
    if found["name"] == "SslAuthenticationException":
        beneath = _JAVA_TLS.search(text, found.end())
        if beneath is not None:
            reason = f"{reason}: {beneath['text'].strip()}"
        if "internal_error" in reason:
            return None  # an alert about this one connection
        if any(sign in reason for sign in _JAVA_OTHER_PROTOCOL):
            cause = "protocol"
    return BrokerRefusal(cause, reason[:_LONGEST_TEXT])
