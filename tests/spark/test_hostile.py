"""Records that nobody can decode, each set aside by the class that is kept with it."""

from collections import Counter

import pytest

from tests.worlds.hostile import MANY, PARTS, hostile
from tideline.decoding.spark.fields import ERROR, ERROR_CLASS, FIELDS, PAYLOAD, SCHEMA_ID
from tideline.decoding.spark.judging import decode
from tideline.model.decoding import PLAIN_ID


@pytest.mark.parametrize("name", PARTS)
def test_each_is_set_aside_by_its_class(spark, name):
    """Two hundred of each format; none is a row, none ends the task, each has a sentence."""
    wanted = hostile(name)
    assert len({data for data, _ in wanted}) == MANY
    assert min(Counter(error_class for _, error_class in wanted).values()) >= MANY // 8
    rows = [(bytearray(data), PLAIN_ID) for data, _ in wanted]
    given = spark.session.createDataFrame(rows, f"{PAYLOAD} BINARY, {SCHEMA_ID} INT")
    found = decode(given, PARTS[name]()).select(FIELDS, ERROR_CLASS, ERROR).collect()
    assert [row[ERROR_CLASS] for row in found] == [error_class for _, error_class in wanted]
    assert all(row[ERROR] and row[FIELDS] is None for row in found)
