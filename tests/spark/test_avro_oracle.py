"""The Avro decoder against the specification, over records of all kinds."""

import io

import fastavro
import pytest

from tests.worlds.avro_oracle import HOLLOW, SCHEMA, Records, judge
from tests.worlds.decoded_values import alike
from tests.worlds.raw_tables import plain_avro
from tideline.decoding.spark.avro_decoder import decode
from tideline.decoding.spark.fields import ERROR, ERROR_CLASS, FIELDS, PAYLOAD, SCHEMA_ID
from tideline.model.decoding import PLAIN_ID

BATCH = 10_000


def found_by_spark(spark, records):
    """What the decoder makes of records: classes, texts and fields."""
    rows = [(bytearray(data), PLAIN_ID) for data in records]
    given = spark.session.createDataFrame(rows, f"{PAYLOAD} BINARY, {SCHEMA_ID} INT")
    found = decode(given, plain_avro(SCHEMA)).select(FIELDS, ERROR_CLASS, ERROR).collect()
    return [(row[ERROR_CLASS], row[ERROR], row[FIELDS]) for row in found]


@pytest.mark.parametrize(
    "batches", [1, pytest.param(10, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_no_record_comes_out_otherwise_than_the_specification_says(spark, batches):
    """100,000 records with the slow ones; what a writer wrote, fastavro reads as well."""
    classes: dict[str | None, int] = {}
    for seed in range(batches):
        source = Records(seed)
        drawn = [source.next() for _ in range(BATCH)]
        records = [data for data, _ in drawn]
        for (data, is_whole), (name, error, fields) in zip(
            drawn, found_by_spark(spark, records), strict=True
        ):
            wanted, values = judge(data)
            classes[wanted] = classes.get(wanted, 0) + 1
            told = f"{data!r}: oracle {wanted} {values}, decoder {name} {error} {fields}"
            assert wanted == name, told
            assert (error is None) == (name is None), told
            assert name is not None or alike(values, fields), told
            if is_whole and name is None:
                assert_fastavro_agrees(data, values)
    assert len(classes) == 5, classes
    assert min(classes.values()) >= 5 * batches, classes


def assert_fastavro_agrees(data, values):
    """In what both tell in the same way."""
    read = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(SCHEMA), None)
    for name in ("paid", "i", "l", "s", "y", "maybe", "colour", "total", "exact", "day", "tags"):
        assert read[name] == values[name], (name, read[name], values[name])
    for name in ("counts", "lines", "nano", "at", "instant", "last"):
        assert read[name] == values[name], (name, read[name], values[name])
    assert not HOLLOW & values.keys()
