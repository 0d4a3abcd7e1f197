"""Raw data files made by hand, plans to decode them, and what the application makes of them."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

import decode_rows
from tideline.documents import load
from tideline.model.decoding import ColumnSource, DecodePlan, PartPlan, ReaderSchema, WriterSchema
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import DecodeJob, Output
from tideline.table.written_files import Manifest

TOPIC, TOPIC_ID = "orders", "11111111-1111-1111-1111-111111111111"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
_SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("generation", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("plan_id", pa.string()),
    ]
)


def record(offset, value, **others):
    """A raw row."""
    return {
        "topic_id": TOPIC_ID,
        "generation": 0,
        "topic": TOPIC,
        "partition": 0,
        "offset": offset,
        "timestamp": AT,
        "timestamp_type": 0,
        "key": None,
        "value": value,
        "headers": None,
        "plan_id": "landed",
        **others,
    }


def write_raw(table: Path, rows, folder="landed-a", partition_by=("topic_id",)):
    """Write rows as Spark would have landed them; the files' paths below the table."""
    groups: dict[tuple, list] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in partition_by), []).append(row)
    files = []
    for number, (values, group) in enumerate(groups.items()):
        parts = [f"{name}={value}" for name, value in zip(partition_by, values, strict=True)]
        path = "/".join([folder, *parts, f"part-{number}.parquet"])
        (table / path).parent.mkdir(parents=True, exist_ok=True)
        kept = pa.schema([f for f in _SCHEMA if f.name not in partition_by])
        slim = [{k: v for k, v in row.items() if k not in partition_by} for row in group]
        pq.write_table(pa.Table.from_pylist(slim, kept), table / path)
        files.append(path)
    return files


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


def planned(start, end, partition=0, generation=0, topic_id=TOPIC_ID, topic=TOPIC):
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


def decoded(spark, job):
    """The result, the typed rows and the quarantined ones, by offset."""
    result = decode_rows.execute(spark.session, job)
    if result.new_ids:  # the round counts for nothing
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
