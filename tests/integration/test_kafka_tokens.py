"""Tokens for OAUTHBEARER from a real endpoint: kept, renewed, refused, and never a secret told."""

import json
import logging
import socket
import threading
from base64 import b64decode
from contextlib import contextmanager, suppress

import pytest

from tests.worlds.http_stub import json_answer, text_answer
from tests.worlds.secured_broker import tokens_of
from tests.worlds.tls import Authority
from tests.worlds.token_issuer import SECRET, token_issuer
from tideline.kafka.kafka_settings import KafkaSettings
from tideline.kafka.tokens import TokenEndpointAway, TokenRefused, Tokens

NAN = float("nan")
ENDPOINT = "sasl_oauthbearer_token_endpoint_url"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


@pytest.fixture
def issuer(authority):
    with token_issuer(authority.issue("endpoint", "127.0.0.1")) as found:
        yield found


@pytest.fixture
def settings(authority, issuer):
    def made(**others):
        extra = tokens_of(issuer, authority, "h:1", **others)
        return KafkaSettings("k", {name: v for name, v in extra.items() if v is not None})

    return made


class Clock:
    """Of the client."""

    now = 1000.0

    def __call__(self):
        return self.now


def test_a_token_serves_all_connections_until_it_is_old(issuer, settings):
    """A new one comes in time, before the old one has expired."""
    clock = Clock()
    tokens = Tokens(settings(), clock)
    first = tokens.token()
    clock.now += 0.7 * issuer.lifetime_seconds
    assert tokens.token() == first
    assert issuer.asked == 1
    clock.now += 0.2 * issuer.lifetime_seconds
    tokens.token()
    assert issuer.asked == 2


@pytest.mark.parametrize("told", [{}, *({"expires_in": v} for v in ("60", None, "x", -1, NAN))])
def test_a_token_without_a_lifetime_is_not_kept_for_long(issuer, settings, told):
    """Some endpoints say it as text."""
    issuer.stub.answer = json_answer({"access_token": "a.b.c", **told})
    clock = Clock()
    tokens = Tokens(settings(), clock)
    assert {tokens.token(), tokens.token()} == {"a.b.c"}
    clock.now += 60
    tokens.token()
    assert issuer.asked == 2


@pytest.mark.parametrize(
    ("encode", "given"), [(None, "a&b+c:ü"), ("true", "a%26b%2Bc%3A%C3%BC"), ("false", "a&b+c:ü")]
)
def test_the_client_s_secret_is_encoded_as_the_java_client_does(issuer, settings, encode, given):
    issuer.stub.answer = json_answer({"access_token": "a.b.c"})
    Tokens(
        settings(sasl_oauthbearer_client_secret="a&b+c:ü", sasl_oauthbearer_header_urlencode=encode)
    ).token()
    ((_, headers),) = issuer.stub.asked
    login = b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert login == f"tideline:{given}"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (json_answer({"error": "invalid_client"}, 401), "HTTP 401: invalid_client"),
        (json_answer({"error": "invalid_scope", "error_description": "no\nsuch"}, 400), "no such"),
        (text_answer("", 302, Location="https://evil.example/"), "HTTP 302"),
        (text_answer("<html>", 404), "HTTP 404"),
        (text_answer("<html>"), "no usable access_token"),
        (json_answer([]), "no usable access_token"),
        (json_answer({"access_token": ""}), "no usable access_token"),
        (json_answer({"access_token": "a\x01b"}), "no usable access_token"),
    ],
)
def test_what_the_endpoint_says_is_final(issuer, settings, answer, text):
    """It is asked once; a redirect is not followed, it would carry the secret away."""
    issuer.stub.answer = answer
    with pytest.raises(TokenRefused, match=text) as refused:
        Tokens(settings()).token()
    assert refused.value.refusal.cause == "authentication"
    assert issuer.url in str(refused.value)
    assert issuer.asked == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_an_endpoint_that_is_busy_may_answer_later(issuer, settings, status):
    issuer.stub.answer = text_answer("", status)
    with pytest.raises(TokenEndpointAway, match=str(status)):
        Tokens(settings()).token()


def test_an_endpoint_that_does_not_answer_is_away(settings, monkeypatch):
    """Nobody listens; or somebody does, and says nothing."""
    with pytest.raises(TokenEndpointAway, match="refused"):
        Tokens(settings(**{ENDPOINT: "http://127.0.0.1:9/token"})).token()


def test_an_endpoint_that_is_silent_is_away(issuer, settings, monkeypatch):
    monkeypatch.setattr("tideline.kafka.tokens.TOKEN_SECONDS", 0.5)
    issuer.stub.answer = lambda request: request.connection.recv(1)
    with pytest.raises(TokenEndpointAway, match=r"takes more than 0\.5 s"):
        Tokens(settings()).token()


def test_an_answer_without_an_end_is_not_read_to_it(issuer, settings):
    def endless(request):
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b"x" * 65_536)

    issuer.stub.answer = endless
    with pytest.raises(TokenEndpointAway, match="no end"):
        Tokens(settings()).token()


def test_the_endpoint_s_certificate_is_verified(issuer, settings, authority, tmp_path):
    """By the connection's own authority, or else by the system's."""
    stranger = Authority(tmp_path, "stranger")
    for ca in (str(stranger.certificate), None):
        with pytest.raises(TokenRefused) as refused:
            Tokens(settings(https_ca_location=ca)).token()
        assert refused.value.refusal.cause == "certificate"
    other = issuer.url.replace("127.0.0.1", "localhost")
    with pytest.raises(TokenRefused, match="localhost"):
        Tokens(settings(**{ENDPOINT: other})).token()


def test_no_proxy_of_the_environment_gets_the_secret(issuer, settings, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert Tokens(settings()).token()


def test_no_message_tells_the_secret(issuer, settings):
    """Even where the endpoint repeats it."""
    issuer.stub.answer = json_answer({"error": SECRET}, 401)
    checked = settings()
    with pytest.raises(TokenRefused) as refused:
        Tokens(checked).token()
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(checked)


def test_no_log_tells_the_secret_of_an_address(issuer, settings, caplog):
    """Not even where the client may say everything that it does."""
    for name in (None, "httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=name)
    Tokens(settings(**{ENDPOINT: f"{issuer.url}?key={SECRET}"})).token()
    ((path, headers),) = issuer.stub.asked
    assert SECRET in path
    assert "httpcore" in {record.name.partition(".")[0] for record in caplog.records}
    assert SECRET not in caplog.text
    assert headers["Authorization"] not in caplog.text


def test_a_new_secret_in_the_connection_is_used(issuer, settings):
    issuer.secret = "renewed"
    with pytest.raises(TokenRefused):
        Tokens(settings()).token()
    assert Tokens(settings(sasl_oauthbearer_client_secret="renewed")).token()


def test_the_scope_is_asked_for(issuer, settings):
    bodies = []

    def answer(request):
        bodies.append(request.rfile.read())
        json_answer({"access_token": json.dumps(1)})(request)

    issuer.stub.answer = answer
    Tokens(settings(sasl_oauthbearer_scope="kafka read")).token()
    assert bodies == [b"grant_type=client_credentials&scope=kafka+read"]


@pytest.mark.parametrize(
    "answer", [b"a", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["a header", "it goes on"]
)
def test_an_endpoint_that_never_ends_its_answer_is_away(monkeypatch, answer):
    """Each byte is within the limit of one read."""
    monkeypatch.setattr("tideline.kafka.tokens.TOKEN_SECONDS", 0.5)
    begins = b"HTTP/1.1 200 OK\r\nX: " if answer == b"a" else b""
    with dripping(begins, answer) as port:
        found = {"sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{port}/token"}
        found |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        found |= {"bootstrap.servers": "127.0.0.1:1"}
        found |= {f"sasl.oauthbearer.client.{name}": "known" for name in ("id", "secret")}
        with pytest.raises(TokenEndpointAway):
            Tokens(KafkaSettings("k", found)).token()


@contextmanager
def dripping(begins, drop):
    """A server that answers one request without an end; its port."""
    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(begins)
                while not stopped.wait(0.05):
                    connection.sendall(drop)

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield listener.getsockname()[1]
        stopped.set()
        server.join()
