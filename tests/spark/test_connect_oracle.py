"""The decoder of Kafka Connect's JSON against the rules once more, over payloads of all kinds."""

import json
import math
from random import Random

import pytest
from pyspark.sql import functions as F

from tests.worlds.connect_oracle import KINDS, SCHEMA, Payloads, judge
from tideline.decoding.schemas.merging import reader_schema
from tideline.decoding.spark.fields import ERROR_CLASS, FIELDS, PAYLOAD
from tideline.decoding.spark.json_decoder import decode
from tideline.model.decoding import PartPlan, WriterSchema

BATCH = 10_000
_AS_NUMBERS = {"day": F.unix_date, "zoned": F.unix_micros}
_LOCAL = ("milli", "micro")


def part():
    writer = WriterSchema(1, json.dumps(SCHEMA), "1", "s:1")
    merged = reader_schema("value", "connect", [writer], None)
    assert not merged.misfits
    return PartPlan("value", "json", "connect", "s", merged.writers, (), (), merged.reader)


def found_by_spark(spark, payloads):
    """Classes and values; times as numbers, since Python's have other bounds."""
    head = f'{{"schema": {json.dumps(SCHEMA)}, "payload": '
    rows = [(bytearray(f"{head}{text}}}".encode()),) for text in payloads]
    given = spark.session.createDataFrame(rows, f"{PAYLOAD} BINARY")
    columns = [_as_plain(name).alias(name) for name in KINDS]
    return decode(given, part()).select(ERROR_CLASS, *columns).collect()


def _as_plain(name):
    column = F.col(FIELDS)[name]
    if name in _LOCAL:  # sessions of ours are in UTC
        return F.unix_micros(column.cast("timestamp"))
    return _AS_NUMBERS[name](column) if name in _AS_NUMBERS else column


@pytest.mark.parametrize(
    "batches", [1, pytest.param(10, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_no_payload_comes_out_otherwise_than_the_rules_say(spark, batches):
    """100,000 payloads with the slow ones."""
    classes = {}
    for seed in range(batches):
        source = Payloads(Random(seed))
        payloads = [source.next() for _ in range(BATCH)]
        for text, row in zip(payloads, found_by_spark(spark, payloads), strict=True):
            wanted, values = judge(text)
            classes[wanted] = classes.get(wanted, 0) + 1
            assert row[ERROR_CLASS] == wanted, (text, wanted, row)
            for name in KINDS if wanted is None else ():
                assert alike(values[name], row[name]), (text, name, values[name], row[name])
    assert min(classes[name] for name in (None, "type_mismatch", "out_of_range")) > 100 * batches


def alike(wanted, found):
    if isinstance(wanted, float) and isinstance(found, float):
        return wanted == found or (math.isnan(wanted) and math.isnan(found))
    return wanted == (bytes(found) if isinstance(found, bytearray) else found)
