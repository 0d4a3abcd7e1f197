"""What the Spark applications share: a job file in, a result file out.

Both are files of this machine, or addresses in the table's store: a driver that the cluster started
shares no disk with the run (`launch.elsewhere`).
"""

from __future__ import annotations

import base64
import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from pyspark.sql import SparkSession

from tideline.documents import dump, load
from tideline.errors import BadInput, TidelineError
from tideline.failpoints import reach
from tideline.launch.programs import SECRETS
from tideline.model.spark_job import (
    DecodeJob,
    DecodeResult,
    SparkJob,
    SparkResult,
)
from tideline.spark.session import build_session, settle
from tideline.spark.stall_limit import StallLimit

Job = TypeVar("Job", SparkJob, DecodeJob)
Result = TypeVar("Result", SparkResult, DecodeResult)


@dataclass(frozen=True, slots=True)
class Host:
    """The process that runs an application; by default one of its own.

    Args:
        died: Says what has ended Spark, if it has ended: the error itself only says that it has.
        leave: Ends the process although the job does not end.
    """

    died: Callable[[], str | None] = lambda: None
    leave: Callable[[], object] = lambda: os._exit(1)


ALONE = Host()


def run_job(
    job_file: str,
    kinds: tuple[type[Job], type[Result]],
    execute: Callable[[SparkSession, Job], Result],
    failed: Callable[[SparkSession | None, Job, Exception], Result],
    spark: SparkSession | None,
    host: Host,
) -> Result:
    """Run a job file to its result, good or bad; never raises for a job that fails.

    Args:
        job_file: Path of the job, or its address if the driver is on another machine.
        kinds: Classes of the job and of its result.
        execute: Does the job.
        failed: The result of a job that failed by an error that is not ours.
        spark: A session that is there already.
        host: The process that runs it.
    """
    kind, of_result = kinds
    if _is_elsewhere(job_file):
        spark = build_session(None)
    job = load(kind, _read(job_file, spark), f"job file {job_file}")
    _remove(job_file)  # it holds secrets, and nobody reads it again
    limit = StallLimit(job.stall_seconds)

    def give_up() -> None:
        lost = of_result(error="ServiceAway", message=limit.message or "")
        _write(job.result_path, dump(lost), spark)
        host.leave()

    try:
        job = with_secrets(job)
        if spark is None:
            spark = build_session(f"tideline {job.stream} {job.run_id}")
        else:
            settle(spark)
        for key, value in job.store_options.items():
            spark.conf.set(key, value)  # Spark passes a session's settings on to file systems
        reach("spark:started")
        limit.start(spark, give_up)
        result = execute(spark, job)
    except TidelineError as error:
        result = of_result(error=type(error).__name__, message=error.message)
    except Exception as error:
        with suppress(OSError):  # the log's disk may be full
            traceback.print_exc()
        cause = limit.message or host.died()
        lost = of_result(error="ServiceAway", message=cause or "")
        result = lost if cause else failed(spark, job, error)
    finally:
        limit.stop()
    _write(job.result_path, dump(result), spark)
    reach("spark:answered")
    return result


def with_secrets(job: Job) -> Job:
    """A job with the options that came in a variable of this process; the job leaves them empty.

    Raises:
        BadInput: The variable lacks one of them.
    """
    if not isinstance(job, SparkJob):
        return job
    wanted = [name for name, value in job.kafka_options.items() if not value]
    if not wanted:
        return job
    text = os.environ.get(SECRETS) or "{}"
    try:
        # Plain JSON is what a site puts into a secret by hand; we send base64 (`launch.elsewhere`).
        given = json.loads(text if text.startswith("{") else base64.b64decode(text))
        found = {name: str(given[name]) for name in wanted}
    except (ValueError, KeyError, TypeError):
        raise BadInput(
            f"the driver's variable {SECRETS} lacks {', '.join(wanted)}; it has to be a JSON object"
            " of options of Spark's Kafka source, perhaps in base64. On Kubernetes, set"
            f" spark.kubernetes.driver.secretKeyRef.{SECRETS}",
            variable=SECRETS,
        ) from None
    return replace(job, kafka_options={**job.kafka_options, **found})


def _is_elsewhere(address: str) -> bool:
    """Whether a file is an address that Spark's file systems read, and no path."""
    return "://" in address


def _read(address: str, spark: SparkSession | None) -> bytes:
    if spark is None or not _is_elsewhere(address):
        return Path(address).read_bytes()
    java, path, files = _opened(address, spark)
    return str(java.org.apache.commons.io.IOUtils.toString(files.open(path), "UTF-8")).encode()


def _remove(address: str) -> None:
    """Remove a job file of this machine; one in a store has no secrets, and its run removes it."""
    if not _is_elsewhere(address):
        with suppress(OSError):
            Path(address).unlink(missing_ok=True)


def _write(address: str, content: str, spark: SparkSession | None) -> None:
    """Write a result; nobody sees half of a file of this machine."""
    if spark is not None and _is_elsewhere(address):
        _, path, files = _opened(address, spark)
        out = files.create(path, True)
        out.write(bytearray(content.encode()))
        out.close()
        return
    draft = Path(f"{address}.{os.getpid()}")
    try:
        draft.write_text(content)
        draft.replace(address)
    except FileNotFoundError:  # the run was killed, and another one has removed its folder
        print(f"nobody waits for a result at {address}", file=sys.stderr)


def _opened(address: str, spark: SparkSession) -> tuple[Any, Any, Any]:
    """The JVM, Hadoop's path of an address, and its file system."""
    inside = cast(Any, spark)
    java = inside._jvm
    path = java.org.apache.hadoop.fs.Path(address)
    return java, path, path.getFileSystem(inside._jsc.hadoopConfiguration())
