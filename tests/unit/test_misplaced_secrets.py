"""A secret in the wrong place is refused, and what is said about it does not hold it."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from tideline.connections import find_connection
from tideline.errors import StreamFileError, TidelineError
from tideline.kafka.kafka_settings import kafka_settings
from tideline.launch.target import connect_url, spark_master
from tideline.ledger.connection import ledger_url
from tideline.registry.registry_connection import registry_settings
from tideline.store.store_settings import store_settings
from tideline.stream.contents import contents_of
from tideline.stream.files import parse_stream
from tideline.stream.parsing import parse
from tideline.stream.stream import Stream

SECRET = "hunter2canary"
in_s3 = partial(store_settings, uri="s3a://lake/orders")
in_azure = partial(store_settings, uri="abfss://lake@data.dfs.core.windows.net/orders")
in_google = partial(store_settings, uri="gs://lake/orders")
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
    "a short address with a signature": GOOD.replace(
        "/data/lake/orders", f"abfss://c@a.dfs.core.windows.net/o?sig={SECRET}"
    ),
    "a signature of Amazon's": GOOD.replace(
        "/data/lake/orders", f"s3a://lake/o?X-Amz-Expires=9&X-Amz-Signature={SECRET}"
    ),
    "a long address, whose end is a key": GOOD.replace(
        "/data/lake/orders", f"s3a://lake/{'o' * 100}?api_key={SECRET}"
    ),
    "a query that names nothing": GOOD.replace("/data/lake/orders", f"gs://lake/o?{SECRET}"),
    "a fragment": GOOD.replace("/data/lake/orders", f"gs://lake/o#{SECRET}"),
    "a password with an @ in it": GOOD.replace("[orders]", f"['p@ss:{SECRET}']"),
    "a password with more in it": GOOD.replace("[orders]", f"['p@ss, {SECRET}/x y']"),
    "an unknown key's own name": GOOD + f"{SECRET}: 1\n",
    "an unknown key's own name, below": GOOD.replace("table:", f"table:\n  {SECRET}: 1"),
    "a name of a fleet's topic": (
        f"fleet: f\ntopics: [a]\nnames: {{a: 'p@ss:{SECRET}'}}\nstream:\n"
        '  stream: "{name}"\n  kafka: {connection: k}\n  table: {uri: "/lake/{name}"}\n'
    ),
    "a schedule": GOOD + f"schedule: https://me:{SECRET}@host\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_stream_file_with_a_secret_is_refused_without_showing_it(name):
    """The message stands in Airflow's notes, in logs and in a terminal."""
    with pytest.raises(StreamFileError) as refused:
        contents_of(parse(FILES[name], "orders.yaml"))
    assert SECRET not in f"{refused.value.message} {refused.value.facts}"
    assert "orders.yaml:" in refused.value.message


SHAPES = {
    "a login in an address": f"https://me:{SECRET}@host/x",
    "a password by its name": f"sasl.password={SECRET}",
    "a token in a query": f"orders?access_token={SECRET}",
    "a secret in JSON": f'{{"client_secret": "{SECRET}"}}',
    "a key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
}


def _keys() -> Iterator[tuple[str, ...]]:
    """Every key of a stream file that holds no others."""
    schema = Stream.model_json_schema()

    def below(found: dict[str, Any], at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        kinds = [found, *found.get("anyOf", ()), *found.get("oneOf", ())]
        kinds = [schema["$defs"][k["$ref"].rpartition("/")[2]] if "$ref" in k else k for k in kinds]
        inner = [item for kind in kinds for item in kind.get("properties", {}).items()]
        for name, value in inner:
            yield from below(value, (*at, name))
        if not inner:
            yield at

    return below(schema, ())


@pytest.mark.parametrize("key", list(_keys()), ids=".".join)
def test_no_key_takes_what_looks_like_a_secret(key):
    """Whether as a value, in a list, or as a key: what was taken would be shown later."""
    values = [value for text in SHAPES.values() for value in (text, [text], {text: 1})]
    for value in values:
        given = yaml.safe_load(DECODED)
        section = given
        for name in key[:-1]:
            if not isinstance(section.get(name), dict):
                section[name] = {}
            section = section[name]
        section[key[-1]] = value
        with pytest.raises(StreamFileError, match="belongs into an Airflow connection") as refused:
            parse_stream(yaml.safe_dump(given), "orders.yaml")
        assert SECRET not in f"{refused.value.message} {refused.value.problems}"
        assert refused.value.problems[0]["key"] == ".".join(map(str, _place(key, value)))


def _place(key: tuple[str, ...], value: object) -> tuple[str | int, ...]:
    """The key that is named: a key that looks like a secret is named by its section."""
    return (*key, 0) if isinstance(value, list) else key


@pytest.mark.parametrize("key", ["kafka", "spark", "registry", "table"])
@pytest.mark.parametrize("name", ["me@host", "a b", "a=b", ""])
def test_a_connection_s_id_is_one_that_airflow_takes(key, name):
    given = yaml.safe_load(DECODED)
    given.setdefault(key, {})["connection"] = name
    with pytest.raises(StreamFileError, match=rf"{key}.connection: got"):
        parse_stream(yaml.safe_dump(given), "orders.yaml")


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
        in_s3,
        {"conn_type": "aws", "extra": {"endpoint_url": f"me:{SECRET}@store"}},
    ),
    "a key behind a store": (
        in_s3,
        {"conn_type": "aws", "extra": {"endpoint_url": f"https://store/{SECRET}"}},
    ),
    "a key for a region": (
        in_s3,
        {"conn_type": "aws", "extra": {"region_name": f"{SECRET}/+"}},
    ),
    "a login before Azure's store": (
        in_azure,
        {"conn_type": "wasb", "login": "data", "host": f"https://me:{SECRET}@store"},
    ),
    "a SAS in Azure's host": (
        in_azure,
        {
            "conn_type": "wasb",
            "login": "data",
            "host": f"https://data.blob.core.windows.net/?sig={SECRET}",
        },
    ),
    "Azure's key for an account": (
        in_azure,
        {"conn_type": "wasb", "login": f"me:{SECRET}@data", "password": "a2V5"},
    ),
    "a text that is no key for Azure's": (
        in_azure,
        {"conn_type": "wasb", "login": "data", "password": SECRET + "!"},
    ),
    "a connection string for Azure": (
        in_azure,
        {"conn_type": "wasb", "extra": {"connection_string": f"AccountKey={SECRET}"}},
    ),
    "Google's key for its path": (
        in_google,
        {
            "conn_type": "google_cloud_platform",
            "extra": {"key_path": f'{{"private_key": "{SECRET}"}}'},
        },
    ),
    "Google's key that is cut off": (
        in_google,
        {
            "conn_type": "google_cloud_platform",
            "extra": {"keyfile_dict": f'{{"private_key": "{SECRET}'},
        },
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
