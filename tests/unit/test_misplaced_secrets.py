"""A secret in the wrong place is refused, and what is said about it does not hold it."""

import json

import pytest

from tideline.connections import find_connection
from tideline.errors import StreamFileError, TidelineError
from tideline.kafka.settings import kafka_settings
from tideline.launch.target import connect_url, spark_master
from tideline.ledger.connection import ledger_url
from tideline.registry.connecting import registry_settings
from tideline.store.settings import store_settings
from tideline.stream.files import parse_stream

SECRET = "hunter2canary"
GOOD = """\
stream: orders
kafka:
  topics: [orders]
table:
  uri: /data/lake/orders
"""
DECODED = (
    GOOD
    + """\
decode:
  value: {format: json}
  table: {uri: /data/lake/orders_decoded}
  quarantine: {uri: /data/lake/orders_quarantine}
"""
)

FILES = {
    "a property of Kafka's": GOOD.replace("kafka:", f"kafka:\n  sasl.password: {SECRET}"),
    "a section": GOOD + f"registry: {{password: {SECRET}}}\n",
    "text for a section": GOOD + f"limits: sasl.password={SECRET}\n",
    "a list for a section": GOOD + f"on_reset: [{SECRET}]\n",
    "a contradiction": GOOD.replace("topics: [orders]", f"topic_pattern: a\n  topics: [{SECRET}]"),
    "text for a file": SECRET,
    "keys in the table's address": GOOD.replace("/data/lake", f"s3a://KEY:{SECRET}@lake"),
    "a key in the ledger's address": GOOD + f"ledger_uri: s3a://{SECRET}@lake/ledger\n",
    "a token in an address": GOOD.replace("/data/lake", f"s3a://lake:{SECRET}"),
    "another scheme": GOOD.replace("/data/lake", f"https://me:{SECRET}@lake"),
    "no address": GOOD.replace("/data/lake", f"me:{SECRET}@lake"),
    "a typed table": DECODED.replace("/data/lake/orders_decoded", f"s3a://K:{SECRET}@lake/d"),
    "a quarantine": DECODED.replace("/data/lake/orders_quarantine", f"s3a://K:{SECRET}@lake/q"),
    "a schedule": GOOD + f"schedule: https://me:{SECRET}@host\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_stream_file_with_a_secret_is_refused_without_showing_it(name):
    """The message stands in Airflow's notes, in logs and in a terminal."""
    with pytest.raises(StreamFileError) as refused:
        parse_stream(FILES[name], "orders.yaml")
    assert SECRET not in f"{refused.value.message} {refused.value.problems}"


KAFKA = {"bootstrap.servers": "a:1"}
CONNECTIONS = {
    "a login before a server": (
        kafka_settings,
        {"conn_type": "kafka", "extra": {"bootstrap.servers": f"b:1,me:{SECRET}@a:1"}},
    ),
    "a password for a mechanism": (
        kafka_settings,
        {
            "conn_type": "kafka",
            "extra": KAFKA | {"security.protocol": "SASL_SSL", "sasl.mechanism": SECRET},
        },
    ),
    "a password for a protocol": (
        kafka_settings,
        {"conn_type": "kafka", "extra": KAFKA | {"security.protocol": SECRET}},
    ),
    "a password for a number": (
        kafka_settings,
        {"conn_type": "kafka", "extra": KAFKA | {"request.timeout.ms": SECRET}},
    ),
    "a key for a file": (
        kafka_settings,
        {"conn_type": "kafka", "extra": KAFKA | {"ssl.key.location": f"-----BEGIN {SECRET}"}},
    ),
    "a token in a Connect URL": (
        lambda name: connect_url(name, find_connection(name)),
        {"conn_type": "spark_connect", "host": f"sc://host/;token={SECRET}"},
    ),
    "a token behind a Connect host": (
        lambda name: connect_url(name, find_connection(name)),
        {"conn_type": "spark_connect", "host": f"host;token={SECRET}"},
    ),
    "a login before a Connect host": (
        lambda name: connect_url(name, find_connection(name)),
        {"conn_type": "spark_connect", "host": f"me:{SECRET}@host"},
    ),
    "a login before a master": (
        lambda name: spark_master(name, find_connection(name)),
        {"conn_type": "spark", "host": f"spark://me:{SECRET}@host", "port": 7077},
    ),
    "a login before a registry": (
        registry_settings,
        {"conn_type": "http", "host": f"https://me:{SECRET}@host"},
    ),
    "a token for a scheme": (
        registry_settings,
        {"conn_type": "http", "host": "host", "schema": SECRET},
    ),
    "a token for a registry's path": (
        registry_settings,
        {"conn_type": "http", "host": "host", "extra": {"path": f"?token={SECRET}"}},
    ),
    "a registry's key for a file": (
        registry_settings,
        {"conn_type": "http", "host": "https://host", "extra": {"key": f"-----BEGIN {SECRET}"}},
    ),
    "a login before a store": (
        store_settings,
        {"conn_type": "aws", "extra": {"endpoint_url": f"me:{SECRET}@store"}},
    ),
    "a key behind a store": (
        store_settings,
        {"conn_type": "aws", "extra": {"endpoint_url": f"https://store/{SECRET}"}},
    ),
    "a key for a region": (
        store_settings,
        {"conn_type": "aws", "extra": {"region_name": f"{SECRET}/+"}},
    ),
    "a login before a database": (
        ledger_url,
        {"conn_type": "postgres", "host": f"me:{SECRET}@db", "schema": "airflow"},
    ),
}


@pytest.mark.parametrize("name", CONNECTIONS)
def test_a_connection_with_a_secret_in_the_wrong_place_is_refused_alike(name, monkeypatch):
    """Only the field's name is said."""
    look_up, connection = CONNECTIONS[name]
    monkeypatch.setenv("AIRFLOW_CONN_HERE", json.dumps(connection))
    with pytest.raises(TidelineError) as refused:
        look_up("here")
    assert SECRET not in f"{refused.value.message} {refused.value.facts}"
    assert "here" in refused.value.message
