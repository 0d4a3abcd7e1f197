"""Rows of a table's plain data files, without a reader of Delta."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tideline.table.schema import partition_in

_ADDRESS = "_tideline_address"
_MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
EXACT_TIMES = {"timestampFormat": f"{_MICROSECONDS}XXX", "timestampNTZFormat": _MICROSECONDS}
"""Options of `to_json`, which writes milliseconds without them."""


def read_data_files(
    spark: SparkSession, uri: str, files: Sequence[str], columns: StructType
) -> DataFrame:
    """The rows of some data files of a table.

    The files lie in the folders of several attempts, which Spark's own discovery of partitions
    takes for several tables. So the folders' names are read here.

    Args:
        uri: The table's address.
        files: Paths relative to it, not URL-encoded; at least one.
        columns: What is read; a column that a file does not have is null there.
    """
    values = {path: _named(path, columns.names) for path in files}
    named = next(iter(values.values())).keys()
    root = uri.rstrip("/")
    # Only a lookup by path does not take the folders' names for columns.
    stored = StructType([field for field in columns.fields if field.name not in named])
    reader = spark.read.schema(stored).option("recursiveFileLookup", "true")
    rows = reader.parquet(*(_literal(f"{root}/{path}") for path in files))
    return _with_named(rows, root, values, columns).select(*columns.names)


def _with_named(
    rows: DataFrame, root: str, values: Mapping[str, Mapping[str, str | None]], columns: StructType
) -> DataFrame:
    """Add what the folders' names say."""
    first = next(iter(values.values()))
    if all(found == first for found in values.values()):
        made = {name: F.lit(value).cast(columns[name].dataType) for name, value in first.items()}
        return rows.withColumns(made) if made else rows  # Connect's client takes no empty ones
    path = urlparse(root).path
    places = []
    for address in rows.inputFiles():
        relative = unquote(urlparse(address).path)[len(path) :].lstrip("/")
        places.append((address, *values[relative].values()))
    ddl = ", ".join(f"{name} STRING" for name in (_ADDRESS, *first))
    named = rows.sparkSession.createDataFrame(places, ddl)
    typed = named.select(_ADDRESS, *(F.col(n).cast(columns[n].dataType).alias(n) for n in first))
    return rows.withColumn(_ADDRESS, F.input_file_name()).join(F.broadcast(typed), _ADDRESS)


def _named(path: str, columns: Sequence[str]) -> dict[str, str | None]:
    """The partition columns of a file, by the names of its folders."""
    return {name: value for name, value in partition_in(path).items() if name in columns}


def _literal(path: str) -> str:
    """A path that Spark does not take for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
