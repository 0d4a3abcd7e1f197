"""One real broker with a listener for each security protocol, an authorizer and its users."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from devstack.broker import Broker
from devstack.harness import StreamHarness
from devstack.process import HOST, free_ports
from tests.worlds.tls import Authority
from tests.worlds.token_issuer import AUDIENCE, CLIENT, SECRET, TokenIssuer

PASSWORD = "right-and-secret"
"""Of every user."""
USERS = ("admin", "guest", "looker", "reader")
_SECURITY = "org.apache.kafka.common.security"
_LOGIN = f"{_SECURITY}.plain.PlainLoginModule required" + "".join(
    f' user_{user}="{PASSWORD}"' for user in USERS
)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_LISTENERS = {
    **{protocol: protocol for protocol in PROTOCOLS},
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "EXPIRED": "SSL",
    "RENAMED": "SSL",
    "MISNAMED": "SSL",
    "NOWHERE": "SSL",
    "LOGINS": "SASL_SSL",
}
_ADVERTISED = {"RENAMED": "localhost", "MISNAMED": "localhost", "NOWHERE": "kafka.invalid"}


class SecuredBroker:
    """A broker with users of the same password.

    | user | rights |
    |---|---|
    | `admin`, a client with the certificate `client`, one with a token | all |
    | `guest` | none |
    | `looker` | describe every topic |
    | `reader` | describe and read every topic |

    Besides the four protocols, whose mechanism is PLAIN, there are

    | listener | is special |
    |---|---|
    | `MUTUAL` | TLS; wants a client certificate |
    | `ELSEWHERE` | TLS; its certificate names another host |
    | `EXPIRED` | TLS; its certificate has expired |
    | `RENAMED` | TLS; advertises another name, and its certificate holds both |
    | `MISNAMED` | TLS; advertises another name, and its certificate holds the first |
    | `NOWHERE` | TLS; advertises a name that does not exist |
    | `LOGINS` | TLS; every mechanism of `MECHANISMS` |

    Args:
        folder: Holds data, certificates and log.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(folder, "authority")
        self.stranger = Authority(folder, "stranger")
        self.ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
        here = self.authority.issue("broker", HOST)
        self.issuer = TokenIssuer(here)
        keys = folder / "jwks.json"
        keys.write_text(self.issuer.jwks())
        certificates = {
            "ELSEWHERE": self.authority.issue("elsewhere", "kafka.example"),
            "EXPIRED": self.authority.issue("expired", HOST, is_expired=True),
            "RENAMED": self.authority.issue("renamed", HOST, _ADVERTISED["RENAMED"]),
        }
        controller = free_ports(1)[0]
        addresses = {name: f"{name}://{HOST}:{port}" for name, port in self.ports.items()}
        advertised = {
            name: address.replace(HOST, _ADVERTISED.get(name, HOST))
            for name, address in addresses.items()
        }
        tls = {
            f"listener.name.{name.lower()}.ssl.keystore.{key}": value
            for name, protocol in _LISTENERS.items()
            if protocol.endswith("SSL")
            for key, value in {
                "type": "PEM",
                "location": str(certificates.get(name, here)),
            }.items()
        }
        login = {
            f"listener.name.{name}.plain.sasl.jaas.config": f"{_LOGIN};"
            for name in ("sasl_plaintext", "sasl_ssl", "logins")
        }
        logins = {"sasl.enabled.mechanisms": ",".join(MECHANISMS)} | {
            f"{mechanism.lower()}.sasl.jaas.config": f"{_SECURITY}.{module} required;"
            for mechanism, module in {
                "SCRAM-SHA-256": "scram.ScramLoginModule",
                "SCRAM-SHA-512": "scram.ScramLoginModule",
                "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
            }.items()
        }
        tokens = "oauthbearer.sasl.server.callback.handler.class"
        logins[tokens] = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        self.broker = Broker(
            folder / "kafka",
            self.ports["PLAINTEXT"],
            {
                "listeners": ",".join((*addresses.values(), f"CONTROLLER://{HOST}:{controller}")),
                "advertised.listeners": ",".join(advertised.values()),
                "controller.quorum.voters": f"1@{HOST}:{controller}",
                "listener.security.protocol.map": ",".join(
                    ("CONTROLLER:PLAINTEXT", *map(":".join, _LISTENERS.items()))
                ),
                "sasl.enabled.mechanisms": "PLAIN",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:ANONYMOUS;User:admin;User:CN=client;User:{CLIENT}",
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mutual.ssl.truststore.type": "PEM",
                "listener.name.mutual.ssl.truststore.location": str(self.authority.certificate),
                # Without it the broker takes a token with anybody's signature.
                "sasl.oauthbearer.jwt.validator.class": (
                    f"{_SECURITY}.oauthbearer.BrokerJwtValidator"
                ),
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                **tls,
                **login,
                **{f"listener.name.logins.{key}": value for key, value in logins.items()},
            },
            java_options=(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}",),
        )

    def settings(self, protocol: str, listener: str | None = None, **others: str) -> dict[str, str]:
        """The extra of a connection that is right for a protocol; `others` replaces parts of it.

        Args:
            protocol: `security.protocol`.
            listener: Whose port is meant; the protocol's own when None.
            others: Properties with underscores for dots.
        """
        extra = {
            "bootstrap.servers": f"{HOST}:{self.ports[listener or protocol]}",
            "security.protocol": protocol,
        }
        if protocol.startswith("SASL"):
            login = {"mechanism": "PLAIN", "username": "admin", "password": PASSWORD}
            extra |= {f"sasl.{key}": value for key, value in login.items()}
        if protocol.endswith("SSL"):
            extra["ssl.ca.location"] = str(self.authority.certificate)
        return extra | {key.replace("_", "."): value for key, value in others.items()}

    def mutual(self, certificate: Path) -> dict[str, str]:
        """The extra of a connection with a client certificate and its key."""
        own = {"ssl_certificate_location": str(certificate), "ssl_key_location": str(certificate)}
        return self.settings("SSL", "MUTUAL", **own)

    def tokens(self, **others: str) -> dict[str, str]:
        """The extra of a connection with OAUTHBEARER."""
        return tokens_of(self.issuer, self.authority, f"{HOST}:{self.ports['LOGINS']}", **others)

    def start(self) -> None:
        """Start it, and give its users their passwords and rights."""
        self.broker.start()
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)
        try:
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                password = UserScramCredentialUpsertion("admin", mechanism, PASSWORD)
                assert admin.alter_user_scram_credentials([password]) == {"admin": None}
            every = ResourcePattern(ResourceType.TOPIC, "*")
            rights = {
                "looker": (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS),
                "reader": (ACLOperation.READ, ACLOperation.DESCRIBE_CONFIGS),
            }
            admin.create_acls(
                [
                    ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, every)
                    for user, operations in rights.items()
                    for operation in operations
                ]
            )
        finally:
            admin.close()

    def stop(self) -> None:
        """Stop broker and token endpoint."""
        self.broker.stop()
        self.issuer.close()


def tokens_of(
    issuer: TokenIssuer, authority: Authority, servers: str, **others: str
) -> dict[str, str]:
    """The extra of a connection with OAUTHBEARER.

    Args:
        issuer: Gives the tokens.
        authority: Of its certificate, and of the brokers'.
        servers: `bootstrap.servers`.
        others: Properties with underscores for dots.
    """
    extra = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": issuer.url,
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
        "https.ca.location": str(authority.certificate),
    }
    return extra | {key.replace("_", "."): value for key, value in others.items()}


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Start it, and stop it at the end."""
    secured = SecuredBroker(folder)
    try:
        secured.start()
        yield secured
    finally:
        secured.stop()


def connect(harness: StreamHarness, extra: Mapping[str, str]) -> None:
    """Give the streams of a harness a connection.

    Args:
        harness: Theirs.
        extra: Of the connection, as `SecuredBroker` gives it.
    """
    value = json.dumps({"conn_type": "kafka", "extra": dict(extra)})
    os.environ[f"AIRFLOW_CONN_{harness.connection.upper()}"] = value
