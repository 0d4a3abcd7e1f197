"""A Spark of this process that runs no job: it only says whether it understands something."""

from __future__ import annotations

import logging
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tideline.decoding.spark.expectations import refusals
from tideline.decoding.spark.rows import typed_type
from tideline.launch.java import find_java
from tideline.launch.programs import log_settings
from tideline.model.decoding import DecodePlan
from tideline.spark.session import PINNED

_SETTINGS = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.session.timeZone": "UTC",
    **PINNED,
}


class LookingSpark:
    """Says which conditions Spark refuses; started at the first question."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._known: dict[tuple[object, ...], tuple[tuple[int, str], ...]] = {}

    def refused(self, plan: DecodePlan, *, knows_columns: bool) -> tuple[tuple[int, str], ...]:
        """Which of a plan's conditions cannot be used, by their numbers, and why.

        Args:
            knows_columns: Whether the plan has its parts; else only the grammar counts.

        Raises:
            BadInput: There is no Java.
        """
        columns = typed_type(plan) if knows_columns else None
        asked = (plan.expect, None if columns is None else columns.json())
        if asked not in self._known:  # the streams of a fleet ask the same
            if self._session is None:
                self._session = _start()
            self._known[asked] = tuple(refusals(self._session, columns, plan.expect))
        return self._known[asked]

    def close(self) -> None:
        """End it, and its JVM."""
        if self._session is not None:
            self._session.stop()
            gateway: Any = SparkContext._gateway
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
            SparkContext._gateway = SparkContext._jvm = None


def _start() -> SparkSession:
    options = " ".join(f"-D{name}={value}" for name, value in log_settings().items())
    settings = {**_SETTINGS, "spark.driver.extraJavaOptions": options}
    given = [part for k, v in settings.items() for part in ("--conf", f"{k}={v}")]
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join(given)} pyspark-shell"
    os.environ.pop("SPARK_REMOTE", None)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # what is refused
    try:
        with _what_java_says():
            return SparkSession.builder.getOrCreate()
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _what_java_says() -> Iterator[None]:
    """Keep a new JVM's warnings about itself; they are told if it does not start."""
    ours = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(ours, kept.read())
            raise
        finally:
            os.dup2(ours, 2)
            os.close(ours)
