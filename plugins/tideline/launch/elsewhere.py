"""A driver on another machine (deploy mode `cluster`): it meets the run in the table's store.

The driver reads no file of ours, and we read none of its: spark-submit sends application, package
and jars. Beside the attempt's folder lies one more, which is gone when spark-submit has ended:

    <table>/landed-<plan>-<token>.driver/_job.json       without secrets
    <table>/landed-<plan>-<token>.driver/_result.json    the driver's answer

Kafka's secrets reach the driver in a variable of its process (`SECRETS`): base64 of a JSON object,
by option of Spark's Kafka source. The job names the options, with empty values. On YARN, variables
are properties in a file that only spark-submit reads. On Kubernetes, they are references to secrets
of the site: a property would stand in plain text in the driver's pod.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from tideline.delta.delta_io import discard_folder
from tideline.documents import dump
from tideline.errors import ServiceAway
from tideline.kafka.kafka_settings import NO_SECRETS
from tideline.launch.jars import ahead_of_spark
from tideline.launch.job import read_job
from tideline.launch.programs import SECRETS
from tideline.launch.submit import (
    DRIVER_OPTIONS,
    DRIVER_PATH,
    DRIVER_PYTHON,
    Submission,
    defaults_file,
    spark_folder,
)
from tideline.launch.target import SPARK_SUBMIT, private_file
from tideline.model.spark_job import DecodeJob, SparkJob
from tideline.store.store_refusals import plain_text

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
    """
    job = read_job(job_path)
    secrets = {}
    if isinstance(job, SparkJob):
        uri, attempt = job.table_uri, job.folder
        secrets = {k: v for k, v in job.kafka_options.items() if k not in NO_SECRETS}
    else:
        output = job.decoded if isinstance(job, DecodeJob) else job.current
        uri, attempt = output.uri, output.folder
    folder = f"{attempt}.driver"
    address = f"{uri.rstrip('/')}/{folder}"
    sent = replace(job, result_path=f"{address}/{_RESULT}")
    if isinstance(sent, SparkJob):  # anybody with the store's key could read them there
        sent = replace(sent, kafka_options={**sent.kafka_options, **dict.fromkeys(secrets, "")})
    store = _Store(uri, options)
    store.write(f"{folder}/{_JOB}", dump(sent).encode())
    try:
        name = f"tideline {job.stream} {job.run_id}"
        yield RemoteJob(name, f"{address}/{_JOB}", _variables(secrets), job.store_options)
    finally:
        with suppress(ServiceAway):  # what remains is deleted by maintenance, as an old attempt is
            if answer := store.read(f"{folder}/{_RESULT}"):
                Path(job.result_path).write_bytes(answer)
            store.remove(folder)


def _variables(secrets: Mapping[str, str]) -> dict[str, str]:
    if not secrets:
        return {}
    # YARN writes variables into a shell script, and expands what looks like one.
    return {SECRETS: base64.b64encode(json.dumps(secrets).encode()).decode()}


class _Store:
    """The folder of a table; `options` are delta-rs' of its store."""

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
            discard_folder(self._uri, self._options, folder)

    @contextmanager
    def _reachable(self) -> Iterator[PyFileSystem]:
        try:
            yield PyFileSystem(DeltaStorageHandler(self._uri, self._options))
        except (DeltaError, OSError) as error:
            raise ServiceAway(
                f"table {self._uri}: the folder for the driver's job cannot be used:"
                f" {type(error).__name__}: {plain_text(error)}; no position has moved, run again"
                " when its store is back",
                table=self._uri,
            ) from error


_ONCE = {
    # spark-submit ends when the application has ended, and with its status.
    "spark.yarn.submit.waitAppCompletion": "true",
    "spark.kubernetes.submission.waitAppCompletion": "true",
    # An attempt has one driver: a second one would write into the same folder (R5).
    "spark.yarn.maxAppAttempts": "1",
}


def on_cluster(submission: Submission, remote: RemoteJob, folder: Path) -> Submission:
    """The same application, with a driver on the cluster.

    Args:
        folder: For a file with secrets; gone with the job.
    """
    of_here = (DRIVER_PYTHON, DRIVER_OPTIONS)
    conf = {key: value for key, value in submission.conf.items() if key not in of_here}
    store = {f"spark.hadoop.{key}": value for key, value in remote.store_options.items()}
    if first := ahead_of_spark([*map(Path, submission.jars)]):
        conf[DRIVER_PATH] = os.pathsep.join([*(jar.name for jar in first), conf[DRIVER_PATH]])
    secrets = dict(remote.secrets)
    if submission.store is not None:
        secrets |= submission.store.environment()
    return replace(
        submission,
        arguments=(remote.address,),
        conf={**conf, **_ONCE, **store},
        environment=_without_python(submission),
        options={**submission.options, "--deploy-mode": "cluster", "--name": remote.name},
        properties_file=_for_yarn(secrets, folder) if submission.master == "yarn" else "",
    )


def _without_python(submission: Submission) -> dict[str, str]:
    """The variables without our Python, which YARN would ask the cluster for."""
    kept = {k: v for k, v in submission.environment.items() if not k.startswith("PYSPARK_")}
    if submission.binary == SPARK_SUBMIT:  # pip's; it asks the cluster's Python for its folder
        kept["SPARK_HOME"] = spark_folder()
    return kept


def _for_yarn(secrets: Mapping[str, str], folder: Path) -> str:
    """A file of properties that give the driver its variables; empty if it needs none.

    Spark then reads no other file of properties, so the site's own come along.
    """
    if not secrets:
        return ""
    site = defaults_file()
    own = (f"spark.yarn.appMasterEnv.{name}={_escaped(v)}\n" for name, v in secrets.items())
    return private_file(folder, "spark.properties", "".join([site, "\n", *own]).encode())


def _escaped(value: str) -> str:
    """As a value in a file of Java properties, on one line and in ASCII.

    Whatever Java could read otherwise is its number (`java.util.Properties.load`).
    """
    units = value.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(
        chr(unit) if " " < chr(unit) <= "~" and unit != ord("\\") else f"\\u{unit:04x}"
        for unit in pairs
    )
