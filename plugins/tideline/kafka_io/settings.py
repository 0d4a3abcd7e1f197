"""The properties of one Kafka connection, for both clients: kafka-python and Spark's Java client.

The connection has the form of Airflow's Kafka provider: type `kafka`, and a JSON object of client
properties as its extra. Only the properties below are allowed. With any other, a connection could
read files or reach other hosts through client plug-ins (CVE-2025-27817).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tideline.errors import ConnectionMissing

_FOR_PYTHON = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
    "request.timeout.ms": "request_timeout_ms",
}
_FOR_BOTH = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "client.id")
_FETCHING = (
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "max.poll.records",
    "receive.buffer.bytes",
)
_OURS = ("default.api.timeout.ms",)
_WITHOUT_EFFECT = ("group.id", "auto.offset.reset", "enable.auto.commit")
"""Common in such connections; they are accepted and ignored."""

ALLOWED = (*_FOR_PYTHON, *_FETCHING, *_OURS, *_WITHOUT_EFFECT)
_NUMBERS = ("request.timeout.ms", "default.api.timeout.ms", *_FETCHING)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SECRETS = ("sasl.password", "ssl.key.password")
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
NO_SECRETS = tuple(
    f"kafka.{name}"
    for name in (*_FOR_BOTH, *_FETCHING, "ssl.truststore.type", "ssl.truststore.location")
)
"""Options of Spark's Kafka source that anybody may read; every other one counts as secret."""
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Checked client properties of one cluster.

    Args:
        connection: Id of the Airflow connection, for messages.
        properties: Values by the names of librdkafka; they may be secret and are not in the repr.

    Raises:
        ConnectionMissing: A property is unknown, missing or of the wrong form.
    """

    connection: str
    properties: Mapping[str, Any] = field(repr=False)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.properties) - set(ALLOWED))
        if unknown:
            raise self._refused(unknown[0], "unknown property", f"one of {', '.join(ALLOWED)}")
        if not self.properties.get("bootstrap.servers"):
            raise self._refused("bootstrap.servers", "missing", "host:port[,host:port...]")
        self._check_security()
        for name in _NUMBERS:
            value = self.properties.get(name)
            if value is not None and not str(value).isdecimal():
                raise self._refused(name, repr(value), "a whole number")

    def _check_security(self) -> None:
        protocol = self.protocol
        if protocol not in _PROTOCOLS:
            raise self._refused("security.protocol", repr(protocol), ", ".join(_PROTOCOLS))
        if protocol.startswith("SASL"):
            mechanism = self.properties.get("sasl.mechanism")
            if mechanism not in _LOGIN_MODULES:
                raise self._refused("sasl.mechanism", repr(mechanism), ", ".join(_LOGIN_MODULES))
            for name in ("sasl.username", "sasl.password"):
                if not self.properties.get(name):
                    raise self._refused(name, "missing", f"required by {protocol}")
        if "ssl.certificate.location" in self.properties and not self.properties.get(
            "ssl.key.location"
        ):
            raise self._refused("ssl.key.location", "missing", "required by the certificate")
        for name in _FILES:
            path = self.properties.get(name)
            if path is not None and not Path(path).is_file():
                raise self._refused(name, repr(path), "a file that can be read")

    def _refused(self, name: str, actual: str, allowed: str) -> ConnectionMissing:
        return ConnectionMissing(
            f"connection {self.connection}: extra {name}: {actual}; allowed: {allowed}",
            connection=self.connection,
            property=name,
        )

    @property
    def protocol(self) -> str:
        """The `security.protocol`."""
        return str(self.properties.get("security.protocol", "PLAINTEXT"))

    def without_secrets(self, text: str) -> str:
        """A text of somebody else's, with our secrets taken out."""
        for name in _SECRETS:
            if secret := str(self.properties.get(name) or ""):
                text = text.replace(secret, "***")
        return text

    @property
    def patience_seconds(self) -> float:
        """How long to try again after transient errors (`default.api.timeout.ms`, 60 s)."""
        return int(self.properties.get("default.api.timeout.ms", 60_000)) / 1000

    @property
    def request_timeout_ms(self) -> int:
        """How long one request may take (`request.timeout.ms`, 15 s); at most the patience."""
        own = int(self.properties.get("request.timeout.ms", 15_000))
        return max(1, min(own, int(self.patience_seconds * 1000)))

    def for_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python's clients."""
        arguments = {
            theirs: self.properties[name]
            for name, theirs in _FOR_PYTHON.items()
            if name in self.properties
        }
        return arguments | {"request_timeout_ms": self.request_timeout_ms}

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's Kafka source, with passwords, client certificate and key inline."""
        given = self.properties
        options = {f"kafka.{n}": str(given[n]) for n in (*_FOR_BOTH, *_FETCHING) if n in given}
        if str(given.get("security.protocol")).startswith("SASL"):
            module = _LOGIN_MODULES[given["sasl.mechanism"]]
            user = _quoted(given.get("sasl.username", ""))
            password = _quoted(given.get("sasl.password", ""))
            options["kafka.sasl.jaas.config"] = (
                f"{module} required username={user} password={password};"
            )
        if "ssl.ca.location" in given:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.location"] = str(given["ssl.ca.location"])
        if "ssl.certificate.location" in given:
            options["kafka.ssl.keystore.type"] = "PEM"
            options["kafka.ssl.keystore.certificate.chain"] = _file(
                given["ssl.certificate.location"]
            )
            options["kafka.ssl.keystore.key"] = _file(given["ssl.key.location"])
            if "ssl.key.password" in given:
                options["kafka.ssl.key.password"] = str(given["ssl.key.password"])
        return options


def _quoted(value: object) -> str:
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _file(path: str) -> str:
    with open(path, encoding="ascii") as pem:
        return pem.read()
