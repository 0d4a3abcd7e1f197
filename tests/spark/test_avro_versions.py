"""What the merged Avro reader makes of records of every version, in a real Spark."""

import io
import json

import fastavro
import pytest

from tests.worlds.avro_versions import CASES
from tideline.decoding.schemas.merging import reader_schema
from tideline.decoding.spark.judging import decode
from tideline.model.decoding import PartPlan, WriterSchema


def encoded(schema, value):
    """A record's bytes."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


@pytest.mark.parametrize("case", CASES)
def test_every_version_is_read(spark, case):
    """With its values where they belong, and nulls for what it lacks."""
    versions = CASES[case]
    writers = [
        WriterSchema(n, json.dumps(schema), "", f"orders-value:{n}")
        for n, (schema, _, _) in enumerate(versions)
    ]
    merged = reader_schema("value", "avro", writers, None)
    part = PartPlan("value", "avro", "confluent", "s", merged.writers, (), (), merged.reader)
    rows = [(encoded(schema, value), n) for n, (schema, value, _) in enumerate(versions)]
    frame = spark.session.createDataFrame(rows, "payload binary, schema_id int")
    read = sorted(decode(frame, part).collect(), key=lambda row: row["schema_id"])
    nothing = {c.name: None for c in merged.reader.columns}
    for row, (_, _, wanted) in zip(read, versions, strict=True):
        assert row["error"] is None
        assert row["fields"].asDict(recursive=True) == nothing | wanted
