"""A TCP proxy in front of one broker that knows Kafka's frames, for faults on the wire."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ResponseClassRegistry

from tideline.embedded.broker import Broker
from tideline.embedded.process import HOST, free_ports, wait_until

Change = Callable[[Any], bool | None]


@dataclass(eq=False)
class Rule:
    """One fault, made by the functions below and switched on by `KafkaProxy.add`.

    Args:
        fault: "rewrite", "delay", "mute", "cut" or "lose".
        api: Which exchanges; None means all.
        times: Applied at most so often; None means until it is removed.
        skip: Matching exchanges that pass unharmed first.
        change: Gets the decoded response; returns False when that does not match.
        seconds: Length of a delay.
        applied: How often it was applied so far.
    """

    fault: str
    api: ApiKey | None
    times: int | None = None
    skip: int = 0
    change: Change = lambda response: None
    seconds: float = 0
    applied: int = 0

    def is_for(self, api: int) -> bool:
        """Whether it still has something to do with such exchanges."""
        return self.api in (None, api) and (self.times is None or self.applied < self.times)

    def take(self) -> bool:
        """Count a matching exchange; whether the rule applies to it."""
        self.skip, passes = max(0, self.skip - 1), self.skip > 0
        self.applied += not passes
        return not passes

    def wait_applied(self, times: int = 1, timeout_seconds: float = 30) -> None:
        """Wait until it was applied so often."""
        wait_until(lambda: self.applied >= times, f"{self} not applied", timeout_seconds, 0.01)


def rewrite(api: ApiKey, change: Change, **limits: int) -> Rule:
    """Change decoded responses in place; limits are `times` and `skip`, here and below."""
    return Rule("rewrite", api, change=change, **limits)


def delay(api: ApiKey | None, seconds: float, **limits: int) -> Rule:
    """Hold responses back; what follows on the same connection waits too."""
    return Rule("delay", api, seconds=seconds, **limits)


def mute(api: ApiKey | None = None, **limits: int) -> Rule:
    """Swallow the response and all later ones of that connection, which stays open."""
    return Rule("mute", api, **limits)


def cut(api: ApiKey | None = None, **limits: int) -> Rule:
    """Cut the connection when such a request comes; the broker does not see it."""
    return Rule("cut", api, **limits)


def lose_answer(api: ApiKey | None = None, **limits: int) -> Rule:
    """Cut the connection when the broker has answered; the client does not see it."""
    return Rule("lose", api, **limits)


def offsets_error(topic: str, partition: int, code: int, **limits: int) -> Rule:
    """ListOffsets fails for one partition."""
    values = {"error_code": code, "offset": -1, "timestamp": -1, "leader_epoch": -1}
    return _partition(ApiKey.ListOffsets, topic, partition, values, limits)


def offsets_epoch(topic: str, partition: int, epoch: int, **limits: int) -> Rule:
    """ListOffsets answers carry this leader epoch: below the real one, a stale leader."""
    return _partition(ApiKey.ListOffsets, topic, partition, {"leader_epoch": epoch}, limits)


def epoch_error(topic: str, partition: int, code: int, **limits: int) -> Rule:
    """OffsetsForLeaderEpoch fails for one partition."""
    values = {"error_code": code, "leader_epoch": -1, "end_offset": -1}
    return _partition(ApiKey.OffsetForLeaderEpoch, topic, partition, values, limits)


def partition_metadata(
    topic: str, partition: int, code: int = 5, leader: int = -1, **limits: int
) -> Rule:
    """Metadata shows this error and leader for one partition; by default, that it has none."""
    values = {"error_code": code, "leader_id": leader}
    return _partition(ApiKey.Metadata, topic, partition, values, limits)


def topic_id(topic: str, other: UUID | str, **limits: int) -> Rule:
    """Metadata shows another topic id."""
    return _topic(topic, {"topic_id": UUID(str(other))}, limits)


def topic_error(topic: str, code: int, **limits: int) -> Rule:
    """Metadata shows an error instead of id and partitions, as for a topic that is not there."""
    return _topic(topic, {"error_code": code, "topic_id": None, "partitions": []}, limits)


def _topic(name: str, values: Mapping[str, Any], limits: Mapping[str, int]) -> Rule:
    def change(response: Any) -> bool:
        return _set((t for t in response.topics if t.name == name), values)

    return rewrite(ApiKey.Metadata, change, **limits)


def _partition(
    api: ApiKey, topic: str, number: int, values: Mapping[str, Any], limits: Mapping[str, int]
) -> Rule:
    of_epochs = api == ApiKey.OffsetForLeaderEpoch
    name, index = ("topic", "partition") if of_epochs else ("name", "partition_index")

    def change(response: Any) -> bool:
        led = (p for t in response.topics if getattr(t, name) == topic for p in t.partitions)
        return _set((p for p in led if getattr(p, index) == number), values)

    return rewrite(api, change, **limits)


def _set(items: Iterator[Any], values: Mapping[str, Any]) -> bool:
    item = next(items, None)
    for name, value in values.items() if item is not None else ():
        setattr(item, name, value)
    return item is not None


class KafkaProxy:
    """Forwards frames between clients and one broker's listener.

    Args:
        target_port: Port of the listener that advertises this proxy.
        port: Port of the proxy; a free one is taken when None.

    `requests` counts by api key what clients have asked for.
    """

    def __init__(self, target_port: int, port: int | None = None) -> None:
        self.port = port or free_ports(1)[0]
        self.requests: Counter[int] = Counter()
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
            for rule in () if muted else self._rules:
                if rule.fault == "cut" or not rule.is_for(api):
                    continue
                if rule.fault == "rewrite":
                    frame = _rewritten(frame, rule, api, version)
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


def _rewritten(frame: bytes, rule: Rule, api: int, version: int) -> bytes:
    header = SimpleNamespace(request_api_key=api, request_api_version=version)
    response = ResponseClassRegistry.get_response_class(header).decode(frame, header=True)
    if bytes(response.encode(header=True)) != frame:
        raise ValueError(f"kafka-python does not give {response} back as it came")
    if rule.change(response) is False or not rule.take():
        return frame
    return bytes(response.encode(header=True))


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
