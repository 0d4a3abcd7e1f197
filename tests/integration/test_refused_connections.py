"""Brokers that refuse a connection: the cause by name, at once, and never the secret."""

import itertools
import logging
import time

import pytest

from tests.worlds.secured_broker import MECHANISMS, PASSWORD, PROTOCOLS, secured_broker
from tests.worlds.token_issuer import SECRET
from tideline.errors import AccessRefused, ServiceAway
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import KafkaSettings
from tideline.kafka.listener import probe_listener

AT_ONCE_SECONDS = 5
WRONG = "wrong-and-secret"
OTHERS = list(itertools.permutations(PROTOCOLS, 2))


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found


def refused(extra, ask=lambda cluster: cluster.observe([], {})):
    """The error, after making sure that it came at once and tells no secret."""
    began = time.monotonic()
    with KafkaCluster(KafkaSettings("k", extra)) as cluster, pytest.raises(AccessRefused) as caught:
        ask(cluster)
    took = time.monotonic() - began
    error = caught.value
    print(f"{took:.2f} s: {error}")
    assert took < AT_ONCE_SECONDS
    assert not error.retriable
    assert not [secret for secret in (PASSWORD, SECRET, WRONG) if secret in str(error)]
    return error


def away(extra, ask=lambda cluster: cluster.observe([], {})):
    """What is said where it may pass."""
    with KafkaCluster(KafkaSettings("k", extra)) as cluster, pytest.raises(ServiceAway) as caught:
        ask(cluster)
    return str(caught.value)


def ask_a_leader(cluster):
    """A broker at the address that it advertises, not at that of `bootstrap.servers`."""
    return cluster.committed_offsets("some", [("orders", 0)])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_right_connection_is_served(secured, protocol):
    """Otherwise the refusals below would show nothing."""
    with KafkaCluster(KafkaSettings("k", secured.settings(protocol))) as cluster:
        assert len(cluster.observe([], {}).cluster_id) == 22


@pytest.mark.parametrize(("protocol", "listener"), OTHERS)
def test_a_listener_of_another_protocol_is_named(secured, protocol, listener):
    """TLS to a plaintext port and plaintext to a TLS port, with and without a login."""
    error = refused(secured.settings(protocol, listener))
    assert error.cause == "protocol"
    assert "security.protocol" in str(error)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"sasl_password": WRONG}, "Invalid username or password"),
        ({"sasl_username": "nobody"}, "Invalid username or password"),
        ({"sasl_mechanism": "SCRAM-SHA-512"}, "UnsupportedSaslMechanismError"),
    ],
)
def test_a_wrong_login_is_named(secured, protocol, changed, text):
    """User, password, or a mechanism that the brokers do not offer."""
    error = refused(secured.settings(protocol, **changed))
    assert error.cause == "authentication"
    assert text in str(error)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_is_served_and_refused(secured, mechanism):
    """One listener offers all four."""
    if mechanism == "OAUTHBEARER":
        right = secured.tokens()
        wrong = right | {"sasl.oauthbearer.client.secret": WRONG}
    else:
        right = secured.settings("SASL_SSL", "LOGINS", sasl_mechanism=mechanism)
        wrong = right | {"sasl.password": WRONG}
    with KafkaCluster(KafkaSettings("k", right)) as cluster:
        assert cluster.observe([], {}).cluster_id
    assert refused(wrong).cause == "authentication"


@pytest.mark.parametrize(("name", "value"), [("is_forged", True), ("lifetime_seconds", -60)])
def test_a_token_that_the_brokers_do_not_take_is_named(secured, monkeypatch, name, value):
    """Signed by somebody else, or expired."""
    monkeypatch.setattr(secured.issuer, name, value)
    error = refused(secured.tokens())
    assert error.cause == "authentication"
    assert "invalid_token" in str(error)


def test_a_token_endpoint_that_is_away_is_not_a_refusal(secured):
    """It is tried again, and named: the brokers are not away."""
    extra = secured.tokens(default_api_timeout_ms="500")
    extra["sasl.oauthbearer.token.endpoint.url"] = "https://127.0.0.1:9/token"
    assert "token endpoint https://127.0.0.1:9/token: " in away(extra)


def test_brokers_that_advertise_another_name_need_it_in_their_certificate(secured):
    """The name of `bootstrap.servers` is not enough."""
    with KafkaCluster(KafkaSettings("k", secured.settings("SSL", "RENAMED"))) as cluster:
        assert ask_a_leader(cluster) == {("orders", 0): None}
    error = refused(secured.settings("SSL", "MISNAMED"), ask_a_leader)
    assert error.cause == "certificate"
    assert "not valid for 'localhost'" in str(error)


def test_an_advertised_name_that_does_not_exist_is_told(secured):
    """It may be a name server's fault, so it may pass."""
    extra = secured.settings("SSL", "NOWHERE", default_api_timeout_ms="500")
    assert "kafka.invalid" in away(extra, ask_a_leader)


def test_a_certificate_that_has_expired_is_named(secured):
    """The brokers', and the client's own."""
    assert "certificate has expired" in str(refused(secured.settings("SSL", "EXPIRED")))
    expired = secured.authority.issue("old", is_expired=True)
    assert refused(secured.mutual(expired)).cause == "certificate"


def test_certificates_are_named(secured, tmp_path):
    """Another authority, another host, none of ours where one is asked for, or no certificate."""
    stranger = str(secured.stranger.certificate)
    wrong_authority = refused(secured.settings("SASL_SSL", ssl_ca_location=stranger))
    assert "unable to get local issuer certificate" in str(wrong_authority)
    assert "not valid for '127.0.0.1'" in str(refused(secured.settings("SSL", "ELSEWHERE")))
    nobody = refused(secured.settings("SSL", "MUTUAL"))
    assert "alert bad certificate" in str(nobody)
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate\n")
    unreadable = refused(secured.settings("SSL", ssl_ca_location=str(empty)))
    assert {e.cause for e in (wrong_authority, nobody, unreadable)} == {"certificate"}


def test_a_client_certificate_of_another_authority_is_refused(secured):
    """The broker says so by a TLS alert, after the handshake."""
    stranger = secured.mutual(secured.stranger.issue("client"))
    assert refused(stranger).cause == "certificate"
    own = secured.mutual(secured.authority.issue("client"))
    with KafkaCluster(KafkaSettings("k", own)) as cluster:
        assert cluster.observe([], {}).cluster_id


def test_a_missing_right_is_named(secured):
    """The group's offsets may not be read: nothing about time, nothing about loss."""
    guest = secured.settings("SASL_SSL", sasl_username="guest")
    error = refused(guest, ask_a_leader)
    assert error.cause == "authorization"


def test_one_of_two_servers_that_refuses_ends_the_connect(secured):
    """A wrong address in `bootstrap.servers` is not passed over in silence."""
    right, wrong = secured.settings("SASL_SSL"), secured.settings("SASL_SSL", "SSL")
    both = f"{wrong['bootstrap.servers']},{wrong['bootstrap.servers']}"
    assert refused({**right, "bootstrap.servers": both}).cause == "protocol"


def test_ports_say_what_they_speak(secured):
    """Each by a proper answer; a silent port by nothing."""
    for protocol in PROTOCOLS:
        assert str(probe_listener("127.0.0.1", secured.ports[protocol])) == protocol
    assert str(probe_listener("127.0.0.1", secured.ports["MUTUAL"])) == "TLS"


def test_a_broker_that_is_gone_is_not_a_refusal(secured):
    """A closed port proves nothing: it is tried again, and stays retriable."""
    extra = secured.settings("SASL_SSL", default_api_timeout_ms="1000")
    extra["bootstrap.servers"] = "127.0.0.1:9"
    assert away(extra)
