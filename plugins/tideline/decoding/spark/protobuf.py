"""Protobuf, by Google's own parser (upb) in Python workers.

Records go to the workers and come back in Arrow batches. `protobuf_records` is sent along by value:
a worker needs pyarrow and protobuf, and nothing of ours.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from tideline.decoding.schemas.changes import nested_names
from tideline.decoding.schemas.protobuf import read_protobuf
from tideline.decoding.schemas.shapes import Enum, List, Map, Record, Scalar, Shape, struct_type
from tideline.decoding.spark import protobuf_columns, protobuf_records
from tideline.decoding.spark.fields import (
    ERROR,
    ERROR_CLASS,
    FIELDS,
    PAYLOAD,
    SCHEMA_ID,
    spark_type,
)
from tideline.model.decoding import PartPlan


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode Protobuf; what comes and goes is said in `formats`."""
    fields = spark_type(struct_type((c.name, c.type) for c in part.reader.columns))
    told = [StructField(name, StringType()) for name in (ERROR_CLASS, ERROR)]
    added = [StructField(FIELDS, fields), *told]
    known = [StructField(f.name, f.dataType) for f in rows.schema.fields]
    for module in (protobuf_columns, protobuf_records):
        cast(Any, cloudpickle).register_pickle_by_value(module)
    return rows.mapInArrow(_work(part), StructType([*known, *added]))


def _work(part: PartPlan) -> Callable[[Iterable[Any]], Iterator[Any]]:
    labels = {c.field: c.name for c in part.reader.columns}
    record = read_protobuf(part.reader.text)
    columns = [(f.number, labels[f.name], _column(f.shape)) for f in record.fields]
    writers = {}
    for writer in part.writers:
        told = json.loads(writer.text)
        path = {name: tuple(indexes) for name, indexes in told["messages"].items()}
        writers[writer.schema_id] = (base64.b64decode(told["files"]), told["message"], path)
    is_framed = part.framing == "confluent"
    return protobuf_records.work(columns, writers, PAYLOAD, SCHEMA_ID, is_framed=is_framed)


def _column(shape: Shape) -> protobuf_columns.Column:
    """A shape in plain tuples."""
    match shape:
        case Scalar(kind):
            return (kind,)
        case Enum():
            return ("enum",)
        case List(item):
            return ("list", _column(item))
        case Map(value):
            return ("map", _column(value))
        case Record(fields):
            labels = nested_names(f.name for f in fields)
            inner = zip(fields, labels, strict=True)
            return ("record", [(f.number, label, _column(f.shape)) for f, label in inner])
    raise AssertionError(f"no shape of Protobuf: {shape}")
