"""One real broker with a listener for each security protocol, an authorizer and two users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.broker import Broker
from devstack.process import HOST, free_ports
from tests.tls import Authority

PASSWORD = "right-and-secret"
"""Of both users."""
_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' user_admin="{PASSWORD}" user_guest="{PASSWORD}";'
)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NAMES = (*PROTOCOLS, "MUTUAL", "ELSEWHERE")


class SecuredBroker:
    """A broker; `admin` may do everything, `guest` nothing, mechanism PLAIN.

    Besides the four protocols there are two listeners with TLS: `MUTUAL` wants a client
    certificate, and the certificate of `ELSEWHERE` names another host.

    Args:
        folder: Holds data, certificates and log.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(folder, "authority")
        self.stranger = Authority(folder, "stranger")
        self.ports = dict(zip(_NAMES, free_ports(len(_NAMES)), strict=True))
        here = self.authority.issue("broker", HOST)
        elsewhere = self.authority.issue("elsewhere", "kafka.example")
        controller = free_ports(1)[0]
        addresses = {name: f"{name}://{HOST}:{port}" for name, port in self.ports.items()}
        protocols = {name: name for name in _NAMES} | {"MUTUAL": "SSL", "ELSEWHERE": "SSL"}
        tls = {
            f"listener.name.{name}.ssl.keystore.{key}": value
            for name in ("ssl", "sasl_ssl", "mutual", "elsewhere")
            for key, value in {
                "type": "PEM",
                "location": str(elsewhere if name == "elsewhere" else here),
            }.items()
        }
        login = {
            f"listener.name.{name}.plain.sasl.jaas.config": _LOGIN
            for name in ("sasl_plaintext", "sasl_ssl")
        }
        self.broker = Broker(
            folder / "kafka",
            self.ports["PLAINTEXT"],
            {
                "listeners": ",".join((*addresses.values(), f"CONTROLLER://{HOST}:{controller}")),
                "advertised.listeners": ",".join(addresses.values()),
                "controller.quorum.voters": f"1@{HOST}:{controller}",
                "listener.security.protocol.map": ",".join(
                    ("CONTROLLER:PLAINTEXT", *map(":".join, protocols.items()))
                ),
                "sasl.enabled.mechanisms": "PLAIN",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:admin",
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mutual.ssl.truststore.type": "PEM",
                "listener.name.mutual.ssl.truststore.location": str(self.authority.certificate),
                **tls,
                **login,
            },
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


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Start it, and stop it at the end."""
    secured = SecuredBroker(folder)
    secured.broker.start()
    try:
        yield secured
    finally:
        secured.broker.stop()
