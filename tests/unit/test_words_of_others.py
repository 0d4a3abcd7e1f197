"""Texts of others in our messages: no secret, no query of an address, no command to a terminal."""

import gzip
import json
import logging
import pickle
import re
import time
from base64 import b64encode
from pathlib import Path

import pytest

from tests.worlds.catalogs import UnityServer
from tideline import secrecy
from tideline.catalog.catalog_connection import catalog_of
from tideline.catalog.catalog_port import client_message
from tideline.catalog.glue import Glue
from tideline.connections import Connection
from tideline.errors import BadInput
from tideline.kafka.kafka_settings import KafkaSettings
from tideline.kafka.tokens import Tokens
from tideline.model.catalog import CatalogEntry, TableName
from tideline.model.wording import shown
from tideline.registry import confluent
from tideline.registry.registry_connection import RegistrySettings, read_settings
from tideline.rules.catalog_names import misnamed
from tideline.secrecy import redacted_line, without, without_login
from tideline.spark.failures import _said
from tideline.store.store_refusals import plain_text, store_refused
from tideline.texts import bare, one_line

SECRET = "hunter2canary"
HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\u202eb\u2066\r\nINFO  tideline: audit: clean\x00"
COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NAME = TableName.of("lake.raw.orders")
PACKAGE = Path(__file__).parents[2] / "plugins" / "tideline"


OAUTH = KafkaSettings(
    "k",
    {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "tideline",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": f"https://idp/token?key={SECRET}",
    },
)


WORDS = {
    "a catalog's client": lambda text: client_message(RuntimeError(text)),
    "a catalog's location": lambda text: misnamed(
        "n", "/t", CatalogEntry(text, "external", "delta")
    )[1],
    "a catalog's kind": lambda text: misnamed("n", "/t", CatalogEntry("/t", text, "delta"))[1],
    "a catalog's format": lambda text: misnamed("n", "/t", CatalogEntry("/t", "external", text))[1],
    "a store": lambda text: plain_text(RuntimeError(text)),
    "a store that refuses": lambda text: str(store_refused("s3a://lake/t", {}, "bucket", text)),
    "a token endpoint": lambda text: str(Tokens(OAUTH)._refused(text)),
    "a token endpoint that is away": lambda text: str(Tokens(OAUTH)._away(text)),
    "a registry": lambda text: str(
        confluent._by_status(RegistrySettings("r", "http://r"), "/x", 500, text.encode("utf-8"))
    ),
    "a registry's name for something": lambda text: str(
        confluent._misused(RegistrySettings("r", "http://r"), f"schema 1 ({text})")
    ),
    "Spark": lambda text: _said(RuntimeError(text)),
    "a broker": lambda text: OAUTH.without_secrets(text),
}


@pytest.mark.parametrize("whose", WORDS)
def test_no_text_of_others_commands_a_terminal(whose):
    """Or forges a line of a log, or is read in another direction."""
    said = WORDS[whose](HOSTILE)
    assert not COMMANDS.search(said), ascii(said)
    assert "title" in said


@pytest.mark.parametrize("whose", WORDS)
def test_no_text_of_others_is_long(whose):
    assert len(WORDS[whose]("x y" * 5_000_000)) < 3_000


@pytest.mark.parametrize("length", [len(SECRET), 4000])
def test_no_first_part_of_a_secret_is_shown_where_a_text_is_cut(length):
    """Most of the text may be taken out, so that what stands behind it comes to be shown."""
    secret = (SECRET * length)[:length]
    for behind in (1, 6, length - 1):
        fill = "a" * (secrecy._LOOKED_AT * 500 - len("token= ") - behind)
        assert SECRET[:5] not in redacted_line(f"token={fill} {secret} and more", [secret])
    assert redacted_line("why: " + "a" * 1_000_000, [secret]) == "why: " + "a" * 495


ADDRESSES = {
    "a SAS": f"https://acc.blob.core.windows.net/c/x?sv=2024&sig={SECRET}",
    "Amazon's": f"https://b.s3.amazonaws.com/x?X-Amz-Credential=A&X-Amz-Signature={SECRET}",
    "an API's key": f"https://r/subjects?api_key={SECRET}",
    "a query without names": f"https://r/?{SECRET}",
    "a code of a function": f"https://f.azurewebsites.net/api/f?code={SECRET}==",
    "a fragment": f"https://r/callback#access={SECRET}",
    "a user": f"https://{SECRET}@r/x",
    "a login": f"https://me:{SECRET}@r/x",
    "two logins": f"jdbc:postgresql://me:a@{SECRET}@r/x",
    "Azure's own": f"abfss://c@acc.dfs.core.windows.net/x?sig={SECRET}",
    "Azure's with a login": f"abfss://c:{SECRET}@acc.dfs.core.windows.net/x",
    "a password with a slash": f"https://me:a/{SECRET}@r/x",
    "a password with a hash": f"postgresql://me:a#{SECRET}@r/x",
    "a password with a question mark": f"https://me:a?{SECRET}@r/x",
    "a login without a scheme": f"//me:{SECRET}@r/x",
    "a long one": f"https://r/{'x' * 60}?sig={SECRET}",
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_query_login_or_fragment_of_an_address_is_shown(name):
    """Whatever is in it: nobody knows all names of keys."""
    address = ADDRESSES[name]
    for said in (*(words(f"GET {address} failed") for words in WORDS.values()), shown(address)):
        assert SECRET not in said, said
        assert SECRET[-6:] not in said
    assert SECRET not in without_login(address)


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_error_shows_one_whoever_words_it(name):
    """Also where it was handed on, pickled, or made of another library's text."""
    error = BadInput(f"Azure says {HOSTILE}: GET {ADDRESSES[name]}", uri="x")
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert SECRET not in f"{found} {found.message} {found!r}"
        assert not COMMANDS.search(found.message.replace("\r\n", " "))


@pytest.mark.parametrize(
    "address",
    [
        *("https://r:8081/subjects/x", "abfss://c@acc.dfs.core.windows.net/x", "s3a://lake/a/b"),
        *("/a/b", "http://r:8080/a@b", "https://[::1]:9/p@x", "kafka://a:9092,b:9092 to x@y"),
    ],
)
def test_an_address_that_holds_nothing_is_shown_as_it_is(address):
    assert bare(address) == address
    assert one_line(f"GET {address}: no") == f"GET {address}: no"


@pytest.mark.parametrize(
    "said",
    [
        f"401 no: Bearer {SECRET}",
        f"illegal header Authorization: Basic {SECRET}",
        f"{{'authorization': 'bearer {SECRET}'}}",
        f"host:glue.amazonaws.com\nx-amz-security-token:{SECRET}\nx-amz-date:2026",
        f"Credential=AKIA/2026, SignedHeaders=host, Signature={SECRET}",
        f"sig={SECRET}&se=2026",
        f"api-key={SECRET}",
        f"Set-Cookie: {SECRET}",
        f"Authorization: Token {SECRET}",
        f"Private-Token: {SECRET}",
    ],
)
def test_what_a_service_repeats_of_a_request_is_masked(said):
    assert SECRET not in without(said, [])
    assert SECRET not in client_message(RuntimeError(said))


def test_words_that_only_look_alike_stay():
    for text in (
        *("the design=one signal=2", "Kafka says assigned: 3", "bearer of news"),
        *("partition key: 7", "an unknown key: foo"),
    ):
        assert redacted_line(text) == text


def test_glue_s_own_keys_are_masked():
    """Boto3's own chain has others, which no error is known to repeat but in a header."""
    glue = Glue({"aws_secret_access_key": SECRET, "aws_session_token": None})
    assert client_message(RuntimeError(f"no {SECRET}"), glue) == "RuntimeError: no ***"


@pytest.fixture
def unity(monkeypatch):
    server = UnityServer()
    extra = {"token": SECRET}
    given = {"conn_type": "http", "host": "127.0.0.1", "port": server.port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG_OF_TESTS", json.dumps(given))
    server.catalog = catalog_of("catalog_of_tests", str(NAME))
    yield server
    server.stop()


def found_by(unity):
    with pytest.raises(Exception) as failed:
        unity.catalog.find(NAME)
    return client_message(failed.value, unity.catalog)


@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_unity_s_words_are_shown_without_the_token(unity, status):
    def echoes(request):
        request.send_response(status, f"no: {request.headers['Authorization']} \x9b31m")
        request.send_header("Content-Length", "0")
        request.end_headers()

    unity.answers = echoes
    said = found_by(unity)
    assert str(status) in said
    assert SECRET not in said
    assert not COMMANDS.search(said)


def test_unity_redirects_nobody(unity):
    """The token would go along."""
    other = UnityServer()
    other.schemas.add("lake.raw")

    def leads_away(request):
        request.send_response(302)
        request.send_header("Location", f"http://127.0.0.1:{other.port}/x?sig={SECRET}")
        request.send_header("Content-Length", "0")
        request.end_headers()

    unity.answers = leads_away
    try:
        said = found_by(unity)
        assert other.headers == []
    finally:
        other.stop()
    assert f"127.0.0.1:{other.port}/x, which is not followed" in said
    assert SECRET not in said


def test_an_answer_of_unity_s_is_bounded_and_never_unpacked(unity, monkeypatch):
    """A small one could fill the memory, and go on after everybody has left."""
    monkeypatch.setattr("tideline.catalog.unity.LARGEST_ANSWER_BYTES", 100_000)
    sent = []

    def answer(request):
        sent.append(request.headers["Accept-Encoding"])
        request.send_response(200)
        request.send_header("Content-Encoding", "gzip")
        request.end_headers()
        request.wfile.write(gzip.compress(bytes(50_000_000)))

    unity.answers = answer
    assert "JSON" in found_by(unity) or "Unicode" in found_by(unity)
    assert set(sent) == {"identity"}

    def endless(request):
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b" " * 65_536)

    unity.answers = endless
    began = time.monotonic()
    assert "more than 100,000 bytes" in found_by(unity)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("what", ["a header", "100 Continue"])
def test_an_answer_whose_beginning_drips_is_given_up(unity, monkeypatch, what):
    """Each byte begins the limit of a single read anew."""
    monkeypatch.setattr("tideline.catalog.unity.SECONDS", 0.3)
    first, drop = {
        "a header": (b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
        "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    }[what]

    def drips(request):
        request.wfile.write(first)
        for _ in range(100):
            request.wfile.write(drop)
            time.sleep(0.05)

    unity.answers = drips
    began = time.monotonic()
    assert "takes more than 0.3 s" in found_by(unity)
    assert time.monotonic() - began < 3


def test_an_answer_that_drips_is_given_up(unity, monkeypatch):
    monkeypatch.setattr("tideline.catalog.unity.SECONDS", 0.3)

    def drips(request):
        request.send_response(200)
        request.end_headers()
        for _ in range(100):
            request.wfile.write(b" ")
            time.sleep(0.05)

    unity.answers = drips
    assert "takes more than 0.3 s" in found_by(unity)


@pytest.mark.parametrize(
    ("host", "warned"),
    [
        ("http://registry", True),
        ("http://10.0.0.1:8081", True),
        ("https://registry", False),
        ("http://127.0.0.1:8081", False),
        ("http://localhost", False),
        ("http://[::1]:80", False),
    ],
)
def test_a_login_that_goes_in_clear_is_warned_of(host, warned, caplog):
    """Unity's connection is read alike."""
    with caplog.at_level(logging.WARNING):
        read_settings("r", Connection("http", host, None, {"token": SECRET}))
    assert ("in clear" in caplog.text) is warned
    assert SECRET not in caplog.text


def test_a_token_endpoint_that_repeats_the_login():
    """Raw, as it was sent, or encoded."""
    login = b64encode(f"tideline:{SECRET}".encode()).decode()
    refusal = Tokens(OAUTH)._refused(f"HTTP 401: {SECRET}, {login}").refusal
    assert SECRET not in refusal.text
    assert login not in refusal.text


def test_one_function_shows_texts_of_others():
    """A second one would take out less."""
    by_hand = re.compile(r"""join\([^\n]*\.split\(\)\)""")
    found = [
        f"{file.name}: {line.strip()}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for line in file.read_text().splitlines()
        if by_hand.search(line) and file.name != "texts.py"
    ]
    assert found == []


def test_one_module_makes_clients_of_http():
    """A second one would lack what the first has learned."""
    made = re.compile(
        r"httpx\.(Client|AsyncClient|get|post|request|stream)\(|\burlopen\(|HTTPS?Connection\("
    )
    found = {file.name for file in PACKAGE.rglob("*.py") if made.search(file.read_text())}
    assert found == {"bounded_http.py"}
