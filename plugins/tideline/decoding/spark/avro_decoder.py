"""Avro, by our own decoder in Spark's JVM (`spark/java/AvroDecoder.java`, ADR 53).

It is given the schemas as the plan has them: a writer's calls each field and type by the reader's
name, so the decoder needs no rules about names.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from tideline.decoding.schemas.avro import avro_text
from tideline.decoding.schemas.shapes import Record
from tideline.decoding.spark.fields import SCHEMA_ID, by_decoder
from tideline.model.decoding import PartPlan


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode Avro; what comes and goes is said in `fields`."""
    specification = {
        "reader": part.reader.text or avro_text(Record(())),
        "columns": [column.field for column in part.reader.columns],
        "writers": [{"id": w.schema_id, "text": w.text} for w in part.writers],
    }
    return by_decoder(rows, part, specification, SCHEMA_ID)
