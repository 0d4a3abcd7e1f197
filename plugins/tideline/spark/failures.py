"""What the application reports when its job has failed."""

from __future__ import annotations

import re
from dataclasses import replace

from pyspark.sql import SparkSession

from tideline.kafka_io.mechanisms import MSK_IAM_CLASSES
from tideline.kafka_io.refusals import refusal_in_java
from tideline.launch.committer import PREFIX as COMMITTER_PREFIX
from tideline.launch.job import DecodeJob, DecodeResult, SparkJob, SparkResult
from tideline.spark.session import COMMIT_PROTOCOL
from tideline.spark.unreadable import find_unreadable

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
        job: What it was to read.
        error: How it failed.
    """
    if refusal := refusal_in_java(str(error)):
        return SparkResult(error="AccessRefused", message=str(refusal))
    if lacking := _lacks_committer(error) or _lacks_msk_iam(error):
        return SparkResult(error="BadInput", message=lacking)
    result = SparkResult(error="ServiceAway", message=_said(error))
    if spark is not None and (found := find_unreadable(spark, job, error)):
        return replace(result, error="UnreadableRecords", unreadable=found)
    return result


def failed_to_decode(
    _spark: SparkSession | None, _job: DecodeJob, error: Exception
) -> DecodeResult:
    """The result of a failed job that decodes; it may pass.

    Args:
        error: How it failed.
    """
    if lacking := _lacks_committer(error):
        return DecodeResult(error="BadInput", message=lacking)
    return DecodeResult(error="ServiceAway", message=_said(error))


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
    return f"{type(error).__name__}: {' '.join([*lines[:2], *causes[-1:]])[:1000]}"
