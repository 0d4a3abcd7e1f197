"""Ways to a schema registry that are right, wrong or broken: the cause by name, never a secret."""

import base64
import json
import logging
import threading
import time
import traceback

import pytest

from devstack.process import HOST, free_ports
from devstack.registry import Registry
from tests.worlds.http_stub import http_stub, json_answer, text_answer
from tests.worlds.registries import connected
from tests.worlds.tls import Authority
from tideline.errors import ConnectionMissing, RegistryAway, RegistryMisused, RegistryRefused
from tideline.model.request import RunRequest
from tideline.registry import confluent as registry_client
from tideline.registry.registry_port import SchemaUnreadable, SubjectVersion
from tideline.stream.stream import Stream
from tideline.wiring import open_run

SECRET = "right-and-secret"
BASIC = base64.b64encode(f"me:{SECRET}".encode()).decode()
SCHEMA = {"schema": '"string"'}
ORDERS = SubjectVersion("orders-value", 1)
AT_ONCE_SECONDS = 5


@pytest.fixture
def stub():
    """Plain HTTP."""
    with http_stub() as found:
        yield found


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """One that is trusted, one that is not."""
    folder = tmp_path_factory.mktemp("tls")
    return Authority(folder, "authority"), Authority(folder, "stranger")


@pytest.fixture
def secured(authorities):
    """HTTPS with a certificate for this host."""
    with http_stub(authorities[0].issue("registry", HOST)) as found:
        found.answer = both_answers
        yield found


def both_answers(request):
    """A schema without a type, and no subjects."""
    json_answer([] if "/versions" in request.path else SCHEMA)(request)


def asked(connection, answer_seconds=10):
    """The schema of id 1."""
    with connected(connection, answer_seconds) as client:
        assert SECRET not in repr(client._settings)
        return client.schema(1, ORDERS)


def unreadable(connection):
    """What is wrong with the schema of id 1."""
    with pytest.raises(SchemaUnreadable) as caught:
        asked(connection)
    return str(caught.value)


def refused(kind, connection, **more):
    """The error, which has to come at once and to tell no secret."""
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        asked(connection, **more)
    took = time.monotonic() - began
    error = caught.value
    print(f"{took:.2f} s: {type(error).__name__}: {error}")
    assert took < AT_ONCE_SECONDS
    assert type(error) is kind
    for secret in (SECRET, BASIC):
        assert secret not in "".join(traceback.format_exception(error))
    return error


def test_a_missing_type_is_avro(stub):
    """Confluent leaves it out; so it is in the answer of this server."""
    stub.answer = both_answers
    schema = asked(stub.connection())
    assert (schema.schema_type, schema.text, schema.known_as) == (
        "avro",
        '"string"',
        "orders-value:1",
    )


@pytest.mark.parametrize(
    ("more", "header"),
    [
        ({}, None),
        ({"login": "me", "password": SECRET}, f"Basic {BASIC}"),
        ({"extra": {"token": SECRET}}, f"Bearer {SECRET}"),
    ],
)
def test_login_and_token_are_sent(stub, more, header):
    """With every request, below the path."""
    stub.answer = both_answers
    path = {"path": "/apis/ccompat/v7/"}
    settings = stub.connection(**{**more, "extra": {**more.get("extra", {}), **path}})
    asked(settings)
    with connected(settings) as client:
        client.subjects_of(1, "orders-value")
    assert [p for p, _ in stub.asked] == [
        "/apis/ccompat/v7/schemas/ids/1",
        "/apis/ccompat/v7/schemas/ids/1/versions?deleted=true",
    ]
    assert {h.get("Authorization") for _, h in stub.asked} == {header}


def test_no_secret_is_logged(stub, caplog, monkeypatch):
    """Not even when the client says everything that it does."""
    for name in (None, "httpx", "httpcore"):  # Airflow, once it is imported, quiets the client
        caplog.set_level(logging.DEBUG, logger=name)
    # ours quiets it as well
    monkeypatch.setattr(logging.getLogger("httpx"), "setLevel", lambda level: None)
    stub.answer = both_answers
    asked(stub.connection(login="me", password=SECRET))
    asked(stub.connection(extra={"token": SECRET}))
    assert "/schemas/ids/1" in caplog.text
    assert SECRET not in caplog.text
    assert BASIC not in caplog.text


@pytest.mark.parametrize(
    ("status", "kind", "cause"),
    [
        (401, RegistryRefused, "authentication"),
        (403, RegistryRefused, "authorization"),
        (400, RegistryMisused, None),
        (408, RegistryAway, None),
        (429, RegistryAway, None),
        (500, RegistryAway, None),
        (503, RegistryAway, None),
    ],
)
def test_a_status_says_whether_it_may_pass(stub, status, kind, cause):
    """Busy, broken and restarting are tried again; a wrong login is not."""
    stub.answer = lambda request: json_answer(
        {"error_code": status * 100, "message": f"you sent {request.headers['Authorization']}"},
        status,
    )(request)
    for more in ({"login": "me", "password": SECRET}, {"extra": {"token": SECRET}}):
        error = refused(kind, stub.connection(**more))
        assert f"was answered {status}" in str(error)
        assert "***" in str(error)
        assert f"http://{HOST}:{stub.port}" in str(error)
        assert error.facts.get("cause") == cause


@pytest.mark.parametrize(
    "answer",
    [
        json_answer({"detail": "no such page", "status": 404}, 404),
        json_answer({"error_code": 404, "message": "HTTP 404 Not Found"}, 404),
        text_answer("<html>not found</html>", 404),
    ],
)
def test_a_wrong_path_is_not_an_unknown_id(stub, answer):
    """Otherwise a typing error would put every record into quarantine."""
    stub.answer = answer
    assert "was answered 404" in str(refused(RegistryMisused, stub.connection()))
    stub.answer = json_answer({"error_code": 40403, "message": "Schema 1 not found"}, 404)
    assert asked(stub.connection()) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (text_answer("<html>log in</html>"), "is no JSON"),
        (text_answer("[" * 100_000), "is no JSON"),
    ],
)
def test_an_answer_of_something_else_is_named(stub, answer, said):
    """A proxy's page, or another program."""
    stub.answer = answer
    assert said in str(refused(RegistryMisused, stub.connection()))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (json_answer(["x"]), "holds no schema"),
        (json_answer({"schema": 5}), "holds no schema"),
        (json_answer({"schema": "x", "schemaType": "XML"}), "has type 'XML'; allowed: AVRO"),
        (json_answer({"schema": "x", "references": [{}]}), "no subject with a version"),
    ],
)
def test_trouble_with_one_schema_is_no_trouble_of_the_registry(stub, answer, said):
    """Any four bytes of a record are an id: nobody stops a stream with them."""
    stub.answer = answer
    assert said in unreadable(stub.connection())


@pytest.mark.parametrize("schema", ["{nope", "[" * 100_000, "5"])
def test_a_schema_that_cannot_be_read_is_named(stub, schema):
    """Only if it has references: otherwise its text is passed on as it is."""
    to_it = {"schema": schema, "references": [{"name": "x", "subject": "s", "version": 1}]}

    def answer(request):
        other = {"id": 2, "subject": "s", "version": 1, "schema": schema}
        body = [] if "/ids/1/versions" in request.path else to_it
        json_answer(other if "/subjects/" in request.path else body)(request)

    stub.answer = answer
    if schema == "5":
        assert asked(stub.connection()).text == "5"
    else:
        assert "Error: " in unreadable(stub.connection())


def test_references_in_a_circle_end(stub):
    """No registry has any; a damaged one may."""
    to_itself = [{"name": "x", "subject": "s", "version": 1}]

    def answer(request):
        body = {"id": 2, "subject": "s", "version": 1, "schema": '"int"', "references": to_itself}
        json_answer([] if "/ids/1/versions" in request.path else body)(request)

    stub.answer = answer
    assert "s:1 in a circle" in unreadable(stub.connection())


def test_endless_references_end(stub):
    """Each refers to another one."""

    def answer(request):
        number = (
            int(request.path.split("/versions/")[1].split("?")[0]) if "subj" in request.path else 0
        )
        onward = [{"name": "x", "subject": "s", "version": number + 1}]
        body = {"id": 2, "subject": "s", "version": number, "schema": '"int"', "references": onward}
        json_answer([] if "/ids/1/versions" in request.path else body)(request)

    stub.answer = answer
    assert "more than 200 references" in unreadable(stub.connection())


@pytest.mark.parametrize("subject", [".", "..", "s" * 100_000])
def test_a_subject_that_no_address_can_name_is_refused(stub, subject):
    """In a stream file, and as a reference; `..` would ask for something else."""
    with connected(stub.connection(), 10) as client, pytest.raises(RegistryMisused) as caught:
        client.latest(subject)
    assert len(str(caught.value)) < 2_000
    to_it = {"schema": "5", "references": [{"name": "x", "subject": subject, "version": 1}]}
    stub.answer = lambda asks: json_answer([] if "/ids/1/versions" in asks.path else to_it)(asks)
    assert subject[:100] in unreadable(stub.connection())
    assert all(path.startswith("/schemas/ids/1") for path, _ in stub.asked)


@pytest.mark.parametrize(
    "answer",
    [
        json_answer({"schema": "5", "schemaType": "X" * 3_000_000}),
        json_answer({"schema": "5", "references": [{"subject": "s" * 3_000_000, "version": 1}]}),
        text_answer("x" * 3_000_000, 400),
        text_answer("", 302, Location="/" + "x" * 60_000),
    ],
)
def test_a_message_is_short_whatever_it_is_about(stub, answer):
    """It goes into logs, ledgers and pages."""
    stub.answer = answer
    with pytest.raises((RegistryMisused, SchemaUnreadable)) as caught:
        asked(stub.connection())
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("login", [{}, {"login": "me", "password": SECRET}])
def test_no_proxy_reads_a_login(stub, monkeypatch, login):
    """What is sent in clear goes to the registry itself; without a secret, the site's way holds."""
    stub.answer = both_answers
    with http_stub() as proxy:
        proxy.answer = both_answers
        monkeypatch.setenv("http_proxy", f"http://{HOST}:{proxy.port}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        asked(stub.connection(**login))
        assert bool(proxy.asked) != bool(login)
        assert bool(stub.asked) == bool(login)


def test_a_redirect_is_not_followed(stub):
    """It would carry the login elsewhere."""
    with http_stub() as other:
        other.answer = both_answers
        target = f"http://{HOST}:{other.port}/schemas/ids/1"
        stub.answer = text_answer("", 302, Location=target)
        error = refused(RegistryMisused, stub.connection(login="me", password=SECRET))
        assert target in str(error)
        assert other.asked == []


def test_a_silent_registry_is_given_up(stub):
    """Within the time of an answer, and it may pass."""
    done = threading.Event()
    stub.answer = lambda request: done.wait(30)
    try:
        error = refused(RegistryAway, stub.connection(), answer_seconds=0.5)
    finally:
        done.set()
    assert error.retriable
    assert "takes more than 0.5 s" in str(error)


def test_an_answer_that_trickles_is_given_up(stub):
    """Each byte comes in time, the answer does not."""
    done = threading.Event()

    def answer(request):
        request.send_response(200)
        request.end_headers()
        for _ in range(40):  # longer than may be waited
            if done.wait(0.1):
                return
            request.wfile.write(b" ")

    stub.answer = answer
    try:
        error = refused(RegistryAway, stub.connection(), answer_seconds=0.5)
    finally:
        done.set()
    assert "takes more than 0.5 s" in str(error)


def test_an_answer_without_an_end_is_given_up(stub, monkeypatch):
    """It would fill the memory."""
    monkeypatch.setattr(registry_client, "LARGEST_ANSWER_BYTES", 100_000)
    done = threading.Event()

    def answer(request):
        request.send_response(200)
        request.end_headers()
        for _ in range(1000):
            if done.is_set():
                return
            request.wfile.write(b" " * 10_000)

    stub.answer = answer
    try:
        said = unreadable(stub.connection())
    finally:
        done.set()
    assert "more than 100,000 bytes" in said


def test_a_cut_answer_may_pass(stub):
    """The registry is restarting."""

    def answer(request):
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b'{"schema"')
        request.close_connection = True

    stub.answer = answer
    assert refused(RegistryAway, stub.connection()).retriable


def test_a_closed_port_and_an_unknown_host_may_pass():
    """Nothing is proven by them."""
    closed = {"conn_type": "http", "host": HOST, "port": free_ports(1)[0]}
    assert refused(RegistryAway, closed).exit_code == 4
    refused(RegistryAway, {"conn_type": "http", "host": "registry.invalid"})


def test_a_trusted_certificate_is_accepted(secured, authorities):
    """By the connection's own authority, or by trusting everybody."""
    for extra in ({"ca": str(authorities[0].certificate)}, {"verify": False}):
        assert asked(secured.connection(extra=extra)).text == '"string"'


def test_a_certificate_that_does_not_verify_is_named(secured, authorities, tmp_path):
    """Another authority, the system's, another host, or no certificate at all."""
    wrong = {"ca": str(authorities[1].certificate)}
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate\n")
    errors = [
        refused(RegistryRefused, secured.connection(extra=extra))
        for extra in (wrong, {}, {"ca": str(empty)})
    ]
    with http_stub(authorities[0].issue("elsewhere", "registry.example")) as elsewhere:
        trusted = {"ca": str(authorities[0].certificate)}
        errors.append(refused(RegistryRefused, elsewhere.connection(extra=trusted)))
    assert {e.cause for e in errors} == {"certificate"}
    assert "not valid for '127.0.0.1'" in str(errors[-1])
    assert secured.asked == []


def test_a_client_certificate_is_presented(authorities):
    """With the key in the same file, or in one of its own."""
    trusted, stranger = authorities
    own = str(trusted.issue("client"))
    with http_stub(trusted.issue("registry", HOST), trusted.certificate) as stub:
        stub.answer = both_answers
        base = {"ca": str(trusted.certificate)}
        for files in ({"certificate": own}, {"certificate": own, "key": own}):
            assert asked(stub.connection(extra={**base, **files})).text == '"string"'
        theirs = str(stranger.issue("client-of-stranger"))
        for files in ({}, {"certificate": theirs}):
            error = refused(RegistryRefused, stub.connection(extra={**base, **files}))
            assert error.cause == "certificate"
        unusable = refused(
            RegistryRefused, stub.connection(extra={**base, "certificate": __file__})
        )
        assert unusable.cause == "certificate"


def test_https_to_a_plain_port_is_named(stub):
    """The wrong schema in the connection."""
    assert refused(RegistryRefused, stub.connection(schema="https")).cause == "protocol"


def test_an_answer_that_is_not_http_is_named(stub):
    """A TLS alert, as many servers send it to whoever speaks plain HTTP."""
    stub.answer = lambda request: request.wfile.write(b"\x15\x03\x03\x00\x02\x02\x16\r\n\r\n")
    assert refused(RegistryRefused, stub.connection()).cause == "protocol"


def test_http_to_a_port_with_tls_moves_nothing(secured):
    """It cuts the connection: that may pass, and says nothing."""
    refused(RegistryAway, secured.connection(schema="http"))


def test_a_connection_of_another_kind_is_refused(stub):
    """Before anything is sent."""
    with pytest.raises(ConnectionMissing, match="allowed: http"):
        asked({"conn_type": "kafka"})
    with pytest.raises(ConnectionMissing, match="extra headers: unknown"):
        asked(stub.connection(extra={"headers": {}}))
    assert stub.asked == []


def opened(tmp_path, monkeypatch, **sections):
    """The context of a run of a stream, whose brokers nobody asks."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": f"{HOST}:9"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    base = {"stream": "orders", "kafka": {"topics": ["orders"]}}
    table = {"uri": str(tmp_path / "orders")}
    stream = Stream.model_validate({**base, "table": table, **sections})
    return open_run(stream, "run", RunRequest())


def test_a_run_connects_when_a_step_asks_first(stub, tmp_path, monkeypatch):
    """Once, and nothing is looked up before: landing goes on without a registry."""
    stub.answer = both_answers
    with opened(tmp_path, monkeypatch, registry={"connection": "schemas"}) as run:
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps({"conn_type": "spark"}))
        with pytest.raises(ConnectionMissing, match="connection schemas: type 'spark'"):
            _ = run.registry
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps(stub.connection()))
        assert run.registry is run.registry
        assert stub.asked == []
        assert run.registry.schema(1, ORDERS).text == '"string"'
    with pytest.raises(RuntimeError, match="closed"):
        run.registry.schema(1, ORDERS)


def test_a_stream_without_a_registry_has_none(tmp_path, monkeypatch):
    """Its schemas are files, or it has no typed tables."""
    with opened(tmp_path, monkeypatch) as run:
        assert run.registry is None


def test_a_registry_that_comes_back_has_its_schemas(tmp_path):
    """Away in between: retriable; then the same ids stand for the same schemas."""
    registry = Registry(tmp_path, keeps=True).start()
    try:
        number = registry.register("orders-value", '"string"')
        with connected(registry.connection) as client:
            before = client.schema(number, ORDERS)
            registry.stop()
            with pytest.raises(RegistryAway):
                client.schema(number, ORDERS)
            registry.start()
            assert client.schema(number, ORDERS) == before
            assert client.latest("orders-value")[1] == before
    finally:
        registry.stop()
