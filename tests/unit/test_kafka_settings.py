"""One connection, two clients, and nothing that is not on the list."""

import json
import os
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tideline.connections import find_connection
from tideline.errors import ConnectionMissing
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import NO_SECRETS, KafkaSettings, kafka_settings
from tideline.kafka.tokens import check_msk_iam
from tideline.launch.target import connect_url, spark_master


@contextmanager
def connection(name, value):
    variable = f"AIRFLOW_CONN_{name.upper()}"
    os.environ[variable] = value if isinstance(value, str) else json.dumps(value)
    try:
        yield
    finally:
        del os.environ[variable]


HERE = __file__  # any file that can be read
SASL = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": 'se"cret',
    "ssl.ca.location": HERE,
}
TOKENS = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": 'se"cret',
}
MSK_IAM = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
}


def test_both_clients_get_the_same_login():
    """kafka-python by keyword, Java by JAAS with the quotes escaped."""
    settings = KafkaSettings("k", SASL)
    python = settings.for_python()
    assert python["sasl_plain_password"] == 'se"cret'
    assert python["ssl_cafile"] == HERE
    spark = settings.for_spark()
    assert 'password="se\\"cret";' in spark["kafka.sasl.jaas.config"]
    assert spark["kafka.ssl.truststore.type"] == "PEM"


def test_java_gets_tokens_by_its_own_classes():
    """Secret, scope and the endpoint's authority are the login module's."""
    spark = KafkaSettings("k", TOKENS).for_spark()
    assert spark["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
        ' clientId="me" clientSecret="se\\"cret";'
    )
    assert spark["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://login.example/token"
    assert spark["kafka.sasl.login.callback.handler.class"].endswith("LoginCallbackHandler")
    assert spark["kafka.sasl.login.read.timeout.ms"] == "10000"  # by itself it waits for ever
    more = TOKENS | {"sasl.oauthbearer.scope": "read", "https.ca.location": HERE}
    jaas = KafkaSettings("k", more).for_spark()["kafka.sasl.jaas.config"]
    assert f'scope="read" ssl.truststore.location="{HERE}" ssl.truststore.type="PEM";' in jaas


def test_msk_iam_is_mapped_for_both_clients():
    """Credentials are where AWS' libraries look for them."""
    settings = KafkaSettings("k", MSK_IAM)
    assert settings.for_python()["sasl_mechanism"] == "AWS_MSK_IAM"
    spark = settings.for_spark()
    assert spark["kafka.sasl.mechanism"] == "AWS_MSK_IAM"
    package = "software.amazon.msk.auth.iam"
    assert spark["kafka.sasl.jaas.config"] == f"{package}.IAMLoginModule required;"
    assert (
        spark["kafka.sasl.client.callback.handler.class"] == f"{package}.IAMClientCallbackHandler"
    )


def test_what_msk_iam_lacks_is_said_before_connecting(monkeypatch):
    """kafka-python would try until its time is up."""
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    cluster = KafkaCluster(KafkaSettings("k", MSK_IAM))
    with cluster, pytest.raises(ConnectionMissing, match="package botocore"):
        cluster.observe([], {})


@pytest.mark.parametrize(
    ("region", "credentials", "text"), [(None, 1, "a region"), ("eu", None, "credentials")]
)
def test_aws_has_to_know_who_and_where(monkeypatch, region, credentials, text):
    """A stand-in for botocore, which is no package of ours."""
    session = SimpleNamespace(
        get_config_variable=lambda name: region, get_credentials=lambda: credentials
    )
    stand_in = SimpleNamespace(Session=lambda: session)
    monkeypatch.setitem(sys.modules, "botocore", SimpleNamespace(session=stand_in))
    monkeypatch.setitem(sys.modules, "botocore.session", stand_in)
    with pytest.raises(ConnectionMissing, match=f"AWS_MSK_IAM lacks {text}"):
        check_msk_iam("k")


@pytest.mark.parametrize(
    ("extra", "warned"),
    [
        (SASL, []),
        (SASL | {"security.protocol": "SASL_PLAINTEXT"}, []),
        (
            SASL | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            ["SASL_PLAINTEXT with PLAIN"],
        ),
        (TOKENS, []),
        (
            TOKENS
            | {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.oauthbearer.token.endpoint.url": "http://a/",
            },
            ["SASL_PLAINTEXT with OAUTHBEARER", "endpoint.url is not https"],
        ),
    ],
)
def test_what_is_sent_in_clear_is_warned_of(extra, warned):
    """SCRAM sends no password."""
    warnings = KafkaSettings("k", extra).warnings
    assert len(warnings) == len(warned)
    for warning, text in zip(warnings, warned, strict=True):
        assert warning.startswith("connection k: ")
        assert text in warning
        assert 'se"cret' not in warning


def test_secrets_stay_out_of_the_repr():
    """A repr ends up in logs."""
    for extra in (SASL, TOKENS):
        assert "cret" not in repr(KafkaSettings("k", extra))


def test_no_option_with_a_secret_counts_as_public():
    """Public ones stand in the job of a driver on another machine."""
    for extra in (SASL, TOKENS):
        options = KafkaSettings("k", extra).for_spark()
        public = {name: value for name, value in options.items() if name in NO_SECRETS}
        assert "cret" not in str(public)
        assert set(options) - set(public) == {"kafka.sasl.jaas.config"}


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({}, "bootstrap.servers: missing"),
        ({"bootstrap.servers": "a:1", "sasl.jaas.config": "x"}, "sasl.jaas.config: unknown"),
        (SASL | {"sasl.mechanism": "GUESS"}, "PLAIN, SCRAM-SHA-256"),
        (
            SASL | {"sasl.password": ""},
            "sasl.password: missing; allowed: required by SCRAM-SHA-512",
        ),
        (SASL | {"security.protocol": "sasl_ssl"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (SASL | {"ssl.ca.location": "/nowhere.pem"}, "a file that can be read"),
        (SASL | {"ssl.certificate.location": HERE}, "ssl.key.location: missing"),
        ({"bootstrap.servers": "a:1", "request.timeout.ms": "soon"}, "a whole number"),
        (TOKENS | {"sasl.oauthbearer.client.secret": ""}, "required by OAUTHBEARER"),
        (
            TOKENS | {"sasl.oauthbearer.method": "default"},
            "sasl.oauthbearer.method: another value; allowed: oidc",
        ),
        (TOKENS | {"sasl.oauthbearer.header.urlencode": "yes"}, "true or false"),
        (TOKENS | {"sasl.oauthbearer.config": "x"}, "sasl.oauthbearer.config: unknown"),
        (TOKENS | {"https.ca.location": "/nowhere.pem"}, "a file that can be read"),
        (SASL | {"sasl.oauthbearer.scope": "x"}, "given with SCRAM-SHA-512"),
        (MSK_IAM | {"security.protocol": "SASL_PLAINTEXT"}, "SASL_SSL with AWS_MSK_IAM"),
    ],
)
def test_a_property_that_is_not_on_the_list_is_refused(extra, text):
    """Free pass-through would let a connection read files (CVE-2025-27817)."""
    with pytest.raises(ConnectionMissing, match=text):
        KafkaSettings("k", extra)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "login.example",
        "file:///etc/passwd",
        "file://h/etc/passwd",
        "https:///token",
        "https://h:x/",
        "https://u:cret@h/",
    ],
)
def test_only_the_address_of_an_endpoint_is_one(url):
    """A file would be read by the Java client, and its content sent (CVE-2025-27817)."""
    with pytest.raises(ConnectionMissing, match="an http or https address") as refused:
        KafkaSettings("k", TOKENS | {"sasl.oauthbearer.token.endpoint.url": url})
    assert "cret" not in str(refused.value)


def test_connections_are_read_from_airflow_s_environment_variables():
    """The JSON form, its extra as an object or as text."""
    extra = {"bootstrap.servers": "a:1"}
    for form in (extra, json.dumps(extra)):
        with connection("here", {"conn_type": "kafka", "extra": form}):
            assert kafka_settings("here").properties["bootstrap.servers"] == "a:1"


def test_another_type_of_connection_is_refused():
    """A typing error in the stream file should not reach a client."""
    http = connection("web", {"conn_type": "http", "host": "x"})
    with http, pytest.raises(ConnectionMissing, match="allowed: kafka"):
        kafka_settings("web")
    odd = connection("odd", "{not json")
    with odd, pytest.raises(ConnectionMissing, match="AIRFLOW_CONN_ODD"):
        find_connection("odd")


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ({"conn_type": "spark", "host": "local[2]"}, None),
        ({"host": "warm"}, "sc://warm:15002/"),
        ({"host": "sc://warm", "port": 443}, "sc://warm:443/"),
        (
            {"host": "warm", "login": "me", "password": "a;b", "extra": {"use_ssl": True}},
            "sc://warm:15002/;user_id=me;use_ssl=True",
        ),
    ],
)
def test_a_connection_names_its_spark_connect_server_as_the_provider_reads_it(value, url):
    """SparkConnectHook.get_connection_url; but a token is in no address, since those are shown."""
    with connection("warm", {"conn_type": "spark_connect", **value}):
        assert connect_url("warm", find_connection("warm")) == url


@pytest.mark.parametrize("host", ["", "sc://warm/x"])
def test_a_spark_connect_server_needs_a_name(host):
    nameless = connection("warm", {"conn_type": "spark_connect", "host": host})
    with nameless, pytest.raises(ConnectionMissing, match="allowed: a server's name"):
        connect_url("warm", find_connection("warm"))


@pytest.mark.parametrize(
    ("value", "master"),
    [
        ({"conn_type": "spark", "host": "local[2]"}, "local[2]"),
        ({"conn_type": "spark", "host": "spark://master", "port": 7077}, "spark://master:7077"),
        ({"conn_type": "spark", "host": "master", "port": 7077}, "spark://master:7077"),
        ({"conn_type": "spark", "host": "yarn"}, "yarn"),
    ],
)
def test_a_spark_connection_names_its_master_as_the_provider_reads_it(value, master):
    """SparkSubmitHook._resolve_connection."""
    with connection("spark_here", value):
        assert spark_master("spark_here", find_connection("spark_here")) == master
