"""Whole runs on a secured broker: one connection for both clients, rights, and renewed secrets."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from devstack.command_line import finished, tideline
from devstack.harness import StreamHarness
from devstack.process import wait_until
from tests.worlds.drivers import jvms
from tests.worlds.secured_broker import connect
from tests.worlds.secured_reads import RECORDS, SERVED, by_spark
from tests.worlds.spark_ways import by_spark_submit
from tests.worlds.streams import is_clean, table_rows
from tests.worlds.token_issuer import SECRET
from tideline.errors import AccessRefused, ResetDetected
from tideline.launch.local_driver import LocalDriver

REFUSED = "AccessRefused"


@pytest.fixture
def harness(secured, tmp_path, request):
    """With ten records in `orders`; its connection is nobody's yet."""
    found = StreamHarness(secured.broker, tmp_path, f"r{abs(hash(request.node.name))}")
    found.create(partitions=1)
    found.send(RECORDS)
    return found


def test_one_connection_with_tokens_lands(secured, harness, spark, caplog):
    """Both clients get tokens by it."""
    connect(harness, secured.tokens())
    stream = harness.stream()
    asked = secured.issuer.asked
    harness.run(stream, "one", spark)
    assert len(table_rows(stream)) == RECORDS
    assert secured.issuer.asked >= asked + 2
    assert is_clean(harness, stream)
    assert "in clear" not in caplog.text


def test_a_login_in_clear_is_warned_of_once(secured, harness, spark, caplog):
    """By name; the run goes on."""
    connect(harness, secured.settings("SASL_PLAINTEXT"))
    stream = harness.stream()
    harness.run(stream, "one", spark)
    assert len(table_rows(stream)) == RECORDS
    said = [r.getMessage() for r in caplog.records if "in clear" in r.getMessage()]
    assert len(said) == 1
    assert f"connection {harness.connection}: " in said[0]
    assert "SASL_PLAINTEXT with PLAIN" in said[0]


def test_a_right_that_is_missing_for_reading_alone(secured, harness, spark):
    """Spark says it. The plan stays, and the next run lands it once the right is there."""
    connect(harness, secured.settings("SASL_SSL", sasl_username="looker"))
    stream = harness.stream()
    with pytest.raises(AccessRefused, match=r"authorization: .*TopicAuthorizationException") as no:
        harness.run(stream, "one", spark)
    assert no.value.exit_code == 2
    grant(secured, "looker", ACLOperation.READ, harness.topic())
    harness.run(stream, "two", spark)
    assert len(table_rows(stream)) == RECORDS
    assert is_clean(harness, stream)


@pytest.mark.slow
def test_a_right_that_is_missing_to_see_the_topic(secured, harness, spark):
    """It is a finding that a person decides, and none of loss or of another topic."""
    connect(harness, secured.settings("SASL_SSL", sasl_username="admin"))
    stream = harness.stream()
    harness.run(stream, "one", spark)
    connect(harness, secured.settings("SASL_SSL", sasl_username="guest"))
    with pytest.raises(ResetDetected) as halted:
        harness.run(stream, "two", spark)
    (incident,) = halted.value.incidents
    assert incident.finding.kind == "unknown"
    assert "TopicAuthorizationFailed" in str(incident)
    connect(harness, secured.settings("SASL_SSL", sasl_username="admin"))
    harness.send(5)
    harness.run(stream, "three", spark)
    assert len(table_rows(stream)) == RECORDS + 5


@pytest.mark.slow
def test_a_right_that_is_missing_for_a_group(secured, harness, spark, caplog):
    """To start from it is refused; to tell it is a courtesy, and a warning."""
    connect(harness, secured.settings("SASL_SSL", sasl_username="reader"))
    with pytest.raises(AccessRefused, match=r"authorization: .*Group"):
        harness.run(harness.stream(start={"group": "some"}), "one", spark)
    topics = {"topics": [harness.topic()], "commit_group": "some"}
    stream = harness.stream(name="told", kafka=topics)
    harness.run(stream, "two", spark)
    assert len(table_rows(stream)) == RECORDS
    assert "group some was not told" in caplog.text
    assert "GroupAuthorizationFailed" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "refused"), [("token", False), ("secret", True), ("password", True), ("ca", True)]
)
def test_a_command_ends_with_the_status_of_the_refusal(secured, harness, name, refused):
    """Exit status 2, the cause, and no secret on standard output or error."""
    extra = {
        "token": secured.tokens(),
        "secret": secured.tokens(sasl_oauthbearer_client_secret="wrong-and-secret"),
        "password": secured.settings("SASL_SSL", sasl_password="wrong-and-secret"),
        "ca": secured.settings("SSL", ssl_ca_location=str(secured.stranger.certificate)),
    }[name]
    connect(harness, extra)
    file = harness.stream_file(spark={"keep_warm_seconds": 0})
    status, answer, errors = finished(tideline("run", file, "--json"))
    assert status == (2 if refused else 0), errors
    assert not refused or answer["error"] == REFUSED
    for secret in ("wrong-and-secret", SECRET):
        assert secret not in errors
        assert secret not in json.dumps(answer)


@pytest.mark.slow
def test_a_driver_of_spark_submit_gets_tokens(secured, harness, request, tmp_path):
    """The Java client has its endpoint allowed there, too."""
    port = SimpleNamespace(submit=lambda job_path: by_spark_submit(job_path, request))
    assert by_spark(harness, port, secured.tokens(), tmp_path)[0] == SERVED
    secured.issuer.is_forged = True
    try:
        forged = secured.tokens(sasl_oauthbearer_scope="forged")  # another login
        assert by_spark(harness, port, forged, tmp_path)[0] == REFUSED
    finally:
        secured.issuer.is_forged = False


@pytest.mark.slow
def test_a_renewed_certificate_is_used_by_a_driver_that_is_warm(
    secured, harness, sockets, tmp_path
):
    """Spark is asked alone: kafka-python would be refused before it. Both ways, in one JVM."""
    driver = LocalDriver("local[2]", 300)
    own = secured.authority.issue("client")
    extra = secured.mutual(own)
    trust = tmp_path / "ca.pem"
    trust.write_bytes(secured.authority.certificate.read_bytes())
    extra["ssl.ca.location"] = str(trust)
    assert by_spark(harness, driver, extra, tmp_path)[0] == SERVED
    (jvm,) = jvms(sockets)
    secured.authority.issue("client", is_expired=True)
    assert by_spark(harness, driver, extra, tmp_path)[0] == REFUSED
    secured.authority.issue("client")
    assert by_spark(harness, driver, extra, tmp_path)[0] == SERVED
    trust.write_bytes(secured.stranger.certificate.read_bytes())
    assert by_spark(harness, driver, extra, tmp_path)[0] == REFUSED
    trust.write_bytes(secured.authority.certificate.read_bytes())
    assert by_spark(harness, driver, extra, tmp_path)[0] == SERVED
    assert jvms(sockets) == [jvm]


@pytest.mark.slow
def test_a_renewed_secret_and_token_are_used_by_a_driver_that_is_warm(
    secured, harness, sockets, tmp_path, monkeypatch
):
    driver, issuer = LocalDriver("local[2]", 300), secured.issuer
    monkeypatch.setattr(issuer, "lifetime_seconds", 5)
    assert by_spark(harness, driver, secured.tokens(), tmp_path)[0] == SERVED
    (jvm,) = jvms(sockets)
    until = time.monotonic() + issuer.lifetime_seconds
    wait_until(lambda: time.monotonic() > until, "the first token does not expire", 30)
    assert by_spark(harness, driver, secured.tokens(), tmp_path)[0] == SERVED
    monkeypatch.setattr(issuer, "secret", "renewed")
    renewed = secured.tokens(sasl_oauthbearer_client_secret="renewed")
    assert by_spark(harness, driver, renewed, tmp_path)[0] == SERVED
    wrong = secured.tokens(sasl_oauthbearer_client_secret="wrong")
    assert by_spark(harness, driver, wrong, tmp_path)[0] == REFUSED
    assert jvms(sockets) == [jvm]


@pytest.mark.slow
def test_a_whole_run_uses_what_was_renewed_since_the_last(secured, harness, sockets):
    """Files are replaced and the connection is changed between runs; the driver stays."""
    stream = harness.stream(spark={"keep_warm_seconds": 300})
    own = secured.authority.issue("client")
    connect(harness, secured.mutual(own))
    harness.run(stream, "one", None)
    (jvm,) = jvms(sockets)
    secured.authority.issue("client", is_expired=True)
    harness.send(5)
    with pytest.raises(AccessRefused, match=r"certificate: .*alert"):
        harness.run(stream, "two", None)
    secured.authority.issue("client")
    harness.run(stream, "three", None)
    assert len(table_rows(stream)) == RECORDS + 5
    connect(harness, secured.tokens())
    harness.send(5)
    harness.run(stream, "four", None)
    assert len(table_rows(stream)) == RECORDS + 10
    assert jvms(sockets) == [jvm]


def grant(secured, user, operation, topic):
    """Allow a user an operation on a topic."""
    admin = KafkaAdminClient(bootstrap_servers=secured.broker.bootstrap_servers)
    resource = ResourcePattern(ResourceType.TOPIC, topic)
    admin.create_acls([ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, resource)])
    admin.close()
