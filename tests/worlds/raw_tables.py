"""Plans and jobs that decode raw files, and what the application makes of them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pyarrow.parquet as pq

import decode_rows
from tests.worlds.build import ID
from tests.worlds.rows import AT, raw_row, write_files
from tideline.decoding.schemas.merging import reader_schema
from tideline.documents import load
from tideline.model.decoding import (
    DECODER_FORM,
    PLAIN_ID,
    ColumnSource,
    DecodePlan,
    PartPlan,
    ReaderSchema,
    WriterSchema,
)
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import DecodeJob, Output
from tideline.table.written_files import Manifest


def avro(schema, value, schema_id=None):
    """A record, behind Confluent's framing where it has an id."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return (b"" if schema_id is None else framing(schema_id)) + out.getvalue()


def framing(schema_id):
    """The five bytes before a payload."""
    return b"\0" + schema_id.to_bytes(4, "big")


def avro_part(writers, reader, columns, part="value", framing="confluent", **others):
    """How Avro is decoded: writers' schemas by id, what they are read as, each field's type."""
    prefix = "key_" if part == "key" else ""
    sources = (ColumnSource(f"{prefix}{field}", field, kind) for field, kind in columns.items())
    known = (WriterSchema(number, json.dumps(text), "") for number, text in writers.items())
    return PartPlan(
        part=part,
        format="avro",
        framing=framing,
        subject=f"orders-{part}",
        writers=tuple(known),
        unknown=others.get("unknown", ()),
        foreign=others.get("foreign", ()),
        reader=ReaderSchema(part, "avro", json.dumps(reader), tuple(sources)),
    )


def plain_avro(schema):
    """How plain records of a schema are decoded."""
    writer = WriterSchema(PLAIN_ID, json.dumps(schema), "", "v1")
    merged = reader_schema("value", "avro", [writer], None)
    assert not merged.misfits
    return PartPlan("value", "avro", "plain", None, merged.writers, (), (), merged.reader)


def json_part(*schemas, framing="plain", name="value"):
    """How JSON is decoded: schemas with the ids 1, 2 and so on, or the one of plain records."""
    first = PLAIN_ID if framing == "plain" else 1
    writers = [
        WriterSchema(first + n, json.dumps(schema), "", f"v{n}") for n, schema in enumerate(schemas)
    ]
    merged = reader_schema(name, "json", writers, None)
    assert not merged.misfits
    subject = None if framing == "plain" else "s"
    own = (merged.writers, (), (), merged.reader)
    return PartPlan(name, "json", framing, subject, *own, form=DECODER_FORM)


def planned(start, end, partition=0, generation=0, topic_id=ID, topic="orders"):
    """A range of coordinates."""
    return CoordinateRange(topic, topic_id, generation, partition, start, end)


def decode_plan(table, ranges, parts, **others):
    """A plan that writes below the raw table's parent."""
    wanted = {
        "plan_id": "decodes",
        "run_id": "run",
        "frozen_at": AT,
        "raw_table_id": "raw",
        "raw_version": 1,
        "ranges": tuple(ranges),
        "removes": (),
        "parts": tuple(parts),
        "tombstones": "keep",
        "event_date": None,
        "transform": None,
        "max_share": 1.0,
        "table_uri": str(table.parent / "decoded"),
        "quarantine_uri": str(table.parent / "quarantine"),
    }
    return DecodePlan(**wanted | others)


def decode_job(table, files, plan, partition_by=()):
    """A job for a plan."""
    return DecodeJob(
        stream="orders",
        run_id="run",
        raw_uri=str(table),
        raw_files=tuple(files),
        plan=plan,
        decoded=Output(plan.table_uri, "decoded-1", partition_by),
        quarantine=Output(plan.quarantine_uri, "decoded-1"),
        result_path=str(table.parent / "result.json"),
    )


def job_of(folder, records, parts, ranges=None, partition_by=(), offsets=1_000, **plan):
    """A job that decodes records, rows or values, which are written into a raw table.

    Args:
        folder: For the raw table and what is made of it.
        records: A row, or a value that stands at the offset of its place.
        parts: How they are decoded.
        ranges: What is planned; by default so many offsets.
        partition_by: Of the typed table.
        offsets: See `ranges`.
        plan: Other facts of the plan.
    """
    rows = [r if isinstance(r, dict) else raw_row(n, r) for n, r in enumerate(records)]
    files = write_files(folder / "raw", "landed-a", rows)
    made = decode_plan(folder / "raw", ranges or [planned(0, offsets)], parts, **plan)
    return decode_job(folder / "raw", files, made, partition_by)


def decode(spark, folder, records, parts, **others):
    """What becomes of records: see `job_of` and `decoded`."""
    return decoded(spark, job_of(folder, records, parts, **others))


def decoded(spark, job):
    """The result, the typed rows and the quarantined ones, by offset."""
    result = decode_rows.execute(spark.session, job)
    if result.asks_again:  # the round counts for nothing
        return result, [], []
    typed, bad = rows_of(job.decoded), rows_of(job.quarantine)
    assert (len(typed), len(bad)) == (result.decoded.rows, result.quarantined.rows)
    return result, typed, bad


def named_files(output):
    """The data files that a manifest names; none if nothing was written."""
    folder = Path(output.uri, output.folder)
    if not folder.exists():
        return []
    text = (folder / "_files.json").read_text()
    return [folder / name for name in load(Manifest, text, "the manifest").files]


def rows_of(output):
    """Rows of data files, with the values that their folders' names hold."""
    rows = []
    for file in named_files(output):
        named = file.relative_to(Path(output.uri, output.folder)).parts[:-1]
        values = dict(part.split("=") for part in named)
        for row in pq.ParquetFile(file).read().to_pylist():
            rows.append(row | values)
    return sorted(rows, key=lambda r: (r["partition"], r["offset"]))
