"""`make bench-types`: what five event types of a topic cost, against one type of the same size.

The application that runs start, warm and in one session, decodes a million raw rows of one schema
into one typed table, and a million of five schemas, in turn, into five. In pairs. Writes its table
into docs/how-to/what-producers-write.md, between the two comments that name this module.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from bench.expectations import timed
from bench.pairs import estimate, orders
from bench.report import write_between
from bench.tables import Table, milliseconds
from devstack.spark_apps import InProcessSpark
from tideline.decoding.schemas.merging import reader_schema
from tideline.model.decoding import OTHER_TYPES, DecodePlan, PartPlan, TypePlan, WriterSchema
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import DecodeJob, Output, TypedOutput

_PAGE = Path("docs/how-to/what-producers-write.md")
_ID = "6a0b0c5e-0000-4000-8000-000000000001"
_FILES = 4
_NAMES = ("created", "paid", "packed", "sent", "returned")
_FIELDS = (("id", "long"), ("customer", "string"), ("amount", "double"), ("paid", "boolean"))
_JSON_TYPES = {"long": "integer", "string": "string", "double": "number", "boolean": "boolean"}


def event_types(folder: Path, records: int, pairs: int) -> Table:
    """Seconds of decoding one type, and five.

    Args:
        folder: Empty.
        records: How many of each.
        pairs: How many count.
    """
    table = Table(
        "Event types",
        f"{records:,} records of four fields, decoded by the application that runs start, warm, on"
        f" two cores: of one type into one typed table, and of five into five. Medians of {pairs}"
        " pairs after one that does not count. The share is the throughput of five by that of one,"
        " by the clock and by the processor; the commits of four more tables are not in it.",
        ("format", "one type", "five types", "share", "of the processor", "pass", "verdict"),
    )
    spark = InProcessSpark(is_small=False)
    try:
        for kind in ("avro", "json"):
            sides = tuple(
                _job(folder / f"{kind}-{count}", kind, records, _NAMES[:count]) for count in (1, 5)
            )
            taken: tuple[list[tuple[float, float]], ...] = ([], [])
            for order in orders(pairs + 1, seed=1):
                for side in order:
                    taken[side].append(timed(spark, sides[side]))
            walls, processors = (
                tuple([pair[measure] for pair in found[1:]] for found in taken)
                for measure in (0, 1)
            )
            found, worked = (estimate(five, one) for one, five in (walls, processors))
            verdict = "pass" if found.ratio >= 1 / 1.3 else "miss"
            times = (milliseconds(median(s)) for s in walls)
            table.add(kind, *times, str(found), str(worked), ">= 0.77", verdict)
    finally:
        spark.stop()
    return table


def _job(folder: Path, kind: str, records: int, names: tuple[str, ...]) -> DecodeJob:
    parts = tuple(_part(kind, number, name) for number, name in enumerate(names, 1))
    types = tuple(TypePlan(name, str(folder / name)) for name in names)
    only = replace(parts[0], type="")
    others = replace(only, type=OTHER_TYPES, writers=(), subject="*")
    is_one = len(names) == 1
    plan = DecodePlan(
        plan_id="decodes",
        run_id="run",
        frozen_at=datetime.now(UTC),
        raw_table_id="raw",
        raw_version=1,
        ranges=(CoordinateRange("orders", _ID, 0, 0, 0, records),),
        removes=(),
        parts=(only,) if is_one else (*parts, others),
        tombstones="drop",
        event_date=None,
        transform=None,
        max_share=1.0,
        table_uri=types[0].table_uri if is_one else "",
        quarantine_uri=str(folder / "quarantine"),
        types=() if is_one else types,
    )
    outputs = {t.name: TypedOutput(Output(t.table_uri, "decoded-1")) for t in plan.types}
    return DecodeJob(
        stream="orders",
        run_id="run",
        raw_uri=str(folder / "raw"),
        raw_files=tuple(_raw_files(folder / "raw", kind, records, len(names))),
        plan=plan,
        decoded=Output(types[0].table_uri, "decoded-1"),
        quarantine=Output(plan.quarantine_uri, "decoded-1"),
        types=outputs,
    )


def _schema(kind: str, name: str) -> dict[str, object]:
    if kind == "avro":
        fields = [{"name": field, "type": of} for field, of in _FIELDS]
        return {"type": "record", "name": name, "fields": fields}
    properties = {field: {"type": _JSON_TYPES[of]} for field, of in _FIELDS}
    return {"title": name, "type": "object", "properties": properties}


def _part(kind: str, number: int, name: str) -> PartPlan:
    writer = WriterSchema(number, json.dumps(_schema(kind, name)), "", f"{name}:1")
    merged = reader_schema("value", kind, [writer], None)
    more = {"writers": merged.writers, "unknown": (), "foreign": (), "reader": merged.reader}
    return PartPlan("value", kind, "confluent", f"{name}-value", **more, type=name)


def _raw_files(root: Path, kind: str, records: int, types: int) -> Iterator[str]:
    """Write raw rows as a run lands them, types in turn; the paths below the table."""
    now = datetime.now(UTC)
    each = records // _FILES
    for number in range(_FILES):
        first, last = number * each, records if number == _FILES - 1 else (number + 1) * each
        values = [_value(kind, n, 1 + n % types) for n in range(first, last)]
        count = len(values)
        headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        rows = pa.table(
            {
                "generation": pa.array([0] * count, pa.int32()),
                "topic": ["orders"] * count,
                "partition": pa.array([0] * count, pa.int32()),
                "offset": pa.array(range(first, last), pa.int64()),
                "timestamp": pa.array([now] * count, pa.timestamp("us", "UTC")),
                "timestamp_type": pa.array([0] * count, pa.int32()),
                "key": pa.array([None] * count, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "headers": pa.nulls(count, headers),
                "plan_id": ["p"] * count,
            }
        )
        path = f"landed/topic_id={_ID}/part-{number}.parquet"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, root / path)
        yield path


def _value(kind: str, n: int, schema_id: int) -> bytes:
    record = {"id": n, "customer": f"c{n * 7919 % 1_000_003}", "amount": 1 + n / 7}
    record["paid"] = n % 3 == 0
    head = b"\0" + schema_id.to_bytes(4, "big")
    if kind == "json":
        return head + json.dumps(record).encode()
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED, record)
    return head + out.getvalue()


_PARSED = fastavro.parse_schema(_schema("avro", "created"))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="bench.event_types")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        table = event_types(Path(folder), options.records, options.pairs)
    write_between(_PAGE, "bench.event_types", table)


if __name__ == "__main__":
    main()
