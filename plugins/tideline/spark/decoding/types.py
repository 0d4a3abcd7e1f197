"""Types of columns, from JSON as Delta and Spark write it."""

from __future__ import annotations

from pyspark.sql.types import DataType, StructField, StructType


def spark_type(kind: object) -> DataType:
    """The type that a column's JSON names.

    Args:
        kind: `"long"`, or `{"type": "struct", "fields": [...]}`.
    """
    field = {"name": "c", "type": kind, "nullable": True, "metadata": {}}
    found: StructField = StructType.fromJson({"type": "struct", "fields": [field]}).fields[0]
    return found.dataType
