"""Finds a secret in bytes, files, processes and a database, however it is written down."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import threading
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote

import psutil

_EVERY_SECONDS = 0.05


def _forms(secret: str) -> set[bytes]:
    """A secret as it stands, in JSON, in a URL, in base64 at each of three positions, in hex."""
    raw = secret.encode()
    forms = {
        raw,
        json.dumps(secret)[1:-1].encode(),
        quote(secret, safe="").encode(),
        raw.hex().encode(),
    }
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw)
        # The first and the last group also depend on what stands around the secret.
        forms.add(text[4 if before else 0 : len(text) - len(text) % 4 - 4])
    forms |= {form.replace(b"+", b"-").replace(b"/", b"_") for form in forms}
    return forms


class Canaries:
    """Secrets by name.

    Args:
        secrets: At least 12 characters each, so that nothing else looks like them.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        assert all(len(secret) >= 12 for secret in secrets.values())
        self._forms = {name: _forms(secret) for name, secret in secrets.items()}
        every = sorted({form for forms in self._forms.values() for form in forms})
        self._any = re.compile(b"|".join(map(re.escape, every)))

    def within(self, content: bytes) -> set[str]:
        """Names of the secrets that stand in it."""
        found = set(self._any.findall(content))
        return {name for name, forms in self._forms.items() if forms & found}

    def within_file(self, file: Path) -> set[str]:
        """Names of the secrets that stand in a file, packed or not; none if the file is gone."""
        try:
            content = file.read_bytes()
        except OSError:
            return set()
        return set().union(*map(self.within, _unpacked(content)))


def _unpacked(content: bytes) -> Iterator[bytes]:
    yield content
    if content[:2] == b"\x1f\x8b":
        with suppress(OSError, EOFError, zlib.error):
            yield gzip.decompress(content)
    if content[:2] == b"PK":
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as packed:
            yield from (packed.read(name) for name in packed.namelist())


@dataclass
class Findings:
    """What was looked at, and what was found there."""

    looked_at: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Number of pieces by place: none looked at is no proof."""
    found: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """`secret, where exactly` by place."""

    def note(self, place: str, where: str, secrets: set[str]) -> None:
        """Note that a piece of a place was looked at."""
        self.looked_at[place] += 1
        if secrets:
            self.found[place] |= {f"{secret}, {where}" for secret in secrets}

    def table(self) -> str:
        """A line for each place."""
        lines = [
            f"{place:44} {count:7} looked at, {len(self.found.get(place, ())):3} found"
            for place, count in sorted(self.looked_at.items())
        ]
        return "\n".join(lines)


def search_folder(canaries: Canaries, findings: Findings, place: str, folder: Path) -> None:
    """Look at every file of a folder, and at its path."""
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            hits = canaries.within_file(file) | canaries.within(str(file).encode())
            findings.note(place, str(file.relative_to(folder)), hits)


class ProcessWatch(threading.Thread):
    """Looks at arguments and environment of this process's descendants, again and again.

    Args:
        canaries: What it looks for.
        findings: Gets what it finds.
        mark: Stands in the environment of processes that left their parents, as drivers do.
    """

    def __init__(self, canaries: Canaries, findings: Findings, mark: str) -> None:
        super().__init__(daemon=True)
        self._mark = mark.encode()
        self._canaries = canaries
        self._findings = findings
        self._seen: set[tuple[int, float, int]] = set()
        self._ended = threading.Event()

    def run(self) -> None:
        """Look until `stop` is called."""
        while not self._ended.wait(_EVERY_SECONDS):
            for process in psutil.process_iter():
                with suppress(psutil.Error, OSError):
                    self._look(process)

    def stop(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()

    def _look(self, process: psutil.Process) -> None:
        arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        key = (process.pid, process.create_time(), hash(arguments))  # an exec changes them
        if key in self._seen:
            return
        self._seen.add(key)
        environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        if self._mark not in environment and not _is_below_us(process):
            return  # other tests have secrets of their own, maybe the same
        kind = next(
            filter(None, map(kind_of, _with_ancestors(process, arguments))), "other processes"
        )
        shown = arguments.replace(b"\0", b" ")[:60].decode(errors="replace")
        self._findings.note("arguments of processes", shown, self._canaries.within(arguments))
        hits = self._canaries.within(environment)
        self._findings.note(f"environment of {kind}", shown, hits)


def _is_below_us(process: psutil.Process) -> bool:
    return any(parent.pid == os.getpid() for parent in process.parents())


_KINDS = (
    ("the services themselves", rb"s3proxy|azurite|fake-gcs|kafka\.Kafka|kafka\.server|/postgres"),
    ("Spark Connect's server", rb"SparkConnectServer"),
    ("Spark's driver", rb"org\.apache\.spark|spark-class|spark-submit"),
    ("Spark's Python", rb"local_driver|ingest_range|decode_rows|pyspark"),
    ("a person's commands", rb"-m\0tideline"),
    ("Airflow's processes", rb"airflow"),
)


def kind_of(arguments: bytes) -> str | None:
    """What a process is, for the table; None if it does not say."""
    return next((kind for kind, pattern in _KINDS if re.search(pattern, arguments)), None)


def _with_ancestors(process: psutil.Process, arguments: bytes) -> Iterator[bytes]:
    """The arguments of a process, then of those that it has its environment from."""
    yield arguments
    for parent in takewhile(lambda parent: parent.pid != os.getpid(), process.parents()):
        yield "\0".join(parent.cmdline()).encode()


@contextmanager
def watched(canaries: Canaries, findings: Findings, mark: str) -> Iterator[None]:
    """Watch processes meanwhile; `mark` as for `ProcessWatch`."""
    watch = ProcessWatch(canaries, findings, mark)
    watch.start()
    try:
        yield
    finally:
        watch.stop()
