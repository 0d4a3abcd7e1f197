"""What the application reports when its job has failed, and which offsets Spark cannot read.

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

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tideline.kafka.broker_refusals import refusal_in_java
from tideline.kafka.kafka_settings import MSK_IAM_CLASSES
from tideline.launch.java import PREFIX as COMMITTER_PREFIX
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import (
    DecodeJob,
    DecodeResult,
    SparkJob,
    SparkResult,
    Unreadable,
)
from tideline.rules.unreadable import bisect
from tideline.secrecy import redacted_line
from tideline.spark.raw_rows import groups_to_read, read_ranges, to_table_rows
from tideline.spark.session import COMMIT_PROTOCOL
from tideline.texts import one_line

_log = logging.getLogger("tideline")

MOST_OFFSETS = 1000
"""Single offsets that one application finds; a later one finds the rest."""
_MOST_SECONDS = 900.0

_AT_A_RECORD = re.compile(
    r"\b(?:java\.lang\.(?:ArithmeticException|NumberFormatException|NegativeArraySizeException"
    r"|(?:Array|String)?IndexOutOfBoundsException)"
    r"|java\.time\.\w*DateTime\w*Exception"
    r"|java\.util\.regex\.PatternSyntaxException"
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
_OF_A_VALUE = re.compile(r"\[[A-Z_.]+\][^\[]*?SQLSTATE: 22\w{3}", re.DOTALL)
"""An error of Spark's about data (SQL's class 22): too large, no date, no index, no number."""
_IS_ABOUT_NAMES = re.compile("AMBIGUOUS_|COLUMN_ALREADY_EXISTS|UNRESOLVED_COLUMN|DATATYPE_MISMATCH")
"""Conditions of a plan that Spark will never take; others are about files that may be away."""
_OURS = re.escape(COMMIT_PROTOCOL)
_NO_LOGIN = "An internal error occurred while retrieving token from callback handler"
"""All that Kafka's Java client says where it has tried a token endpoint for long enough."""
_IS_LACKING = re.compile(rf"ClassNotFoundException\W+{_OURS}|{_OURS}.* must be loadable")
_MSK = re.escape(MSK_IAM_CLASSES)
_IS_LACKING_MSK_IAM = re.compile(
    rf"Class {_MSK}\S* could not be found|(ClassNotFoundException|No LoginModule found)\W.*{_MSK}"
)


def failed(spark: SparkSession | None, job: SparkJob, error: Exception) -> SparkResult:
    """The result of a failed job: refused for good, failed at records, or what may pass.

    Args:
        spark: The session that failed; None if there was none yet.
    """
    if refusal := refusal_in_java(str(error)):
        return SparkResult(error="AccessRefused", message=str(refusal))
    if lacking := _lacks_committer(error) or _lacks_msk_iam(error):
        return SparkResult(error="BadInput", message=lacking)
    if _is_ours(error):
        return SparkResult(error="TidelineError", message=_said(error))
    result = SparkResult(error="ServiceAway", message=_said(error))
    if spark is not None and (found := find_unreadable(spark, job, error)):
        return replace(result, error="UnreadableRecords", unreadable=found)
    return result


def failed_to_decode(_spark: SparkSession | None, job: DecodeJob, error: Exception) -> DecodeResult:
    """The result of a failed job that decodes: a plan that Spark refuses, or what may pass."""
    if lacking := _lacks_committer(error):
        return DecodeResult(error="BadInput", message=lacking)
    if isinstance(error, AnalysisException) and _IS_ABOUT_NAMES.match(error.getCondition() or ""):
        return DecodeResult(
            error="BadInput", message=f"Spark refuses to decode into these columns: {_said(error)}"
        )
    if (why := reason_of_values(error)) is not None:
        if job.plan.transform is None:
            return DecodeResult(error="TidelineError", message=f"a value of a record: {why}")
        text = f"decode.transform: {job.plan.transform} cannot be worked out for a record: {why}"
        return DecodeResult(error="BadInput", message=f"{text}. Nothing was decoded; correct it")
    return DecodeResult(error="ServiceAway", message=_said(error))


def reason_of_values(error: Exception) -> str | None:
    """What values have made of a job that will fail each time; None where it may pass."""
    if _is_ours(error):
        return _said(error)
    text = str(error)
    found = None if _MAY_PASS.search(text) else _OF_A_VALUE.search(text)
    return one_line(found[0]) if found else reason_at_a_record(text)


def _is_ours(error: Exception) -> bool:
    """Whether our own Python has failed, and neither Spark nor the way to it."""
    is_plain = isinstance(error, ArithmeticError | AssertionError | KeyError)
    return is_plain and not isinstance(error, PySparkException)


def _lacks_committer(error: Exception) -> str | None:
    """What to do where Spark has not been given our jar: it may be a server that others start."""
    if not _IS_LACKING.search(str(error)):
        return None
    return (
        f"this Spark lacks the class {COMMIT_PROTOCOL}: start it, or its Spark Connect server, with"
        f" the jar {COMMITTER_PREFIX}*.jar, which `make setup` puts beside the others for Spark"
    )


def _lacks_msk_iam(error: Exception) -> str | None:
    """What to do where Spark's client has not been given Amazon's classes for MSK IAM."""
    if not _IS_LACKING_MSK_IAM.search(str(error)):
        return None
    return (
        f"this Spark lacks the classes {MSK_IAM_CLASSES}.*: put aws-msk-iam-auth-*-all.jar"
        " (software.amazon.msk) beside the other jars for Spark (TIDELINE_SPARK_JARS)"
    )


def _said(error: Exception) -> str:
    """What failed and what lies at the bottom of it, without the stack between."""
    if _NO_LOGIN in str(error):
        return (
            "Spark's Kafka client got no token: its token endpoint is away, or is not trusted by"
            " Java (https.ca.location); the log of Spark's driver says which"
        )
    lines = str(error).split("\n")
    causes = [line.strip() for line in lines if line.strip().startswith("Caused by: ")]
    text = redacted_line(" ".join([*lines[:2], *causes[-1:]]), most=1000)
    return f"{type(error).__name__}: {text}"


def find_unreadable(spark: SparkSession, job: SparkJob, error: Exception) -> tuple[Unreadable, ...]:
    """The offsets of a failed job that will fail again; empty if the failure may pass."""
    if reason_at_a_record(str(error)) is None:
        return ()
    _log.warning("a record cannot be read; looking for its offset")
    until = time.monotonic() + _MOST_SECONDS
    try:
        found: list[Unreadable] = []
        groups = groups_to_read(job)
        for group in groups:
            # Only one of several is likely to be bad; a single one has just failed.
            if len(groups) > 1 and _read(spark, job, group) is None:
                continue
            found += bisect(
                group,
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


def reason_at_a_record(text: str) -> str | None:
    """Why a record cannot be read, from an error's text; None if the error may pass.

    Args:
        text: The whole text of Spark's error, with its causes: the deepest counts.
    """
    if _MAY_PASS.search(text):
        return None
    found = list(_AT_A_RECORD.finditer(text))
    if not found:
        return None
    return text[found[-1].start() :].split("\n", 1)[0].strip()[:200]
