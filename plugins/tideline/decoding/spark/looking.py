"""A Spark of this process that runs no job: it only says whether it understands something."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tideline.decoding.spark.expectations import refused_conditions
from tideline.decoding.spark.row_columns import typed_type
from tideline.launch.gateway import Jvm
from tideline.model.decoding import DecodePlan
from tideline.spark.session import PINNED, build_session


class LookingSpark:
    """Says which conditions Spark refuses; started at the first question."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._after = ExitStack()
        self._known: dict[tuple[object, ...], tuple[tuple[int, str], ...]] = {}

    def refused(self, plan: DecodePlan, *, knows_columns: bool) -> tuple[tuple[int, str], ...]:
        """Which of a plan's conditions cannot be used, by their numbers, and why.

        Args:
            knows_columns: Whether the plan has its parts; else only the grammar counts.
        """
        columns = typed_type(plan) if knows_columns else None
        asked = (plan.expect, None if columns is None else columns.json())
        if asked not in self._known:  # the streams of a fleet ask the same
            if self._session is None:
                self._session = self._started()
            self._known[asked] = tuple(refused_conditions(self._session, columns, plan.expect))
        return self._known[asked]

    def close(self) -> None:
        """End it, and its JVM."""
        self._session = None
        self._after.close()

    def _started(self) -> SparkSession:
        """A session in a JVM of ours, as a warm driver has; Spark's jars are enough for it."""
        before = dict(os.environ)
        os.environ.pop("SPARK_REMOTE", None)
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # what is refused
        words = self._after.enter_context(TemporaryFile())  # noqa: SIM115 - closed by `close`
        try:
            jvm = Jvm("local[1]", is_plain=True, words=words)
            self._after.callback(_end, jvm)
            jvm.open_gateway()
            session = build_session("tideline", {"spark.sql.session.timeZone": "UTC", **PINNED})
            self._after.callback(session.stop)
            return session
        except BaseException:
            words.seek(0)
            os.write(2, words.read())
            raise
        finally:
            os.environ.clear()
            os.environ.update(before)


def _end(jvm: Jvm) -> None:
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    jvm.end()
    jvm.tidy(has_worked=False)
