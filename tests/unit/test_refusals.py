"""Which refusals of brokers are final: by kafka-python's errors and by Java's texts."""

import logging
import ssl
from types import SimpleNamespace

import pytest
from kafka import errors as kafka_errors

import ingest_range
from tests.worlds.build import planned
from tests.worlds.spark_doubles import Session
from tideline.documents import dump
from tideline.errors import AccessRefused, ServiceAway
from tideline.kafka import kafka_cluster
from tideline.kafka.broker_refusals import refusal_in_java
from tideline.kafka.first_connect import CutAtConnect, is_cut_off, refusal_of
from tideline.kafka.kafka_settings import KafkaSettings
from tideline.kafka.listener import ListenerProbe
from tideline.model.spark_job import SparkJob
from tideline.spark.failures import failed

JAVA = "org.apache.kafka.common.errors."
TLS = "Caused by: javax.net.ssl."


def tls(reason, library="SSL", kind=ssl.SSLError):
    error = kind(1, f"[{library}: {reason}] words")
    error.reason, error.library = reason, library
    return error


def wrapped(error):
    """As kafka-python wraps what the socket raised."""
    return kafka_errors.KafkaConnectionError(error)


def raised_while_handling(error):
    """As it reports a handshake that failed."""
    try:
        try:
            raise error
        except OSError as caught:
            raise kafka_errors.KafkaConnectionError(f"Handshake failed: {caught}")  # noqa: B904
    except kafka_errors.KafkaConnectionError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (kafka_errors.SaslAuthenticationFailedError("wrong"), "authentication"),
        (kafka_errors.UnsupportedSaslMechanismError(), "authentication"),
        (kafka_errors.IllegalSaslStateError(), "protocol"),
        (kafka_errors.UnsupportedVersionError(), "protocol"),
        (kafka_errors.KafkaConfigurationError("x"), "protocol"),
        (kafka_errors.GroupAuthorizationFailedError(), "authorization"),
        (kafka_errors.ClusterAuthorizationFailedError(), "authorization"),
        (tls("CERTIFICATE_VERIFY_FAILED", kind=ssl.SSLCertVerificationError), "certificate"),
        (tls("SSLV3_ALERT_BAD_CERTIFICATE"), "certificate"),
        (tls("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "certificate"),
        (tls("TLSV1_ALERT_UNKNOWN_CA"), "certificate"),
        (tls("NO_CERTIFICATE_OR_CRL_FOUND", "X509"), "certificate"),
        (tls("KEY_VALUES_MISMATCH", "X509"), "certificate"),
        (tls("TLSV1_ALERT_PROTOCOL_VERSION"), "protocol"),
        (tls("SSLV3_ALERT_HANDSHAKE_FAILURE"), "protocol"),
        (tls("WRONG_VERSION_NUMBER"), "protocol"),
    ],
)
def test_what_the_other_side_says_is_final(error, cause):
    """By itself, or wherever the client has put it."""
    forms = [error, wrapped(error)]
    if isinstance(error, OSError):
        forms.append(raised_while_handling(error))
    for form in forms:
        found = refusal_of(form)
        assert found is not None
        assert found.cause == cause


@pytest.mark.parametrize(
    "error",
    [
        kafka_errors.KafkaConnectionError("socket disconnected"),
        kafka_errors.InvalidReceiveError("Invalid frame length: 352518912"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        ssl.SSLZeroReturnError(6, "closed"),
        ConnectionResetError(104, "reset"),
    ],
)
def test_a_cut_connection_says_nothing(error):
    """A broker that restarts does just that."""
    assert refusal_of(error) is None
    assert refusal_of(wrapped(error)) is None
    assert is_cut_off(error)
    assert is_cut_off(wrapped(error))


@pytest.mark.parametrize(
    "error",
    [
        kafka_errors.KafkaTimeoutError("Unable to bootstrap"),
        kafka_errors.KafkaConnectionError("111 ECONNREFUSED"),
        kafka_errors.RequestTimedOutError(),
        kafka_errors.CoordinatorNotAvailableError(),
        tls("TLSV1_ALERT_INTERNAL_ERROR"),
        tls("SSLV3_ALERT_BAD_RECORD_MAC"),
        tls("DECRYPTION_FAILED_OR_BAD_RECORD_MAC"),
        TimeoutError(),
    ],
)
def test_what_may_pass_is_neither(error):
    """Tried again, and reported as a service that is away."""
    assert refusal_of(error) is None
    assert not is_cut_off(error)
    assert isinstance(kafka_cluster._translated(error, settings()), ServiceAway)


def settings(protocol="PLAINTEXT"):
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hidden"}
    return KafkaSettings("k", {"bootstrap.servers": "h:1", "security.protocol": protocol, **login})


@pytest.mark.parametrize(
    ("protocol", "spoken", "refused"),
    [
        ("PLAINTEXT", ListenerProbe(tls=True, sasl=None), True),
        ("PLAINTEXT", ListenerProbe(tls=False, sasl=True), True),
        ("SSL", ListenerProbe(tls=False, sasl=False), True),
        ("SASL_SSL", ListenerProbe(tls=True, sasl=False), True),
        ("SASL_SSL", ListenerProbe(tls=True, sasl=True), False),
        ("SASL_SSL", ListenerProbe(tls=True, sasl=None), False),
        ("PLAINTEXT", ListenerProbe(tls=False, sasl=False), False),
        ("PLAINTEXT", None, False),
    ],
)
def test_a_cut_is_a_refusal_if_the_port_proves_to_speak_otherwise(
    monkeypatch, protocol, spoken, refused
):
    """Silence, and the same protocol, prove nothing: tried again."""
    monkeypatch.setattr(kafka_cluster, "probe_listener", lambda host, port: spoken)
    error = kafka_cluster._translated(CutAtConnect("cut", "h", 1), settings(protocol))
    assert isinstance(error, AccessRefused if refused else ServiceAway)


def test_secrets_are_taken_out_of_what_others_say():
    """A broker or a plug-in may repeat what it was given."""
    for error in (
        kafka_errors.SaslAuthenticationFailedError("hidden is wrong"),
        kafka_errors.KafkaConnectionError("hidden"),
    ):
        assert "hidden" not in str(kafka_cluster._translated(error, settings()))


def test_the_client_logs_no_secret_however_much_is_logged(caplog):
    """At DEBUG kafka-python logs its configuration and every request, passwords and all."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("kafka").setLevel(logging.NOTSET)
    patience = {"request.timeout.ms": "200", "default.api.timeout.ms": "200"}
    away = {**settings("SASL_PLAINTEXT").properties, "bootstrap.servers": "127.0.0.1:9", **patience}
    with (
        kafka_cluster.KafkaCluster(KafkaSettings("k", away)) as cluster,
        pytest.raises(ServiceAway),
    ):
        cluster.observe([], {})
    assert "hidden" not in caplog.text


def test_a_refusal_is_not_tried_again():
    """One look, however long the patience."""
    cluster = kafka_cluster.KafkaCluster(settings())
    asked = []

    def ask(admin):
        asked.append(admin)
        raise kafka_errors.SaslAuthenticationFailedError("wrong")

    cluster._admin = SimpleNamespace(close=lambda: None)
    with pytest.raises(AccessRefused):
        cluster._public(ask)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("text", "cause", "said"),
    [
        (
            f"x\nCaused by: {JAVA}SaslAuthenticationException: Invalid password\n\tat y",
            "authentication",
            "Invalid password",
        ),
        (
            f"({JAVA}SaslAuthenticationException) Invalid password",
            "authentication",
            "Invalid password",
        ),
        (f"{JAVA}UnsupportedSaslMechanismException: no", "authentication", "no"),
        (
            f"{JAVA}SslAuthenticationException: SSL handshake failed\n\tat x\n"
            f"{TLS}SSLHandshakeException: PKIX path building failed",
            "certificate",
            "PKIX path building failed",
        ),
        (
            f"{JAVA}SslAuthenticationException: SSL handshake failed\n"
            f"{TLS}SSLException: Unsupported or unrecognized SSL message",
            "protocol",
            "unrecognized SSL message",
        ),
        (
            "x\nCaused by: java.io.IOException: The response code 401 and error response"
            ' {"invalid_client" - } was encountered reading the token endpoint response; will not'
            " attempt further retries\n\tat y",
            "authentication",
            'token endpoint: HTTP 401: {"invalid_client" - }',
        ),
        (f"{JAVA}IllegalSaslStateException: x", "protocol", "x"),
        (f"{JAVA}TopicAuthorizationException: [orders]", "authorization", "[orders]"),
        (f"{JAVA}GroupAuthorizationException: g", "authorization", "g"),
    ],
)
def test_java_s_refusals_are_read_from_their_text(text, cause, said):
    """Spark reports text only: a stack trace, or through Spark Connect one line."""
    found = refusal_in_java(text)
    assert found is not None
    assert found.cause == cause
    assert said in found.text
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "text",
    [
        f"{JAVA}TimeoutException: Timeout of 60000ms expired",
        f"{JAVA}DisconnectException",
        f"{JAVA}SslAuthenticationException: failed\n"
        f"{TLS}SSLHandshakeException: Received fatal alert: internal_error",
        "java.io.EOFException",
        "Bootstrap broker h:1 (id: -1 rack: null) disconnected",
    ],
)
def test_java_s_other_errors_may_pass(text):
    """Nothing else is final."""
    assert refusal_in_java(text) is None


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "ConfigException: Invalid value x for configuration y: Class"
            " software.amazon.msk.auth.iam.IAMClientCallbackHandler could not be found.",
            "BadInput",
            "aws-msk-iam-auth",
        ),
        (
            "LoginException: No LoginModule found for software.amazon.msk.auth.iam.IAMLoginModule",
            "BadInput",
            "aws-msk-iam-auth",
        ),
        (
            "KafkaException: Failed to create new KafkaAdminClient\nCaused by: LoginException: An"
            " internal error occurred while retrieving token from callback handler",
            "ServiceAway",
            "https.ca.location",
        ),
    ],
)
def test_what_java_leaves_unclear_is_explained(text, kind, said):
    """Amazon's classes are missing; or there is no token, for a reason that is in the log only."""
    result = failed(None, None, RuntimeError(text))
    assert result.error == kind
    assert said in result.message


def test_the_spark_application_says_that_it_was_refused(tmp_path, monkeypatch):
    """At once, and before anything else is made of the error."""
    said = f"{JAVA}TopicAuthorizationException: Not authorized: [orders]\n\tat x"

    def execute(session, job):
        raise RuntimeError(f"{said}\nCaused by: java.lang.ArithmeticException: long overflow")

    monkeypatch.setattr(ingest_range, "execute", execute)
    ranges = (planned().as_coordinates,)
    place = ("file:/t", "landed", ())
    job = SparkJob("s", "r", "p", *place, "read_committed", ranges, {}, str(tmp_path / "result"))
    (tmp_path / "job").write_text(dump(job))
    result = ingest_range.run(str(tmp_path / "job"), Session())
    assert (result.error, result.unreadable) == ("AccessRefused", ())
    assert result.message.startswith("authorization: TopicAuthorizationException: Not authorized")
