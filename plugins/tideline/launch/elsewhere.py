"""A driver on another machine: its job and its result travel through the table's own store.

With deploy mode `cluster` the driver reads no file of ours, and we read none of its. Beside the
attempt's folder lies one more, which is gone when spark-submit has ended:

    <table>/landed-<plan>-<token>.driver/_job.json       without secrets
    <table>/landed-<plan>-<token>.driver/_result.json    the driver's answer

Kafka's secrets reach the driver in a variable of its process (`SECRETS`): base64 of a JSON object,
by option of Spark's Kafka source. The job names the options, with empty values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from tideline.documents import dump, load
from tideline.errors import ServiceAway
from tideline.kafka_io.settings import NO_SECRETS
from tideline.launch.job import DecodeJob, SparkJob
from tideline.launch.programs import DECODE, SECRETS, application_for
from tideline.table.create import TableFolder

_JOB, _RESULT = "_job.json", "_result.json"


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """What the driver gets.

    Args:
        name: Of the application, for people.
        address: Of the job file; the application's argument.
        secrets: Variables of its process.
        store_options: Properties of the file system that holds the job.
    """

    name: str
    address: str
    secrets: Mapping[str, str] = field(repr=False)
    store_options: Mapping[str, str]


@contextmanager
def job_elsewhere(job_path: str, options: Mapping[str, str]) -> Iterator[RemoteJob]:
    """Put a job where its driver finds it; afterwards the result lies where the job says.

    Args:
        job_path: The job file of this machine.
        options: delta-rs options of the table's store.

    Raises:
        ServiceAway: The store cannot be reached.
    """
    text = Path(job_path).read_bytes()
    where = f"job file {job_path}"
    job: SparkJob | DecodeJob
    if application_for(job_path) == DECODE:
        job = load(DecodeJob, text, where)
        uri, attempt, kafka = job.decoded.uri, job.decoded.folder, {}
    else:
        job = load(SparkJob, text, where)
        uri, attempt, kafka = job.table_uri, job.folder, dict(job.kafka_options)
    folder = f"{attempt}.driver"
    address = f"{uri.rstrip('/')}/{folder}"
    told = replace(job, result_path=f"{address}/{_RESULT}")
    if isinstance(told, SparkJob):
        told = replace(told, kafka_options={**kafka, **dict.fromkeys(_secret(kafka), "")})
    store = _Store(uri, options)
    store.write(f"{folder}/{_JOB}", dump(told).encode())
    try:
        name = f"tideline {job.stream} {job.run_id}"
        yield RemoteJob(name, f"{address}/{_JOB}", _variables(kafka), job.store_options)
    finally:
        with suppress(ServiceAway):  # what remains is deleted by maintenance, as an old attempt is
            if answer := store.read(f"{folder}/{_RESULT}"):
                Path(job.result_path).write_bytes(answer)
            store.remove(folder)


def _secret(kafka: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in kafka.items() if name not in NO_SECRETS}


def _variables(kafka: Mapping[str, str]) -> dict[str, str]:
    secrets = _secret(kafka)
    if not secrets:
        return {}
    # YARN writes variables into a shell script, and expands what looks like one.
    return {SECRETS: base64.b64encode(json.dumps(secrets).encode()).decode()}


class _Store:
    """The folder of a table.

    Args:
        uri: Its address.
        options: delta-rs options of its store.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = dict(options)

    def write(self, path: str, content: bytes) -> None:
        # Without a buffer of its own, pyarrow hands delta-rs an object that it does not take.
        with self._reachable() as files, files.open_output_stream(path, buffer_size=65_536) as out:
            out.write(content)

    def read(self, path: str) -> bytes | None:
        """A whole JSON document; None if there is none, or its writer died over it."""
        with self._reachable() as files:
            try:
                content = bytes(files.open_input_file(path).read())
            except FileNotFoundError:
                return None
        try:
            json.loads(content)
        except ValueError:
            return None
        return content

    def remove(self, folder: str) -> None:
        with self._reachable():
            TableFolder(self._uri, self._options).discard(folder)

    @contextmanager
    def _reachable(self) -> Iterator[PyFileSystem]:
        try:
            yield PyFileSystem(DeltaStorageHandler(self._uri, self._options))
        except (DeltaError, OSError) as error:
            raise ServiceAway(
                f"table {self._uri}: the folder for the driver's job cannot be used:"
                f" {type(error).__name__}: {error}; no position has moved, run again when its store"
                " is back",
                table=self._uri,
            ) from error
