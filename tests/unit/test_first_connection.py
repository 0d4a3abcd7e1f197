"""What a connection to a broker makes of its end, and of a beginning that fails."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from kafka import errors as kafka_errors
from kafka.net import manager

from tideline.kafka.connecting import _Connections


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
    connections, protocol = _Connections(Net()), Protocol()

    async def read():
        transport = await connections._build_transport(SimpleNamespace(host="broker", port=9092))
        transport.set_protocol(protocol)
        transport.resume_reading()
        await transport._read_from_sock()

    asyncio.run(read())
    assert protocol.told[0] == answer
    assert "socket disconnected" in protocol.told[-1]


def test_a_broker_that_cannot_be_reached_is_named(monkeypatch):
    """Brokers may advertise a name that nobody knows; what lies beneath is still to be seen."""
    cause = kafka_errors.KafkaConnectionError("DNS Resolution failure")

    async def connect(*_, **__):
        raise cause

    monkeypatch.setattr(manager, "create_connection", connect)
    node = SimpleNamespace(host="kafka.invalid", port=9092)
    with pytest.raises(kafka_errors.KafkaConnectionError, match=r"kafka\.invalid:9092: ") as told:
        asyncio.run(_Connections(Net())._build_transport(node))
    assert told.value.__cause__ is cause
    assert "DNS Resolution failure" in str(told.value)
