"""A job file in, a result file out: files of this machine, or addresses in the table's store.

A driver that the cluster started shares no disk with the run (`launch.elsewhere`).
"""

from __future__ import annotations

import base64
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from pyspark.sql import SparkSession

from tideline.errors import BadInput
from tideline.launch.programs import SECRETS
from tideline.model.spark_job import SparkJob

Job = TypeVar("Job")


def is_elsewhere(address: str) -> bool:
    """Whether a job file is an address that Spark's file systems read, and no path."""
    return "://" in address


def read_file(address: str, spark: SparkSession | None) -> bytes:
    """The content of a job file.

    Args:
        address: A path, or an address, which needs a session.
        spark: This application's.
    """
    if spark is None or not is_elsewhere(address):
        return Path(address).read_bytes()
    java, path, files = _opened(address, spark)
    return str(java.org.apache.commons.io.IOUtils.toString(files.open(path), "UTF-8")).encode()


def remove_file(address: str) -> None:
    """Remove a job file of this machine; one in a store has no secrets, and its run removes it."""
    if not is_elsewhere(address):
        with suppress(OSError):
            Path(address).unlink(missing_ok=True)


def write_file(address: str, content: str, spark: SparkSession | None) -> None:
    """Write a result; nobody sees half of a file of this machine."""
    if spark is not None and is_elsewhere(address):
        _, path, files = _opened(address, spark)
        out = files.create(path, True)
        out.write(bytearray(content.encode()))
        out.close()
        return
    draft = Path(f"{address}.{os.getpid()}")
    draft.write_text(content)
    draft.replace(address)


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


def _opened(address: str, spark: SparkSession) -> tuple[Any, Any, Any]:
    """The JVM, Hadoop's path of an address, and its file system."""
    inside = cast(Any, spark)
    java = inside._jvm
    path = java.org.apache.hadoop.fs.Path(address)
    return java, path, path.getFileSystem(inside._jsc.hadoopConfiguration())
