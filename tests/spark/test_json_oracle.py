"""The JSON decoder against an oracle that shares no code with it, over documents of all kinds."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Row

from tests.worlds.json_oracle import LONG_S, SCHEMA, Documents, Oracle
from tests.worlds.raw_tables import decode as decode_records
from tests.worlds.raw_tables import json_part as part
from tideline.decoding.spark.fields import ERROR, ERROR_CLASS, FIELDS, PAYLOAD
from tideline.decoding.spark.json_decoder import decode
from tideline.model.decoding import DECODER_FORM

CLOSED = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "ID": {"type": "string"}, LONG_S: {"type": "number"}},
    "additionalProperties": False,
}
BATCH = 5_000


def found_by_spark(spark, schema, documents):
    """What the decoder makes of documents: classes and fields."""
    rows = spark.session.createDataFrame(
        [(d,) for d in map(bytearray, documents)], f"{PAYLOAD} BINARY"
    )
    made = decode(rows, part(schema)).select(FIELDS, ERROR_CLASS, ERROR)
    return [(row[ERROR_CLASS], row[ERROR], row[FIELDS]) for row in made.collect()]


def alike(wanted: Any, found: Any) -> bool:
    """Whether values are the same; `Any` stands for what the oracle does not know.

    An object's fields are compared by place, since columns may have other names.
    """
    if wanted is Any:
        return found is not None
    if isinstance(found, Row):
        return len(wanted) == len(found) and all(map(alike, wanted.values(), found))
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(alike(wanted[k], found[k]) for k in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(alike, wanted, found))
    if hasattr(wanted, "tzinfo"):
        return wanted.timestamp() == found.timestamp()
    return type(wanted) is type(found) and wanted == found


DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#", **SCHEMA}


@pytest.mark.parametrize("schema", [SCHEMA, CLOSED, DRAFT_4], ids=["open", "closed", "draft 4"])
@pytest.mark.parametrize(
    "batches", [1, pytest.param(10, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_no_document_comes_out_otherwise_than_the_oracle_says(spark, schema, batches):
    """100,000 documents with the slow ones; the seeds are their numbers."""
    classes: dict[str | None, int] = {}
    for seed in range(batches):
        source, oracle = Documents(schema, seed), Oracle(schema)
        documents = [source.next() for _ in range(BATCH)]
        for data, (name, error, fields) in zip(
            documents, found_by_spark(spark, schema, documents), strict=True
        ):
            wanted, values = oracle.judge(data)
            if (name, fields) == (None, None):  # null: whether it may be says the writer's schema
                name, error = "type_mismatch", "null"
            classes[wanted] = classes.get(wanted, 0) + 1
            told = f"{data!r}: oracle {wanted} {values}, decoder {name} {error} {fields}"
            both = {wanted, name}
            # where a word or a number ends that is the document is a matter of taste
            is_plain = data.lstrip()[:1] not in (b"{", b"[", b'"')
            assert wanted == name or (is_plain and both == {"malformed", "trailing_bytes"}), told
            assert (error is None) == (name is None), told
            assert name is not None or alike(values, fields), told
    print(json.dumps({str(k): v for k, v in classes.items()}))
    assert len(classes) == 7, classes
    assert min(classes.values()) >= 5 * batches, classes


def test_a_plan_of_a_former_version_gives_its_rows(spark, tmp_path):
    """There 1.0 was no integer; a clear executes the plan as it was."""
    values, of_today = [b'{"id":1.0}', b'{"id":1}'], part(CLOSED)
    for form, ids in ((1, [1]), (DECODER_FORM, [1, 1])):
        plan = replace(of_today, form=form)
        _, typed, bad = decode_records(spark, tmp_path / str(form), values, [plan])
        assert [row["id"] for row in typed] == ids
        assert len(bad) == 2 - len(ids)
