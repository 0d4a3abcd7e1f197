"""How each SASL mechanism is set up for both clients, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


def jaas(mechanism: Mechanism, properties: Mapping[str, object]) -> str:
    """The login module with its options, as `sasl.jaas.config`; secret.

    Args:
        mechanism: Whose module.
        properties: Of the connection.
    """
    named = {**mechanism.login, **mechanism.optional}
    options = {option: properties[name] for option, name in named.items() if properties.get(name)}
    if "ssl.truststore.location" in options:
        options["ssl.truststore.type"] = "PEM"
    told = "".join(f" {option}={_quoted(value)}" for option, value in options.items())
    return f"{mechanism.module} required{told};"


def _quoted(value: object) -> str:
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
