"""A TCP proxy in front of one broker that knows Kafka's frames, for the faults of `rules`."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devstack.broker import Broker
from devstack.process import HOST, free_ports
from tests.faults.rules import Rule, rewritten


class KafkaProxy:
    """Forwards frames between clients and one broker's listener.

    Args:
        target_port: Port of the listener that advertises this proxy.
        port: Port of the proxy; a free one is taken when None.

    `requests` counts by api key what clients have asked for, `answered` the bytes of the answers.
    """

    def __init__(self, target_port: int, port: int | None = None) -> None:
        self.port = port or free_ports(1)[0]
        self.requests: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self._target_port = target_port
        self._rules: tuple[Rule, ...] = ()
        self._errors: list[Exception] = []
        self._links: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        """What clients that shall feel the faults connect to."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> KafkaProxy:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> KafkaProxy:
        """Accept connections."""
        self._thread.start()
        self.restore()
        return self

    def stop(self) -> None:
        """Cut everything and end the thread; raises what went wrong in a rule's function."""
        if self._thread.is_alive():
            self.refuse()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._raise_errors()

    def refuse(self) -> None:
        """The broker is away: cut every connection, refuse new ones."""
        self._run(self._close())

    def restore(self) -> None:
        """Accept connections again."""
        self._run(self._listen())

    def add(self, rule: Rule) -> Rule:
        """Switch a rule on; those that were added before come first."""
        self._rules = (*self._rules, rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Switch a rule off; connections that it has muted stay mute."""
        self._rules = tuple(r for r in self._rules if r is not rule)

    def clear(self) -> None:
        """As new: no rules, no connections; raises what went wrong in a rule's function."""
        self._rules = ()
        self.refuse()
        self.restore()
        self._raise_errors()

    @contextmanager
    def applying(self, rule: Rule) -> Iterator[Rule]:
        """Switch a rule on for a block."""
        try:
            yield self.add(rule)
        finally:
            self.remove(rule)

    def _raise_errors(self) -> None:
        errors, self._errors = self._errors, []
        for error in errors:
            raise error

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, HOST, self.port)

    async def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._server is None:
            client.transport.abort()
            return
        link = self._loop.create_task(self._link(reader, client))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _link(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        ends, pumps = [client], []
        try:
            answers, broker = await asyncio.open_connection(HOST, self._target_port)
            ends.append(broker)
            asked: dict[int, tuple[int, int]] = {}
            pumps.append(self._loop.create_task(self._requests(reader, broker, asked)))
            pumps.append(self._loop.create_task(self._answers(answers, client, asked)))
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # the broker is away; so is the proxy
        finally:
            for pump in pumps:
                pump.cancel()
            for outcome in await asyncio.gather(*pumps, return_exceptions=True):
                if isinstance(outcome, Exception) and not isinstance(outcome, OSError | EOFError):
                    self._errors.append(outcome)
            for end in ends:
                end.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        broker: asyncio.StreamWriter,
        asked: dict[int, tuple[int, int]],
    ) -> None:
        while True:
            frame = await _receive(reader)
            api, version, correlation_id = struct.unpack_from(">hhi", frame)
            self.requests[api] += 1
            if any(r.fault == "cut" and r.is_for(api) and r.take() for r in self._rules):
                return
            asked[correlation_id] = (api, version)
            await _send(broker, frame)

    async def _answers(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        asked: dict[int, tuple[int, int]],
    ) -> None:
        muted = False
        while True:
            frame = await _receive(reader)
            api, version = asked.pop(struct.unpack_from(">i", frame)[0])
            self.answered[api] += len(frame)
            for rule in () if muted else self._rules:
                if rule.fault == "cut" or not rule.is_for(api):
                    continue
                if rule.fault == "rewrite":
                    frame = rewritten(frame, rule, api, version)
                elif rule.take():
                    if rule.fault == "lose":
                        return
                    muted = rule.fault == "mute"
                    await asyncio.sleep(rule.seconds)
                if muted:
                    break
            if not muted:
                await _send(client, frame)


async def _receive(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()


@contextmanager
def proxied_broker(
    folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[Broker, KafkaProxy]]:
    """A started broker and its proxy.

    A client that bootstraps at `proxy.bootstrap_servers` goes through the proxy for everything,
    one that bootstraps at `broker.bootstrap_servers` never does.
    """
    plain, behind, front, controller = free_ports(4)
    proxy = KafkaProxy(behind, front)
    ports = {"PLAINTEXT": plain, "PROXIED": behind, "CONTROLLER": controller}
    listeners = {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "advertised.listeners": f"PLAINTEXT://{HOST}:{plain},PROXIED://{proxy.bootstrap_servers}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }
    broker = Broker(folder, plain, {**listeners, **(settings or {})})
    try:
        with proxy:
            yield broker.start(), proxy
    finally:
        broker.stop()
