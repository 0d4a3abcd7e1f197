"""The Protobuf decoder against Google's own parser, over records of all kinds."""

import pytest

from devstack.protobuf_messages import message_class
from tests.worlds.decoded_values import alike
from tests.worlds.protobuf_oracle import Records, judge
from tests.worlds.protobuf_schemas import ALL, protobuf_part
from tideline.decoding.spark.fields import ERROR, ERROR_CLASS, FIELDS, PAYLOAD, SCHEMA_ID
from tideline.decoding.spark.protobuf_decoder import decode
from tideline.model.decoding import PLAIN_ID

BATCH = 10_000


def found_by_spark(spark, records):
    """What the decoder makes of records: classes and fields."""
    rows = [(bytearray(data), PLAIN_ID) for data in records]
    given = spark.session.createDataFrame(rows, f"{PAYLOAD} BINARY, {SCHEMA_ID} INT")
    made = decode(given, protobuf_part(ALL, "plain", "shop.All"))
    found = made.select(FIELDS, ERROR_CLASS, ERROR).collect()
    return [(row[ERROR_CLASS], row[ERROR], row[FIELDS]) for row in found]


@pytest.mark.parametrize(
    "batches", [1, pytest.param(10, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_no_record_comes_out_otherwise_than_google_s_parser_says(spark, batches):
    """100,000 records with the slow ones.

    Google's parser stops at the first thing that is wrong, and cuts off numbers that are too long.
    """
    make = message_class(ALL, "shop.All")
    classes: dict[str | None, int] = {}
    for seed in range(batches):
        source = Records(make, seed)
        records = [source.next() for _ in range(BATCH)]
        for data, (name, error, fields) in zip(
            records, found_by_spark(spark, records), strict=True
        ):
            wanted, values = judge(make, data)
            classes[wanted] = classes.get(wanted, 0) + 1
            told = f"{data!r}: oracle {wanted} {values}, decoder {name} {error} {fields}"
            is_cut = name == "out_of_range" and "a number beyond" in error and wanted is None
            is_both = {wanted, name} == {"malformed", "invalid_utf8"}
            assert wanted == name or is_cut or is_both, told
            assert (error is None) == (name is None), told
            assert name is not None or values is None or alike(values, fields), told
    assert len(classes) == 5, classes
    assert min(classes.values()) >= 5 * batches, classes
