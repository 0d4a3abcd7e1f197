"""One connection, two clients, and nothing that is not on the list."""

import json
import os
from contextlib import contextmanager

import pytest

from tideline.connections import connect_url, find_connection, kafka_settings, spark_master
from tideline.errors import ConnectionMissing
from tideline.kafka_io.settings import KafkaSettings


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


def test_both_clients_get_the_same_login():
    """kafka-python by keyword, Java by JAAS with the quotes escaped."""
    settings = KafkaSettings("k", SASL)
    python = settings.for_python()
    assert python["sasl_plain_password"] == 'se"cret'
    assert python["ssl_cafile"] == HERE
    spark = settings.for_spark()
    assert 'password="se\\"cret";' in spark["kafka.sasl.jaas.config"]
    assert spark["kafka.ssl.truststore.type"] == "PEM"


def test_secrets_stay_out_of_the_repr():
    """A repr ends up in logs."""
    assert "cret" not in repr(KafkaSettings("k", SASL))


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
    ],
)
def test_a_property_that_is_not_on_the_list_is_refused(extra, text):
    """Free pass-through would let a connection read files (CVE-2025-27817)."""
    with pytest.raises(ConnectionMissing, match=text):
        KafkaSettings("k", extra)


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
            "sc://warm:15002/;user_id=me;token=a%3Bb;use_ssl=True",
        ),
    ],
)
def test_a_connection_names_its_spark_connect_server_as_the_provider_reads_it(value, url):
    """SparkConnectHook.get_connection_url."""
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
        assert spark_master(find_connection("spark_here")) == master
