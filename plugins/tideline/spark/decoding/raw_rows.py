"""Read the raw table's rows from its plain data files, without a reader of Delta."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.launch.job import DecodeJob
from tideline.spark.decoding.coordinates import within
from tideline.table.schema import COLUMNS

_ADDRESS = "_address"


def read_raw_rows(spark: SparkSession, job: DecodeJob) -> DataFrame:
    """The raw rows at the plan's coordinates, in the raw table's columns.

    The files lie in the folders of several attempts, which Spark's own discovery of partitions
    takes for several tables. So the folders' names are read here.

    Args:
        spark: The job's session.
        job: With at least one raw file.
    """
    values = {path: _named(path) for path in job.raw_files}
    named = next(iter(values.values())).keys()
    stored = ", ".join(f"{n} {t}" for n, t in COLUMNS.items() if n not in named)
    root = job.raw_uri.rstrip("/")
    # Only a lookup by path does not take the folders' names for columns.
    reader = spark.read.schema(stored).option("recursiveFileLookup", "true")
    rows = reader.parquet(*(_literal(f"{root}/{path}") for path in job.raw_files))
    return _with_named(rows, root, values).select(*COLUMNS).transform(within(job.plan.ranges))


def _with_named(rows: DataFrame, root: str, values: Mapping[str, Mapping[str, str]]) -> DataFrame:
    """Add what the folders' names say."""
    first = next(iter(values.values()))
    if all(found == first for found in values.values()):
        made = {name: F.lit(value).cast(COLUMNS[name]) for name, value in first.items()}
        return rows.withColumns(made)
    path = urlparse(root).path
    places = []
    for address in rows.inputFiles():
        relative = unquote(urlparse(address).path)[len(path) :].lstrip("/")
        places.append((address, *values[relative].values()))
    ddl = ", ".join(f"{name} STRING" for name in (_ADDRESS, *first))
    named = rows.sparkSession.createDataFrame(places, ddl)
    typed = named.select(_ADDRESS, *(F.col(n).cast(COLUMNS[n]).alias(n) for n in first))
    return rows.withColumn(_ADDRESS, F.input_file_name()).join(F.broadcast(typed), _ADDRESS)


def _named(path: str) -> dict[str, str]:
    """The partition columns of a file, by the names of its folders."""
    folders = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {name: unquote(value) for name, _, value in folders if name in COLUMNS}


def _literal(path: str) -> str:
    """A path that Spark does not take for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
