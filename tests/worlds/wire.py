"""A case of what producers write (`tests/data/wire`): topic, registry, steps, the rows expected.

A case is one JSON object:

    registry    `ids` {id: {schema, schemaType, references}}, `subjects` {name: {version: id}},
                `contexts` {name: ids}: what a registry of Confluent's API answers
    files       texts beside the stream file, by name
    topic       `config` of the topic, `partitions`
    stream      keys of the stream file
    steps       `records` (`key`, `value`: null, `text`, `base64` or `fill`; `timestamp` in ms, or
                {"ago": seconds}; `headers`; `times`), `run` and `cli` (arguments, and the `exit`
                that is wanted; FILE is the stream file, @ago:SECONDS a time), `registry`, `sleep`,
                `stream` (its keys from then on), `read`
    expect      `typed`, `current`, `quarantine`, and `types` by event type: rows with the columns
                that count; a name with a ~ behind it is a column that holds that text somewhere.
                `said`: what the commands have printed
    answer      where something else is right than what a user may expect at first: why
"""

from __future__ import annotations

import base64
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable
from kafka import KafkaProducer

from devstack.harness import StreamHarness
from tests.worlds.http_stub import HttpStub

CASES = Path(__file__).parents[1] / "data" / "wire"
Case = Mapping[str, Any]
_LARGEST = 64 << 20
_CONTEXT = re.compile(r":(\.[^:]*):")


class ConfluentStub(HttpStub):
    """A registry that answers as Confluent's, with contexts; `holds` is what it knows."""

    def __init__(self) -> None:
        super().__init__()
        self.holds: Case = {}
        self.answer = self._answer

    def _answer(self, asked: BaseHTTPRequestHandler) -> None:
        address = urlsplit(asked.path)
        query = dict(part.split("=", 1) for part in address.query.split("&") if "=" in part)
        found = self._found([unquote(p) for p in address.path.split("/")[1:]], query)
        body = json.dumps({"error_code": found} if isinstance(found, int) else found).encode()
        asked.send_response(404 if isinstance(found, int) else 200)
        asked.send_header("Content-Type", "application/json")
        asked.send_header("Content-Length", str(len(body)))
        asked.end_headers()
        asked.wfile.write(body)

    def _found(self, path: list[str], query: Mapping[str, str]) -> object:
        """What is answered, or the API's own error code."""
        match path:
            case ["schemas", "ids", number, *rest]:
                ids = self._ids(unquote(query.get("subject", "")))
                if number not in ids:
                    return 40403
                return self._versions(number, ids) if rest == ["versions"] else ids[number]
            case ["subjects", subject, "versions", version]:
                versions = self.holds.get("subjects", {}).get(subject)
                if versions is None:
                    return 40401
                version = max(versions, key=int) if version == "latest" else version
                if version not in versions:
                    return 40402
                number = versions[version]
                document = self._ids(subject)[str(number)]
                return {"subject": subject, "version": int(version), "id": number, **document}
        return 404

    def _ids(self, subject: str) -> Case:
        context = _CONTEXT.match(subject)
        holds = self.holds
        found: Case = holds.get("contexts", {}).get(context[1], {}) if context else holds["ids"]
        return found

    def _versions(self, number: str, ids: Case) -> list[dict[str, object]]:
        return [
            {"subject": subject, "version": int(version)}
            for subject, versions in self.holds.get("subjects", {}).items()
            for version, given in versions.items()
            if str(given) == number and self._ids(subject) is ids
        ]


@contextmanager
def registry_of(case: Case) -> Iterator[ConfluentStub]:
    """The case's registry, behind the connection that its stream names."""
    stub = ConfluentStub()
    stub.holds = case.get("registry", {"ids": {}})
    os.environ["AIRFLOW_CONN_REGISTRY_DEFAULT"] = json.dumps(stub.connection())
    try:
        yield stub
    finally:
        del os.environ["AIRFLOW_CONN_REGISTRY_DEFAULT"]
        stub.close()


class Played:
    """A case on a real broker; its commands are called in this process.

    Args:
        command: `tideline`: arguments to (exit status, what it has printed).
    """

    def __init__(
        self, case: Case, harness: StreamHarness, command: Callable[..., tuple[int, str]]
    ) -> None:
        self.case, self.harness, self._command = case, harness, command
        self.said: list[tuple[list[str], int, str]] = []
        topic = case.get("topic", {})
        config = {"max.message.bytes": str(_LARGEST), "retention.ms": "-1"}
        config |= topic.get("config", {})
        harness.create("t", topic.get("partitions", 1), **config)
        for name, text in case.get("files", {}).items():
            (harness.folder / name).write_text(text)
        self.file = harness.stream_file(["t"], name="t", **case["stream"])
        self.types = {*case["expect"].get("types", ())}

    def play(self, registry: ConfluentStub) -> None:
        """Take each step; one that names an exit has to end with it."""
        for step in self.case["steps"]:
            if "records" in step:
                self._send(step["records"])
            elif "registry" in step:
                registry.holds = step["registry"]
            elif "stream" in step:
                self.file = self.harness.stream_file(["t"], name="t", **step["stream"])
            elif "sleep" in step:
                time.sleep(step["sleep"])  # of the case: a clock passes, or a broker compacts
            elif "run" in step:
                self.call(["run", str(self.file), *step["run"]], step.get("exit"))
            elif "cli" in step:
                self.call(step["cli"], step.get("exit"))

    def call(self, arguments: list[str], wanted: int | None = None) -> None:
        """One command."""
        given = [self._argument(a) for a in arguments]
        status, said = self._command(*given)
        self.said.append((given, status, said))
        assert wanted is None or status == wanted, f"{given} ended with {status}: {said}"

    def _argument(self, text: str) -> str:
        if text.startswith("@ago:"):
            at = datetime.now(UTC) - timedelta(seconds=int(text.removeprefix("@ago:")))
            return at.isoformat(timespec="seconds")
        return str(self.file) if text == "FILE" else text

    def _send(self, records: list[Case]) -> None:
        servers = self.harness.broker.bootstrap_servers
        producer = KafkaProducer(bootstrap_servers=servers, max_request_size=_LARGEST, linger_ms=20)
        sent = []
        for record in records:
            for _ in range(record.get("times", 1)):
                one = producer.send(
                    self.harness.topic("t"),
                    key=_bytes(record.get("key")),
                    value=_bytes(record.get("value")),
                    partition=record.get("partition", 0),
                    timestamp_ms=_millis(record.get("timestamp")),
                    headers=[(n, base64.b64decode(v)) for n, v in record.get("headers", [])],
                )
                sent.append(one)
        for one in sent:
            one.get(60)
        producer.close()

    def unsaid(self) -> list[str]:
        """The texts that no command has printed."""
        said = "\n".join(text for _, _, text in self.said)
        return [f"nobody said {t!r}" for t in self.case["expect"].get("said", []) if t not in said]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table, by coordinates where it has some; none where there is no table."""
        suffix = {"typed": "decoded"}.get(table, table)
        uri = f"{self.harness.lake}/t_{suffix}"
        if not DeltaTable.is_deltatable(uri):
            return []
        found: list[dict[str, Any]] = DeltaTable(uri).to_pyarrow_table().to_pylist()
        return sorted(found, key=lambda row: [row.get(n, 0) for n in ("partition", "offset")])

    def differences(self, table: str) -> list[str]:
        """What of the expected rows is not there, and what is there besides."""
        wanted = self.case["expect"].get(table)
        if table in self.types:
            wanted = self.case["expect"]["types"][table]
        if wanted is None:
            return []
        left = self.rows(table)
        if table == "typed":
            left = [row for row in left if not row.get("is_tombstone")]
        missing = []
        for row in wanted:
            same = next((r for r in left if is_like(row, r)), None)
            if same is None:
                missing.append(f"{table} lacks {row}")
            else:
                left.remove(same)
        return missing + [f"{table} has {row}" for row in left]


def is_like(wanted: Case, row: Case) -> bool:
    """Whether a row has the values of the columns that count."""
    return all(_has(row, name, value) for name, value in wanted.items())


def _has(row: Case, name: str, value: Any) -> bool:
    if name.endswith("~"):
        return value in str(row.get(name[:-1]))
    return name in row and _plain(row[name]) == value


def _plain(value: Any) -> Any:
    """A value as a case writes it."""
    if isinstance(value, bytes):
        return "b64:" + base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _bytes(given: Case | None) -> bytes | None:
    if given is None:
        return None
    if "fill" in given:
        before, one, times, after = given["fill"]
        return f"{before}{one * times}{after}".encode()
    return base64.b64decode(given["base64"]) if "base64" in given else given["text"].encode()


def _millis(given: Any) -> int | None:
    if isinstance(given, dict):
        return round((time.time() - given["ago"]) * 1000)
    return None if given is None else int(given)
