"""Ways to connect to a secured broker, right and wrong, and what each client is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.worlds.secured_broker import SecuredBroker
from tests.worlds.secured_reads import HIDDEN, SERVED

WRONG = "wrong-and-secret"
Extra = dict[str, str]


@dataclass(frozen=True)
class Case:
    """One way to connect.

    Args:
        mechanism: How the client shows who it is, or what it may do.
        given: What is right or wrong about it.
        extra: The connection's, from the broker.
        python: What kafka-python is answered: the error's class, or `served`.
        spark: The same of Spark's client.
        issues: What the token endpoint is to be like.
    """

    mechanism: str
    given: str
    extra: Callable[[SecuredBroker], Extra]
    python: str
    spark: str
    issues: dict[str, object] = field(default_factory=dict)


def login(mechanism: str, **others: str) -> Callable[[SecuredBroker], Extra]:
    return lambda secured: (
        secured.settings("SASL_SSL", "LOGINS", sasl_mechanism=mechanism)
        | {name.replace("_", "."): value for name, value in others.items()}
    )


def stranger(secured: SecuredBroker) -> str:
    return str(secured.stranger.certificate)


REFUSED, AWAY = "AccessRefused", "ServiceAway"
EVERYWHERE = (REFUSED, REFUSED)
BOTH = (SERVED, SERVED)
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CASES = [
    Case("SSL", "right", lambda s: s.settings("SSL"), *BOTH),
    Case(
        "SSL", "unknown CA", lambda s: s.settings("SSL", ssl_ca_location=stranger(s)), *EVERYWHERE
    ),
    Case("SSL", "wrong host name", lambda s: s.settings("SSL", "ELSEWHERE"), *EVERYWHERE),
    Case("SSL", "expired certificate", lambda s: s.settings("SSL", "EXPIRED"), *EVERYWHERE),
    Case("SSL", "other advertised name", lambda s: s.settings("SSL", "RENAMED"), *BOTH),
    Case(
        "SSL", "advertised name not certified", lambda s: s.settings("SSL", "MISNAMED"), *EVERYWHERE
    ),
    # Kafka's Java client hears nothing but the end of each connection; in a run it comes second.
    Case("SSL", "plain port", lambda s: s.settings("SSL", "PLAINTEXT"), REFUSED, AWAY),
    Case("mTLS", "right", lambda s: s.mutual(s.authority.issue("client")), *BOTH),
    Case("mTLS", "no certificate", lambda s: s.settings("SSL", "MUTUAL"), *EVERYWHERE),
    Case("mTLS", "unknown CA", lambda s: s.mutual(s.stranger.issue("other")), *EVERYWHERE),
    Case(
        "mTLS",
        "expired certificate",
        lambda s: s.mutual(s.authority.issue("old", is_expired=True)),
        *EVERYWHERE,
    ),
    *(Case(name, "right", login(name), *BOTH) for name in PASSWORDS),
    *(
        Case(name, "wrong password", login(name, sasl_password=WRONG), *EVERYWHERE)
        for name in PASSWORDS
    ),
    *(
        Case(name, "unknown user", login(name, sasl_username="nobody"), *EVERYWHERE)
        for name in PASSWORDS
    ),
    Case(
        "PLAIN",
        "unknown CA",
        lambda s: login("PLAIN")(s) | {"ssl.ca.location": stranger(s)},
        *EVERYWHERE,
    ),
    Case(
        "SCRAM-SHA-512",
        "not offered",
        lambda s: s.settings("SASL_SSL", sasl_mechanism="SCRAM-SHA-512"),
        *EVERYWHERE,
    ),
    Case("OAUTHBEARER", "right", lambda s: s.tokens(), *BOTH),
    Case(
        "OAUTHBEARER",
        "wrong secret",
        lambda s: s.tokens(sasl_oauthbearer_client_secret=WRONG),
        *EVERYWHERE,
    ),
    Case("OAUTHBEARER", "forged token", lambda s: s.tokens(), *EVERYWHERE, {"is_forged": True}),
    Case(
        "OAUTHBEARER", "expired token", lambda s: s.tokens(), *EVERYWHERE, {"lifetime_seconds": -60}
    ),
    # It drops the cause as well where it has tried the endpoint for ten seconds.
    Case(
        "OAUTHBEARER",
        "endpoint's CA unknown",
        lambda s: s.tokens(https_ca_location=stranger(s)),
        REFUSED,
        AWAY,
    ),
    Case(
        "OAUTHBEARER",
        "endpoint away",
        lambda s: (
            s.tokens(default_api_timeout_ms="2000")
            | {"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:9/token"}
        ),
        AWAY,
        AWAY,
    ),
    Case(
        "OAUTHBEARER",
        "not offered",
        lambda s: s.tokens(bootstrap_servers=f"127.0.0.1:{s.ports['SASL_SSL']}"),
        *EVERYWHERE,
    ),
    Case(
        "ACL",
        "describe denied",
        login("PLAIN", sasl_username="guest"),
        HIDDEN,
        REFUSED,
    ),
    Case("ACL", "read denied", login("PLAIN", sasl_username="looker"), SERVED, REFUSED),
    Case("ACL", "read granted", login("PLAIN", sasl_username="reader"), *BOTH),
    Case(
        "AWS_MSK_IAM",
        "library and jar missing",
        lambda s: s.settings("SASL_SSL", sasl_mechanism="AWS_MSK_IAM"),
        "ConnectionMissing",
        "BadInput",
    ),
    Case(
        "SSL",
        "advertised name does not exist",
        lambda s: s.settings("SSL", "NOWHERE", default_api_timeout_ms="2000"),
        AWAY,
        AWAY,
    ),
    Case(
        "SSL",
        "broker away",
        lambda s: s.settings("SSL", default_api_timeout_ms="2000", bootstrap_servers="127.0.0.1:9"),
        AWAY,
        AWAY,
    ),
]
