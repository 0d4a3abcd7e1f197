"""The properties of one Kafka connection, for both clients: kafka-python and Spark's Java client.

The connection has the form of Airflow's Kafka provider: type `kafka`, and a JSON object of client
properties as its extra. Only the properties below are allowed: with any other, a connection could
read files or reach other hosts through client plug-ins (CVE-2025-27817).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote_plus, urlsplit

from tideline.connections import refuse_missing_files, refuse_others, refused, required
from tideline.errors import ConnectionMissing
from tideline.secrecy import mask, redacted_line

_EXAMPLE = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "host:9092"}}'
_SECURITY = "org.apache.kafka.common.security"
_PASSWORD = {"username": "sasl.username", "password": "sasl.password"}
_SCRAM = f"{_SECURITY}.scram.ScramLoginModule"
MSK_IAM_CLASSES = "software.amazon.msk.auth.iam"
"""Package of the Java classes for MSK IAM; they come in a jar of Amazon's."""

TOKEN_SECONDS = 10
"""How long a connection to the token endpoint may take, and how long a part of its answer."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One SASL mechanism.

    Args:
        module: Login module of the Java client.
        login: Options of the module, by name, and the properties that they are.
        optional: More of them; the connection may lack these.
        spark: What Spark's Kafka source needs besides.
        is_in_clear: Whether whoever reads the connection without TLS can log in afterwards.
        protocols: Values of `security.protocol` with which it works.
    """

    module: str
    login: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    is_in_clear: bool = False
    protocols: tuple[str, ...] = ("SASL_PLAINTEXT", "SASL_SSL")

    def jaas(self, properties: Mapping[str, object]) -> str:
        """The login module with a connection's properties, as `sasl.jaas.config`; secret."""
        named = {**self.login, **self.optional}
        options = {o: properties[name] for o, name in named.items() if properties.get(name)}
        if "ssl.truststore.location" in options:
            options["ssl.truststore.type"] = "PEM"
        pairs = "".join(f" {option}={_quoted(value)}" for option, value in options.items())
        return f"{self.module} required{pairs};"


def _quoted(value: object) -> str:
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


MECHANISMS = {
    "PLAIN": Mechanism(f"{_SECURITY}.plain.PlainLoginModule", _PASSWORD, is_in_clear=True),
    "SCRAM-SHA-256": Mechanism(_SCRAM, _PASSWORD),
    "SCRAM-SHA-512": Mechanism(_SCRAM, _PASSWORD),
    "OAUTHBEARER": Mechanism(
        f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
        {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
        },
        {"scope": "sasl.oauthbearer.scope", "ssl.truststore.location": "https.ca.location"},
        {
            "kafka.sasl.login.callback.handler.class": (
                f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            # Without these the Java client waits for ever.
            "kafka.sasl.login.connect.timeout.ms": str(TOKEN_SECONDS * 1000),
            "kafka.sasl.login.read.timeout.ms": str(TOKEN_SECONDS * 1000),
        },
        is_in_clear=True,
    ),
    "AWS_MSK_IAM": Mechanism(
        f"{MSK_IAM_CLASSES}.IAMLoginModule",
        spark={
            "kafka.sasl.client.callback.handler.class": (
                f"{MSK_IAM_CLASSES}.IAMClientCallbackHandler"
            )
        },
        protocols=("SASL_SSL",),
    ),
}
"""By `sasl.mechanism`. MSK IAM takes its credentials where AWS' libraries look for them."""


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
_ENCODING = "sasl.oauthbearer.header.urlencode"
SHORT_PATIENCE = 8.0
"""Seconds that brokers which are away are waited for where a person waits."""
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_TOKENS = (
    "sasl.oauthbearer.method",
    ENDPOINT,
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    _ENCODING,
    "https.ca.location",
)
"""Of the mechanism OAUTHBEARER."""
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

ALLOWED = (*_FOR_PYTHON, *_TOKENS, *_FETCHING, *_OURS, *_WITHOUT_EFFECT)
_NUMBERS = ("request.timeout.ms", "default.api.timeout.ms", *_FETCHING)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LONGEST_TEXT = 1500
_SECRETS = ("sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret")
_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "https.ca.location",
)
NO_SECRETS = tuple(
    f"kafka.{name}"
    for name in (
        *(*_FOR_BOTH, *_FETCHING, "ssl.truststore.type", "ssl.truststore.location"),
        *(ENDPOINT, _ENCODING),
        *(option.removeprefix("kafka.") for m in MECHANISMS.values() for option in m.spark),
    )
)
"""Options of Spark's Kafka source that anybody may read; every other one counts as secret."""


def kafka_settings(connection_id: str) -> KafkaSettings:
    """The checked Kafka client properties of a connection.

    Raises:
        ConnectionMissing: There is no such connection, its type is not kafka, or a property is
            not allowed.
    """
    connection = required(connection_id, "kafka", key="kafka.connection", example=_EXAMPLE)
    settings = KafkaSettings(connection_id, connection.extra)
    options = settings.for_spark()  # with the client's key, and the login as Java has it
    mask(value for name, value in options.items() if name not in NO_SECRETS)
    return settings


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
        refuse_others(self.connection, self.properties, ALLOWED, "unknown property")
        if not self.properties.get("bootstrap.servers"):
            raise self._refused("bootstrap.servers", "missing", "host:port[,host:port...]")
        if "@" in str(self.properties["bootstrap.servers"]):
            raise self._refused("bootstrap.servers", "a login in it", "host:port[,host:port...]")
        self._check_security()
        for name in _NUMBERS:
            value = self.properties.get(name)
            if value is not None and not str(value).isdecimal():
                raise self._refused(name, "no number", "a whole number")

    def _check_security(self) -> None:
        protocol = self.protocol
        if protocol not in _PROTOCOLS:
            raise self._refused("security.protocol", "another value", ", ".join(_PROTOCOLS))
        if protocol.startswith("SASL"):
            self._check_login(protocol)
        given = self.properties
        if "ssl.certificate.location" in given and not given.get("ssl.key.location"):
            raise self._refused("ssl.key.location", "missing", "required by the certificate")
        refuse_missing_files(self.connection, given, _FILES)

    def _check_login(self, protocol: str) -> None:
        given = self.properties
        name = given.get("sasl.mechanism")
        mechanism = MECHANISMS.get(str(name))
        if mechanism is None:
            raise self._refused("sasl.mechanism", "another value", ", ".join(MECHANISMS))
        if protocol not in mechanism.protocols:
            raise self._refused(
                "security.protocol", protocol, f"{', '.join(mechanism.protocols)} with {name}"
            )
        for needed in mechanism.login.values():
            if not given.get(needed):
                raise self._refused(needed, "missing", f"required by {name}")
        for own in _TOKENS:
            if name != "OAUTHBEARER" and own in given:
                raise self._refused(own, f"given with {name}", "only with OAUTHBEARER")
        if name == "OAUTHBEARER":
            self._check_tokens()

    def _check_tokens(self) -> None:
        method = self.properties.get("sasl.oauthbearer.method", "oidc")
        if method != "oidc":
            raise self._refused("sasl.oauthbearer.method", "another value", "oidc")
        if str(self.properties.get(_ENCODING, False)).lower() not in ("true", "false"):
            raise self._refused(_ENCODING, "another value", "true or false")
        try:
            url = urlsplit(str(self.properties.get(ENDPOINT) or ""))
            usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
        except ValueError:
            usable = None
        # The address itself is not shown: somebody may have put a password into it.
        if not usable or "@" in url.netloc or url.fragment:
            raise self._refused(ENDPOINT, "not usable", "an http or https address, without a user")

    def _refused(self, name: str, actual: str, allowed: str) -> ConnectionMissing:
        return refused(self.connection, f"extra {name}", actual, allowed)

    @property
    def servers(self) -> str:
        """The `bootstrap.servers`."""
        return str(self.properties["bootstrap.servers"])

    @property
    def protocol(self) -> str:
        """The `security.protocol`."""
        return str(self.properties.get("security.protocol", "PLAINTEXT"))

    @property
    def encodes_client(self) -> bool:
        """Whether the token endpoint gets the client's id and secret URL-encoded (RFC 6749)."""
        return str(self.properties.get(_ENCODING, False)).lower() == "true"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What works, and is not safe."""
        given, found = self.properties, []
        mechanism = MECHANISMS.get(str(given.get("sasl.mechanism")))
        if self.protocol == "SASL_PLAINTEXT" and mechanism is not None and mechanism.is_in_clear:
            found.append(
                f"security.protocol SASL_PLAINTEXT with {given['sasl.mechanism']} sends the login"
                " in clear: whoever reads the network can use it; use SASL_SSL"
            )
        if str(given.get(ENDPOINT, "")).lower().startswith("http:"):
            found.append(f"{ENDPOINT} is not https: it gets the client's secret in clear")
        return tuple(f"connection {self.connection}: {warning}" for warning in found)

    def without_secrets(self, text: str) -> str:
        """A text of somebody else's in a line, with our secrets taken out."""
        given = [str(self.properties.get(name) or "") for name in _SECRETS]
        client = str(self.properties.get("sasl.oauthbearer.client.id") or "")
        encoded = quote_plus if self.encodes_client else str
        login = b64encode(f"{encoded(client)}:{encoded(given[-1])}".encode()).decode()
        return redacted_line(text, [*given, *map(quote_plus, given), login], _LONGEST_TEXT)

    @property
    def patience_seconds(self) -> float:
        """How long to try again after transient errors (`default.api.timeout.ms`, 60 s)."""
        return int(self.properties.get("default.api.timeout.ms", 60_000)) / 1000

    def less_patient(self, seconds: float = SHORT_PATIENCE) -> KafkaSettings:
        """The same for somebody who waits, or asks again soon: says sooner that brokers are away.

        Args:
            seconds: At most so long.
        """
        patience = str(int(min(self.patience_seconds, seconds) * 1000))
        return replace(self, properties={**self.properties, "default.api.timeout.ms": patience})

    @property
    def request_timeout_ms(self) -> int:
        """How long one request may take (`request.timeout.ms`, 15 s); at most the patience."""
        own = int(self.properties.get("request.timeout.ms", 15_000))
        return max(1, min(own, int(self.patience_seconds * 1000)))

    def for_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python's clients; a provider of tokens comes besides."""
        arguments = {
            theirs: self.properties[name]
            for name, theirs in _FOR_PYTHON.items()
            if name in self.properties
        }
        return arguments | {"request_timeout_ms": self.request_timeout_ms}

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's Kafka source, with passwords, client certificate and key inline.

        Inline, since executors on other machines do not have the files. The authorities to trust
        are a file all the same: they are no secret, and every machine has them.
        """
        given = self.properties
        options = {f"kafka.{n}": str(given[n]) for n in (*_FOR_BOTH, *_FETCHING) if n in given}
        if self.protocol.startswith("SASL"):
            mechanism = MECHANISMS[given["sasl.mechanism"]]
            options |= {**mechanism.spark, "kafka.sasl.jaas.config": mechanism.jaas(given)}
            if ENDPOINT in given:
                options[f"kafka.{ENDPOINT}"] = str(given[ENDPOINT])
                options[f"kafka.{_ENCODING}"] = str(self.encodes_client).lower()
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


def _file(path: str) -> str:
    with open(path, encoding="ascii") as pem:
        return pem.read()
