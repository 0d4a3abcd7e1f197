"""What a connection to a broker makes of its end, and of a beginning that fails."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from kafka import errors as kafka_errors
from kafka.net import manager

from tideline.errors import ServiceAway
from tideline.kafka.first_connect import Unreached, _Connections
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import KafkaSettings


class Net:
    """Kafka's selector where every socket is ready."""

    def call_soon(self, *_):
        return None

    call_at = unregister_event = cancel = call_soon

    async def wait_read(self, _):
        return None


class Protocol:
    """Writes down what it is told, in order."""

    _sensors = None

    def __init__(self):
        self.told = []

    def data_received(self, data):
        self.told.append(data)

    def connection_lost(self, error):
        self.told.append(str(error))


@pytest.mark.parametrize("answer", [b"wrong password", b"x" * 10_000])
def test_an_answer_is_read_before_the_end_that_comes_with_it(monkeypatch, answer):
    """A broker answers a wrong login and closes: both are there when the client looks."""
    ours, brokers = socket.socketpair()
    ours.setblocking(False)
    brokers.sendall(answer)
    brokers.close()

    async def connect(*_, **__):
        return ours

    monkeypatch.setattr(manager, "create_connection", connect)
    connections, protocol = _Connections(Net(), str), Protocol()

    async def read():
        transport = await connections._build_transport(SimpleNamespace(host="broker", port=9092))
        transport.set_protocol(protocol)
        transport.resume_reading()
        await transport._read_from_sock()

    asyncio.run(read())
    assert protocol.told[0] == answer
    assert "socket disconnected" in protocol.told[-1]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("DNS Resolution failure", "the name does not resolve"),
        ("111 ECONNREFUSED", "connection refused"),
        ("Connection timed out", "connection timed out"),
        ("Handshake failed: [SSL] wrong version", "handshake failed: [SSL] wrong version"),
    ],
)
def test_a_broker_that_cannot_be_reached_is_named(monkeypatch, theirs, ours):
    """Brokers may advertise a name that nobody knows; what lies beneath is still to be seen."""
    cause, heard = kafka_errors.KafkaConnectionError(theirs), []

    async def connect(*_, **__):
        raise cause

    monkeypatch.setattr(manager, "create_connection", connect)
    node = SimpleNamespace(host="kafka.invalid", port=9092)
    with pytest.raises(Unreached) as told:
        asyncio.run(_Connections(Net(), heard.append)._build_transport(node))
    assert told.value.__cause__ is cause
    assert heard == [str(told.value)] == [f"kafka.invalid:9092: {ours}"]


def test_a_first_connection_that_fails_ends_with_the_socket_s_error():
    """kafka-python says "Unable to bootstrap", whatever the reason."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
    patience = {"default.api.timeout.ms": "300"}
    settings = KafkaSettings("k", {"bootstrap.servers": place, **patience})
    with KafkaCluster(settings) as cluster, pytest.raises(ServiceAway) as away:
        cluster.observe([], {})
    assert str(away.value).startswith(f"Kafka at {place} does not answer: connection refused; no")
