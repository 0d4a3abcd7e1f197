"""What secured brokers say to both clients, and how fast: right, wrong and expired.

The whole table is slow; it is printed at the end, and is the one in docs/brokers-security.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

import pytest

from devstack.harness import StreamHarness
from tests.secured_broker import PASSWORD, SecuredBroker, secured_broker
from tests.secured_reads import HIDDEN, RECORDS, SERVED, by_python, by_spark
from tests.token_issuer import SECRET
from tideline import errors

pytestmark = pytest.mark.slow

AT_ONCE_SECONDS = 15
"""Two cores that others use too; a client that goes on trying takes 60 s."""
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


@dataclass(frozen=True)
class Row:
    """What came out."""

    mechanism: str
    given: str
    client: str
    answer: str
    exit: int
    seconds: str
    said: str


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


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.fixture(scope="module")
def harness(secured, tmp_path_factory):
    found = StreamHarness(secured.broker, tmp_path_factory.mktemp("lake"), "secured")
    found.create(partitions=1)
    found.send(RECORDS)
    return found


@pytest.fixture(scope="module")
def warmed(secured, harness, in_process_spark, tmp_path_factory):
    """Spark after its first job: what starting takes is no part of the times."""
    folder = tmp_path_factory.mktemp("first")
    by_spark(harness, in_process_spark, secured.settings("PLAINTEXT"), folder)
    by_python(harness, secured.settings("PLAINTEXT"))
    return in_process_spark


@pytest.fixture(scope="module")
def table():
    rows: list[Row] = []
    yield rows
    print(f"\n{text_of(rows)}")
    if path := os.environ.get("TIDELINE_SECURITY_TABLE"):
        Path(path).write_text(f"{text_of(rows)}\n")


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.mechanism}-{c.given}".replace(" ", "-"))
def test_both_clients_are_told_at_once(secured, harness, warmed, table, tmp_path, case):
    """The same verdict of both, never a time-out, never a secret."""
    extra = case.extra(secured)
    if case.mechanism == "OAUTHBEARER":
        # One login serves all consumers of a JVM that are the same; here no case uses another's.
        extra["sasl.oauthbearer.scope"] = case.given.replace(" ", "-")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in case.issues.items():
            patch.setattr(secured.issuer, name, value)
        python = row(case, "kafka-python", lambda: by_python(harness, extra))
        spark = row(case, "Spark", lambda: by_spark(harness, warmed, extra, tmp_path))
    table += [python, spark]
    print(python, spark, sep="\n")
    assert (python.answer, spark.answer) == (case.python, case.spark)
    for found in (python, spark):
        assert not [s for s in (PASSWORD, WRONG, SECRET) if s in found.said]
        assert found.answer == AWAY or float(found.seconds) < AT_ONCE_SECONDS


def row(case: Case, client: str, ask: Callable[[], tuple[str, str]]) -> Row:
    began = time.monotonic()
    answer, said = ask()
    took = f"{time.monotonic() - began:.1f}"
    kind = getattr(errors, answer, None)
    # A topic that may not be seen halts a run (tests/spark/test_secured_runs.py).
    status = 3 if answer == HIDDEN else 0 if kind is None else kind.exit_code
    line = " ".join(said.split("\n", 1)[0].split())
    return Row(case.mechanism, case.given, client, answer, status, took, line)


def text_of(rows: list[Row]) -> str:
    """As Markdown."""
    names = [f.name for f in fields(Row)]
    lines = [names, ["---"] * len(names)]
    lines += [[str(cell).replace("|", "/")[:300] for cell in astuple(row)] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
