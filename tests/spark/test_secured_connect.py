"""Secured brokers through Spark Connect: records land, and its event log keeps no secret."""

import re

import pytest
from pyspark.sql.connect.session import SparkSession

from devstack.connect_server import ConnectServer
from devstack.harness import StreamHarness
from devstack.spark_apps import ConnectSpark
from tests.worlds.secured_broker import PASSWORD, connect
from tests.worlds.secured_reads import RECORDS, by_spark
from tests.worlds.streams import table_rows
from tests.worlds.token_issuer import SECRET

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Folder of the server's event log."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def logging_spark(events, tmp_path_factory):
    """A client of a server that writes an event log, as a site's history server wants it."""
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    server = ConnectServer(tmp_path_factory.mktemp("connect"), "local[2]", logged).start()
    app = ConnectSpark(server)
    yield app
    app.stop()
    server.stop()


@pytest.fixture(params=["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def harness(request, secured, tmp_path):
    """A stream with a login of that mechanism."""
    mechanism = request.param
    made = StreamHarness(secured.broker, tmp_path, f"connect-{mechanism.lower()}")
    if mechanism == "OAUTHBEARER":
        settings = secured.tokens()
    else:
        settings = secured.settings("SASL_SSL", "LOGINS", sasl_mechanism=mechanism)
    connect(made, settings)
    made.create(partitions=1)
    return made


def test_records_land_and_the_event_log_has_no_secret(harness, logging_spark, events):
    """Neither password, client secret nor token."""
    harness.send(10)
    stream = harness.stream()
    run = harness.run(stream, "first", logging_spark)
    assert run.status == "done"
    assert len(table_rows(stream)) == 10
    text = logged_text(events)
    assert "SparkListenerConnectOperationStarted" in text
    assert not [secret for secret in (PASSWORD, SECRET) if secret in text]
    assert not re.findall(r"eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+", text)  # a token (RFC 7519)


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_wrong_login_is_refused_and_not_logged(
    secured, events, logging_spark, tmp_path, mechanism
):
    """By brokers or token endpoint, through the server; its log has not the wrong one either."""
    wrong = "wrong-and-still-secret"
    if mechanism == "PLAIN":
        settings = secured.settings("SASL_SSL", "LOGINS", sasl_password=wrong)
    else:
        settings = secured.tokens(sasl_oauthbearer_client_secret=wrong)
    harness = StreamHarness(secured.broker, tmp_path, f"wrong-{mechanism.lower()}")
    harness.create(partitions=1)
    harness.send(RECORDS)
    error, _ = by_spark(harness, logging_spark, settings, tmp_path)
    assert error == "AccessRefused"
    assert wrong not in logged_text(events)


def test_a_secret_in_a_statement_would_be_found(logging_spark, events):
    """What is searched is what the server writes."""
    planted = "planted-and-secret"
    token = logging_spark.server.token
    address = f"{logging_spark.server.url}/;token={token}"
    session = SparkSession.builder.remote(address).create()
    session.sql(f"SELECT '{planted}'").collect()
    session.stop()
    assert planted in logged_text(events)
    assert token not in logged_text(events)


def logged_text(events):
    return "".join(file.read_text() for file in events.rglob("*") if file.is_file())
