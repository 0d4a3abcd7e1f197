"""Another user of this machine, who tries every port and every socket of our processes.

Root sees which process listens where. The neighbour knows no secret, and speaks each protocol that
we have at each port: what it gets is told, and whether somebody has asked who it is.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - the neighbour may not read Python's own files
import json
import os
import pwd
import socket
import struct
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

_USER = "nobody"
_SECONDS = 3
_LISTENS = "0A"
"""State of a listening socket in `/proc/net/tcp` (include/net/tcp_states.h)."""
_ACCEPTS = 0x10000
"""Flag of a listening socket in `/proc/net/unix`."""
_TOPIC = "of-the-neighbour"


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """A port or a socket that a process listens on.

    Args:
        process: What it is, in a word or two.
        where: `127.0.0.1:4711`, a path, or an abstract name that begins with `@`.
    """

    process: str
    where: str


@dataclass(frozen=True, slots=True)
class Try:
    """What the neighbour tried, and what came back.

    Args:
        process: What listens.
        where: Where.
        tried: What was tried.
        came_back: In a few words.
        let_in: Whether it got what only we may have, without a word about who it is.
    """

    process: str
    where: str
    tried: str
    came_back: str
    let_in: bool


def listeners(processes: Iterable[tuple[int, str]]) -> list[Listener]:
    """All TCP ports and Unix sockets that processes listen on.

    Args:
        processes: Process ids, and what they are.
    """
    inodes = {}
    for pid, name in processes:
        for descriptor in _entries(f"/proc/{pid}/fd"):
            with suppress(OSError):
                inodes[os.readlink(descriptor)] = name
    found = {
        Listener(name, where)
        for inode, where in (*_tcp("tcp"), *_tcp("tcp6"), *_unix())
        if (name := inodes.get(f"socket:[{inode}]"))
    }
    return sorted(found)


def _entries(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []  # the process has ended


def _tcp(table: str) -> Iterator[tuple[str, str]]:
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        _, local, _, state, *rest = line.split()
        if state == _LISTENS:
            address, port = local.split(":")
            words = bytes.fromhex(address)
            raw = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
            family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
            host = socket.inet_ntop(family, raw).removeprefix("::ffff:")
            yield rest[5], f"{host}:{int(port, 16)}"


def _unix() -> Iterator[tuple[str, str]]:
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if int(fields[3], 16) & _ACCEPTS and len(fields) == 8:
            yield fields[6], fields[7]


def tries(found: Iterable[Listener]) -> list[Try]:
    """What comes back when another user tries everything everywhere, in a process of theirs.

    Only root can ask for it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            user = pwd.getpwnam(_USER)
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            wanted = [(one, tried) for one in found for tried in _protocols(one.where)]
            with ThreadPoolExecutor(64) as pool:
                done = [*pool.map(_tried, wanted)]
            said = json.dumps([asdict(one) for one in done])
        except BaseException:
            said = traceback.format_exc()
        with os.fdopen(writing, "w") as out:
            out.write(said)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    assert told.startswith("["), told
    return [Try(**one) for one in json.loads(told)]


def table(done: Iterable[Try]) -> str:
    """A line for each try; what nobody answers is told once for each port."""
    lines = [
        f"{'IN' if one.let_in else '':3}{one.process:24} {one.where:24} {one.tried:34}"
        f" {one.came_back}"
        for one in done
    ]
    return "\n".join(lines)


def _protocols(where: str) -> Mapping[str, _Protocol]:
    return _AT_SOCKETS if where.startswith(("/", "@")) else _AT_PORTS


def _tried(wanted: tuple[Listener, str]) -> Try:
    at, tried = wanted
    try:
        came_back, let_in = _protocols(at.where)[tried](at.where)
    except (OSError, HTTPException, struct.error, IndexError) as error:
        came_back, let_in = f"{type(error).__name__}: {error}".rstrip(": "), False
    return Try(at.process, at.where, tried, came_back[:120], let_in)


def _connected(where: str) -> socket.socket:
    if where.startswith(("/", "@")):
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(_SECONDS)
        link.connect("\0" + where[1:] if where.startswith("@") else where)
        return link
    host, _, port = where.rpartition(":")
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return socket.create_connection((here, int(port)), _SECONDS)


def _exactly(link: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        part = link.recv(size - len(got))
        if not part:
            raise ConnectionError("closed" if not got else f"closed after {got!r}")
        got += part
    return got


def _text(value: str) -> bytes:
    return struct.pack("!i", len(value)) + value.encode()


def _short(value: str) -> bytes:
    return struct.pack("!h", len(value)) + value.encode()


_REQUEST, _ANSWER, _CHUNK, _CHUNK_ANSWER = 3, 4, 0, 1
"""Messages of Spark's network library (`org.apache.spark.network.protocol.Message`)."""


def _spark_frame(kind: int, head: bytes, body: bytes = b"") -> bytes:
    return struct.pack("!qb", 9 + len(head) + len(body), kind) + head + body


def _spark_answer(link: socket.socket) -> tuple[int, bytes]:
    size, kind = struct.unpack("!qb", _exactly(link, 9))
    if not 9 <= size < 2**26:
        raise ConnectionError("no answer of Spark's")
    return kind, _exactly(link, size - 9)


def _spark_request(link: socket.socket, body: bytes) -> tuple[int, bytes]:
    link.sendall(_spark_frame(_REQUEST, struct.pack("!qi", 7, len(body)), body))
    kind, answer = _spark_answer(link)
    return kind, answer[12:]


def _block(where: str) -> tuple[str, bool]:
    """Broadcasts, whose first pieces have names that anybody can guess."""
    names = [f"broadcast_{number}_piece0" for number in range(40)]
    got = b""
    for name in names:
        with _connected(where) as link:
            wanted = b"\0" + _text("app") + _text("0") + struct.pack("!i", 1) + _text(name)
            kind, answer = _spark_request(link, wanted)
            if kind != _ANSWER:
                if b"BlockNotFoundException" in answer:
                    continue
                return f"refused: {_readable(answer)}", False
            stream, count = struct.unpack("!qi", answer[1:13])
            for chunk in range(count):
                link.sendall(_spark_frame(_CHUNK, struct.pack("!qi", stream, chunk)))
                kind, answer = _spark_answer(link)
                got += answer[12:] if kind == _CHUNK_ANSWER else b""
    return f"{len(got)} bytes of the driver's broadcasts", True


def _object(where: str) -> tuple[str, bool]:
    """An object of Java's to Spark's RPC: what it says of it, it has read it for."""
    host, _, port = where.rpartition(":")
    to = b"\1" + _short(host) + struct.pack("!i", int(port)) + _short("endpoint-verifier")
    with _connected(where) as link:
        kind, answer = _spark_request(link, b"\0" + to + b"\xac\xed\0\5t" + _short("neighbour"))
    if kind == _ANSWER:
        return f"it has read our object: {_readable(answer)}", True
    return f"refused: {_readable(answer)}", False


def _readable(answer: bytes) -> str:
    text = answer.decode("latin-1")
    return "".join(c if " " <= c < "\x7f" else " " for c in text[:400]).strip()


def _command(where: str) -> tuple[str, bool]:
    """A command to a gateway of py4j's: a static method of Java's."""
    with _connected(where) as link:
        link.sendall(b"c\nz:java.lang.System\nlineSeparator\ne\n")
        answer = link.recv(200)
    return _readable(answer) or "closed", answer.startswith(b"!y")


_PATHS = (
    *("/api/v2/dags", "/api/v2/connections", "/tideline/api/v1/streams", "/execution/dag-runs/x"),
    *("/json/", "/api/v1/applications", "/?list-type=2", "/lake?list-type=2", "/metrics"),
    *("/subjects", "/apis/ccompat/v7/subjects", "/apis/registry/v3/groups"),
)


def _http(where: str) -> tuple[str, bool]:
    """What a browser would ask for; nothing of it is for everybody but an application's HTML."""
    host, _, port = where.rpartition(":")
    seen: dict[int | str, list[str]] = {}
    for path in _PATHS:
        link = HTTPConnection(host, int(port), timeout=_SECONDS)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            is_page = answer.getheader("Content-Type", "").startswith("text/html")
            seen.setdefault("a page" if is_page else answer.status, []).append(path)
        finally:
            link.close()
    told = ", ".join(f"{len(paths)} times {status}" for status, paths in seen.items())
    return " ".join([told, *seen.get(200, ())]), 200 in seen


def _kafka(where: str, key: int, version: int, body: bytes) -> bytes:
    request = struct.pack("!hhi", key, version, 1) + _short("neighbour") + body
    with _connected(where) as link:
        link.sendall(struct.pack("!i", len(request)) + request)
        (size,) = struct.unpack("!i", _exactly(link, 4))
        if not 4 <= size < 2**24:
            raise ConnectionError("no answer of Kafka's")
        return _exactly(link, size)[4:]


def _topics(where: str) -> tuple[str, bool]:
    """Names of all topics (Metadata, version 1)."""
    answer = _kafka(where, 3, 1, struct.pack("!i", -1))
    (brokers,) = struct.unpack("!i", answer[:4])
    at = 4
    for _ in range(brokers):
        at += 4
        at += 2 + struct.unpack("!h", answer[at : at + 2])[0] + 4
        at += 2 + max(0, struct.unpack("!h", answer[at : at + 2])[0])
    (count,) = struct.unpack("!i", answer[at + 4 : at + 8])
    return f"names of {count} topics", count > 0


def _new_topic(where: str) -> tuple[str, bool]:
    """Whether it may create one (CreateTopics, version 2, which only looks)."""
    wanted = _short(_TOPIC) + struct.pack("!ihii", 1, 1, 0, 0)
    answer = _kafka(where, 19, 2, struct.pack("!i", 1) + wanted + struct.pack("!ib", 3000, 1))
    (code,) = struct.unpack("!h", answer[10 + len(_TOPIC) : 12 + len(_TOPIC)])
    return ("a topic could be created" if code == 0 else f"refused: error {code}"), code == 0


def _database(where: str) -> tuple[str, bool]:
    """A session of PostgreSQL's without a password."""
    words = b"user\0tideline\0database\0postgres\0\0"
    with _connected(where) as link:
        link.sendall(struct.pack("!ii", 8 + len(words), 196608) + words)
        answer = link.recv(200)
    is_open = answer[:1] == b"R" and answer[5:9] == b"\0\0\0\0"
    return _readable(answer) or "closed", is_open


def _connect(where: str) -> tuple[str, bool]:
    """A question to Spark Connect, without a token."""
    import grpc

    with grpc.insecure_channel(where) as channel:
        call = channel.unary_unary("/spark.connect.SparkConnectService/Config")
        try:
            call(b"", timeout=_SECONDS)
        except grpc.RpcError as error:
            code = error.code().name
            no_server = code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "UNIMPLEMENTED")
            said = f"{code}: {error.details()}".replace("\n", " ")
            return said, not (no_server or code == "UNAUTHENTICATED")
    return "an answer", True


def _job(where: str) -> tuple[str, bool]:
    """A job for the warm driver."""
    with _connected(where) as link:
        link.sendall(b'{"job_path": "/tmp/of-the-neighbour", "keep_seconds": 0}\n')
        answer = link.recv(200)
    return _readable(answer) or "closed", answer.startswith(b"accepted")


_Protocol = Callable[[str], tuple[str, bool]]
_AT_PORTS: dict[str, _Protocol] = {
    "fetch Spark's broadcasts": _block,
    "an object to Spark's RPC": _object,
    "a command to py4j's gateway": _command,
    f"HTTP: GET {len(_PATHS)} paths": _http,
    "Kafka: name all topics": _topics,
    "Kafka: create a topic": _new_topic,
    "PostgreSQL: a session": _database,
    "Spark Connect: read settings": _connect,
}
_AT_SOCKETS: dict[str, _Protocol] = {"a job for the warm driver": _job}
