"""kafka-python's connections, which end the first connect as soon as brokers refuse.

By itself the client goes on trying until its time is up, and then says "Unable to bootstrap" only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from tideline.kafka_io.python_errors import is_cut, refusal_of
from tideline.secrecy import clamp_kafka_logs


class CutAtConnect(kafka_errors.KafkaConnectionError):  # type: ignore[misc]
    """A broker ended the first connection before it had answered.

    Args:
        text: What was seen.
        host: The broker that did, as `bootstrap.servers` names it.
        port: Its port.
    """

    def __init__(self, text: str, host: str, port: int) -> None:
        super().__init__(f"{host}:{port}: {text}")
        self.host = host
        self.port = port


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Remembers which server of `bootstrap.servers` has refused, and does not ask it again."""

    def __init__(self, net: NetworkSelector, **configs: Any) -> None:
        super().__init__(net, **configs)
        self._refused: dict[str, BaseException] = {}

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> KafkaConnection:
        if node_id in self._refused:
            raise self._refused[node_id]
        connection = super().get_connection(node_id, *args, **options)
        if self.cluster.is_bootstrap(node_id):
            connection.close_future.add_errback(partial(self._remember, node_id))
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        try:
            transport = await super()._build_transport(node, timeout_at=timeout_at)
        except kafka_errors.KafkaConnectionError as error:
            # Brokers may advertise other names than `bootstrap.servers` does: say which it was.
            raise kafka_errors.KafkaConnectionError(f"{node.host}:{node.port}: {error}") from error
        receive = transport._sock_recv

        def receive_before_the_end() -> tuple[bytes, Exception | None]:
            """Brokers answer a wrong login and close; the client would drop such an answer."""
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = receive_before_the_end
        return transport

    def _remember(self, node_id: str, error: BaseException) -> None:
        if refusal_of(error) is not None:
            self._refused[node_id] = error
        elif is_cut(error):
            node = self.cluster.broker_metadata(node_id)
            cut = CutAtConnect(str(error), node.host, node.port)
            cut.__cause__ = error
            self._refused[node_id] = cut


def connected(**configs: Any) -> KafkaAdminClient:
    """A client that has found the cluster.

    Args:
        configs: Keyword arguments of `KafkaAdminClient`.

    Raises:
        KafkaError: No server has answered in time, or one has refused; `python_errors` tells which.
        CutAtConnect: A server has cut the connection.
        OSError: Certificates cannot be read, or TLS has failed.
    """
    clamp_kafka_logs()
    made: list[KafkaNetClient] = []

    def client(**settings: Any) -> KafkaNetClient:
        net = NetworkSelector(**settings)
        made.append(KafkaNetClient(net, _Connections(net, **settings)))
        return made[0]

    try:
        return KafkaAdminClient(**configs, kafka_client=client)
    except Exception:
        for unfinished in made:  # its constructor has started a thread
            unfinished.close()
            unfinished._net.stop()
        raise
