"""Secrets that a task reads are masked in its log, and kafka-python is kept from logging them."""

import base64
import io
import json
import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tideline.connections import find_connection, has_backend
from tideline.kafka.kafka_settings import kafka_settings
from tideline.registry.registry_connection import registry_settings
from tideline.secrecy import clamp_kafka_logs, redacted_line, without
from tideline.store.store_settings import store_settings
from tideline.texts import one_line

ROOT = Path(__file__).parents[2]
KEY = """\
-----BEGIN PRIVATE KEY-----
MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwcanaryLINEONE
BKgwggSkAgEAAoIBAQC7VJTUt9Us8cKjcanaryLINETWO
-----END PRIVATE KEY-----
"""


def masked(text):
    """What Airflow makes of a line of a task's log."""
    from airflow.sdk.log import mask_logs

    return str(mask_logs(None, "info", {"event": text}))


@pytest.fixture(autouse=True)
def masker():
    """Airflow's own, as a task has it; and as it was, afterwards."""
    import airflow.sdk.log
    from airflow.sdk._shared.secrets_masker import _secrets_masker

    found = _secrets_masker()
    before = set(found.patterns), found.replacer
    yield airflow.sdk.log
    found.patterns, found.replacer = before


def test_every_secret_of_a_kafka_connection_is_masked(monkeypatch, tmp_path):
    """Connections in the environment pass Airflow by, and so does what files hold."""
    (tmp_path / "key.pem").write_text(KEY)
    extra = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": 'canary"quoted',
        "ssl.certificate.location": str(tmp_path / "key.pem"),
        "ssl.key.location": str(tmp_path / "key.pem"),
        "ssl.key.password": "canary-of-the-key",
    }
    value = json.dumps({"conn_type": "kafka", "password": "canary-itself", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_MASKED", value)
    options = kafka_settings("masked").for_spark()
    for secret in ('canary"quoted', "canary-of-the-key", "canary-itself", *KEY.splitlines()[1:3]):
        assert "canary" not in masked(f"it is {secret}, they say")
    assert "canary" not in masked(f"options: {options['kafka.sasl.jaas.config']}")
    assert "a:1" in masked("asking a:1")


@pytest.mark.parametrize(
    ("look_up", "connection"),
    [
        (
            partial(store_settings, uri="s3a://lake/orders"),
            {
                "conn_type": "aws",
                "login": "ACCESS",
                "password": "canary-of-aws",
                "extra": {"aws_session_token": "canary-session"},
            },
        ),
        (
            partial(store_settings, uri="abfss://lake@data.dfs.core.windows.net/orders"),
            {
                "conn_type": "wasb",
                "login": "data",
                "extra": {"account_key": base64.b64encode(b"canary-of-azure").decode()},
            },
        ),
        (
            partial(store_settings, uri="abfss://lake@data.dfs.core.windows.net/orders"),
            {"conn_type": "wasb", "login": "data", "extra": {"sas_token": "sig=canary-of-sas"}},
        ),
        (
            partial(store_settings, uri="gs://lake/orders"),
            {
                "conn_type": "google_cloud_platform",
                "extra": {
                    "keyfile_dict": json.dumps(
                        {"client_email": "e", "private_key": "canary-g", "private_key_id": "i"}
                    )
                },
            },
        ),
        (
            registry_settings,
            {"conn_type": "http", "host": "r", "login": "me", "password": "canary-of-http"},
        ),
        (registry_settings, {"conn_type": "http", "host": "r", "extra": {"token": "canary-token"}}),
        (
            find_connection,
            {"conn_type": "spark", "host": "yarn", "extra": {"keytab": "canaryktab"}},
        ),
        (
            find_connection,
            {"conn_type": "spark_connect", "host": "s", "password": "canary"},
        ),
        (find_connection, {"conn_type": "postgres", "host": "s", "password": "canaryp"}),
    ],
)
def test_every_secret_of_the_other_connections_is_masked(monkeypatch, look_up, connection):
    """Whatever its type is."""
    monkeypatch.setenv("AIRFLOW_CONN_MASKED", json.dumps(connection))
    look_up("masked")
    for secret in filter(None, (connection.get("password"), *connection.get("extra", {}).values())):
        said = masked(f"it is {secret}")
        assert "canary" not in said
        assert secret not in said


@pytest.mark.parametrize("name", ["", "kafka", "kafka.admin.client", "kafka.conn"])
def test_kafka_python_logs_nothing_below_info(name):
    """Whichever level was set to DEBUG: all, kafka's, or one module's."""
    heard = io.StringIO()
    loggers = [logging.getLogger(n) for n in ("", "kafka", "kafka.admin.client", "kafka.conn")]
    before = [logger.level for logger in loggers]
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    try:
        for logger in loggers[1:]:
            logger.setLevel(logging.NOTSET)
        logging.getLogger(name).setLevel(logging.DEBUG)
        clamp_kafka_logs()
        for logger in loggers[1:]:
            logger.debug("sasl_plain_password: canary")
            logger.info("heard")
    finally:
        logging.getLogger().removeHandler(handler)
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
    assert "canary" not in heard.getvalue()
    assert "heard" in heard.getvalue()


@pytest.fixture
def home(monkeypatch, tmp_path):
    """An Airflow home of its own, in a process that has not loaded Airflow."""
    for name in list(os.environ):
        if name.startswith(("AIRFLOW__SECRETS", "AIRFLOW__WORKERS", "AIRFLOW_CONFIG")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    for name in ("airflow.configuration", "airflow.sdk.configuration"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("written", "variables", "expected"),
    [
        ("", {}, False),
        ("[secrets]\n# backend = a.B\nbackend =\n", {}, False),
        ("[secrets]\nbackend = a.B\n", {}, True),
        ("[secrets]\nbackend_cmd = echo a.B\n", {}, True),
        ("[workers]\nsecrets_backend = a.B\n", {}, True),
        ("no section\n", {}, True),
        ("", {"AIRFLOW__SECRETS__BACKEND": "a.B"}, True),
        ("", {"AIRFLOW__SECRETS__BACKEND_CMD": "echo a.B"}, True),
        ("", {"AIRFLOW__WORKERS__SECRETS_BACKEND": "a.B"}, True),
        ("", {"AIRFLOW__SECRETS__BACKEND_KWARGS": "{}"}, False),
        ("", {"AIRFLOW__SECRETS__BACKEND": ""}, False),
    ],
)
def test_a_secrets_backend_is_seen_wherever_airflow_may_be_told_of_one(
    home, monkeypatch, written, variables, expected
):
    """One that airflow.cfg names was passed over: the environment's connection was taken."""
    (home / "airflow.cfg").write_text(written)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_backend() is expected


@pytest.mark.slow
@pytest.mark.parametrize("loaded", [False, True], ids=["command line", "in Airflow"])
def test_a_backend_of_airflow_s_file_is_asked_first(tmp_path, loaded):
    """A real one of Airflow's, which reads a file."""
    (tmp_path / "connections.json").write_text('{"here": {"conn_type": "a", "host": "backend"}}')
    local = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    where = json.dumps({"connections_file_path": str(tmp_path / "connections.json")})
    config = f"[secrets]\nbackend = {local}\nbackend_kwargs = {where}\n"
    (tmp_path / "airflow.cfg").write_text(config)
    program = "from tideline.connections import find_connection as f; print(f('here').host)"
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW_CONN_HERE": '{"conn_type": "kafka", "host": "environment"}',
        "PYTHONPATH": str(ROOT / "plugins"),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import airflow.sdk\n{program}" if loaded else program],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "backend", done.stderr


def test_a_short_secret_spoils_no_message():
    """A password of one letter made `***ort s***eaks` of `port speaks`."""
    said = "port p1 speaks plainly, password=p1"
    assert without(said, ["p", "p1", "", None]) == "port p1 speaks plainly, password=***"


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it():
    assert without("no abcdefgh here", ["abcde", "abcdefgh"]) == "no *** here"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ('{"sasl.password": "x", "port": 1}', '{"sasl.password": ***, "port": 1}'),
        ("client_secret=x&scope=all", "client_secret=***&scope=all"),
        ("Token = 'x y', host=h", "Token = ***, host=h"),
        ("invalid password: try another one", "invalid password: try another one"),
    ],
)
def test_what_is_secret_by_its_key_is_left_out_however_short_it_is(said, left):
    assert without(said, []) == left


@pytest.mark.parametrize("blanks", [0, 300, 40_000, 60_000])
@pytest.mark.parametrize("before", range(49_960, 50_001, 4))
def test_a_login_at_the_cut_of_a_long_text_is_not_shown_in_part(before, blanks):
    """What goes before shrinks: a query to three signs, blanks to one."""
    query = "https://h/?" + "q" * (before - 11 - blanks) if before > blanks + 11 else "a"
    text = f"{query}{' ' * blanks} kafka://olga:hunter2-and-more@broker:9092 end"
    assert "hunter" not in one_line(text)
    assert "hunter" not in redacted_line(text, ["hunter2-and-more"])


@pytest.mark.parametrize("sign", ["\u200b", "\u2060", "\ufeff", "\xad", "\x1b"])
def test_a_sign_that_nobody_sees_is_replaced(sign):
    """Two names that look alike would be two."""
    assert one_line(f"ord{sign}ers") == "ord\N{REPLACEMENT CHARACTER}ers"
