"""Which offsets Spark cannot read, found by reading ever smaller parts of the ranges.

A failed application says what went wrong and not at which offset. Of a failure that comes again,
the offsets are found inside the same application: halves are read, without writing, until single
offsets are left, and each of these has to fail twice. What may pass is never narrowed down.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from tideline.launch.job import SparkJob
from tideline.model.offsets import CoordinateRange
from tideline.model.unreadable import Unreadable
from tideline.rules.unreadable import narrow
from tideline.spark.source import read_layers, read_ranges
from tideline.spark.transforms import to_table_rows

MOST_OFFSETS = 1000
"""Single offsets that one application finds; a later one finds the rest."""
_MOST_SECONDS = 900.0

_AT_A_RECORD = re.compile(
    r"\b(?:java\.lang\.(?:ArithmeticException|NumberFormatException|NegativeArraySizeException"
    r"|(?:Array|String)?IndexOutOfBoundsException)"
    r"|java\.time\.\w*DateTime\w*Exception"
    r"|java\.nio\.Buffer(?:Under|Over)flowException"
    r"|org\.apache\.spark\.Spark(?:Arithmetic|DateTime|Upgrade)Exception"
    r"|org\.apache\.kafka\.common\.(?:errors\.(?:CorruptRecord|RecordDeserialization)Exception"
    r"|InvalidRecordException)"
    r"|org\.apache\.kafka\.common\.KafkaException: (?:Received exception when fetching the next"
    r" record|Encountered corrupt message when fetching))"
)
"""Errors that the content of a record or a batch causes. Anything else may pass."""

_MAY_PASS = re.compile(
    r"OutOfMemoryError|TimeoutException|DisconnectException|NetworkException|ConnectException"
    r"|ExecutorLost|SparkContext was shut down|InterruptedException"
)

_log = logging.getLogger("tideline")


def reason_at_a_record(text: str) -> str | None:
    """Why a record cannot be read, from an error's text; None if the error may pass.

    Args:
        text: The whole text of Spark's error, with its causes.

    Returns:
        Class and message of the error that lies deepest, at most 200 characters.
    """
    if _MAY_PASS.search(text):
        return None
    found = list(_AT_A_RECORD.finditer(text))
    if not found:
        return None
    return text[found[-1].start() :].split("\n", 1)[0].strip()[:200]


def find_unreadable(spark: SparkSession, job: SparkJob, error: Exception) -> tuple[Unreadable, ...]:
    """The offsets of a failed job that will fail again; empty if the failure may pass.

    Args:
        spark: The session that failed.
        job: What it was to read.
        error: How it failed.
    """
    if reason_at_a_record(str(error)) is None:
        return ()
    _log.warning("a record cannot be read; looking for its offset")
    until = time.monotonic() + _MOST_SECONDS
    try:
        found: list[Unreadable] = []
        layers = read_layers(job)
        for layer in layers:
            if len(layers) > 1 and _read(spark, job, layer) is None:
                continue
            found += narrow(
                layer,
                lambda part: _read(spark, job, part),
                most=MOST_OFFSETS - len(found),
                is_late=lambda: time.monotonic() > until,
            )
    except Exception as passing:
        _log.warning("not found: %s", str(passing).split("\n", 1)[0][:300])
        return ()
    return tuple(found)


def _read(spark: SparkSession, job: SparkJob, part: Sequence[CoordinateRange]) -> str | None:
    """Read every column of a part and drop it."""
    wanted = replace(job, ranges=tuple(part), unreadable=())
    rows = read_ranges(spark, wanted).transform(to_table_rows(wanted.ranges, job.plan_id))
    try:
        rows.write.format("noop").mode("overwrite").save()
    except Exception as error:
        reason = reason_at_a_record(str(error))
        if reason is None:
            raise
        return reason
    return None
