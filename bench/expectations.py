"""`make bench-expectations`: what five expectations cost the decoding of a million records.

The application that runs start, warm and in one session, decodes the same raw rows with them and
without, in pairs. Writes its table into docs/how-to/expectations.md, between the two comments that
name this module.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

import decode_rows
from bench.pairs import estimate, orders
from bench.processor import used, with_jvms
from bench.report import write_between
from bench.tables import Table, milliseconds
from devstack.spark_apps import InProcessSpark
from tideline.decoding.schemas.merging import reader_schema
from tideline.model.decoding import PLAIN_ID, DecodePlan, Expectation, PartPlan, WriterSchema
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import DecodeJob, Output

_PAGE = Path("docs/how-to/expectations.md")
_ID = "6a0b0c5e-0000-4000-8000-000000000001"
_PAIRS = 8
_FILES = 4
_RULES = (
    Expectation("positive", "amount > 0", "quarantine"),
    Expectation("customer_known", "customer like 'c%'", "quarantine"),
    Expectation("paid_or_small", "paid or amount < 1e6", "quarantine"),
    Expectation("id_given", "id is not null", "halt"),
    Expectation("not_from_the_future", "timestamp <= timestamp + interval 1 day", "count"),
)
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "paid", "type": "boolean"},
    ],
}
_JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
    },
}
_SCHEMAS = {"avro": _AVRO, "json": _JSON}


def expectations(folder: Path, records: int, failing: int) -> Table:
    """Seconds of decoding with five rules and without.

    Args:
        folder: Empty.
        records: How many.
        failing: Every so many records fail a rule; 0 for none.
    """
    table = Table(
        "Expectations",
        f"{records:,} records of four fields, decoded by the application that runs start, warm, on"
        f" two cores, with five expectations and without. Medians of {_PAIRS} pairs after one that"
        " does not count. The share is the throughput with them by that without, by the clock and"
        " by the processor.",
        (
            *("format", "records that fail", "without", "with five", "share", "of the processor"),
            *("pass", "verdict"),
        ),
    )
    spark = InProcessSpark(is_small=False)
    try:
        for kind in _SCHEMAS:
            for every in (0, failing):
                job = _job(folder / f"{kind}-{every}", kind, records, every)
                rules = tuple(_RULES)
                with_them = replace(job, plan=replace(job.plan, expect=rules))
                sides = (job, with_them)
                taken: tuple[list[tuple[float, float]], ...] = ([], [])
                for order in orders(_PAIRS + 1, seed=1):
                    for side in order:
                        taken[side].append(timed(spark, sides[side]))
                walls, processors = (
                    tuple([pair[measure] for pair in pairs[1:]] for pairs in taken)
                    for measure in (0, 1)
                )
                found, worked = (estimate(given, without) for without, given in (walls, processors))
                verdict = "" if every else "pass" if worked.ratio >= 0.9 else "miss"
                times = (milliseconds(median(s)) for s in walls)
                share, wanted = f"1 in {every}" if every else "none", "" if every else ">= 0.9"
                table.add(kind, share, *times, str(found), str(worked), wanted, verdict)
    finally:
        spark.stop()
    return table


def timed(spark: InProcessSpark, job: DecodeJob) -> tuple[float, float]:
    """Seconds on the clock, and of the processor, of this process and its JVM."""
    for output in (job.decoded, job.quarantine, *(to.output for to in job.types.values())):
        shutil.rmtree(Path(output.uri), ignore_errors=True)
    processes = with_jvms()
    before, began = used(processes), time.perf_counter()
    result = decode_rows.execute(spark.session, job)
    seconds = time.perf_counter() - began
    assert result.error is None, result.message
    return seconds, used(processes) - before


def _job(folder: Path, kind: str, records: int, failing: int) -> DecodeJob:
    schema = json.dumps(_SCHEMAS[kind])
    merged = reader_schema("value", kind, [WriterSchema(PLAIN_ID, schema, "", "v1")], None)
    part = PartPlan("value", kind, "plain", None, merged.writers, (), (), merged.reader)
    plan = DecodePlan(
        plan_id="decodes",
        run_id="run",
        frozen_at=datetime.now(UTC),
        raw_table_id="raw",
        raw_version=1,
        ranges=(CoordinateRange("orders", _ID, 0, 0, 0, records),),
        removes=(),
        parts=(part,),
        tombstones="keep",
        event_date=None,
        transform=None,
        max_share=1.0,
        table_uri=str(folder / "decoded"),
        quarantine_uri=str(folder / "quarantine"),
    )
    return DecodeJob(
        stream="orders",
        run_id="run",
        raw_uri=str(folder / "raw"),
        raw_files=tuple(_raw_files(folder / "raw", kind, records, failing)),
        plan=plan,
        decoded=Output(plan.table_uri, "decoded-1"),
        quarantine=Output(plan.quarantine_uri, "decoded-1"),
    )


def _raw_files(root: Path, kind: str, records: int, failing: int) -> Iterator[str]:
    """Write raw rows as a run lands them; the paths below the table."""
    now = datetime.now(UTC)
    each = records // _FILES
    for number in range(_FILES):
        first, last = number * each, records if number == _FILES - 1 else (number + 1) * each
        values = [_value(kind, n, failing) for n in range(first, last)]
        count = len(values)
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
                "headers": pa.nulls(
                    count, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
                ),
                "plan_id": ["p"] * count,
            }
        )
        path = f"landed/topic_id={_ID}/part-{number}.parquet"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, root / path)
        yield path


def _value(kind: str, n: int, failing: int) -> bytes:
    amount = -1.0 if failing and n % failing == 0 else 1 + n / 7
    record = {"id": n, "customer": f"c{n * 7919 % 1_000_003}", "amount": amount, "paid": n % 3 == 0}
    if kind == "json":
        return json.dumps(record).encode()
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED, record)
    return out.getvalue()


_PARSED = fastavro.parse_schema(_AVRO)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="bench.expectations")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--failing", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        table = expectations(Path(folder), options.records, options.failing)
    write_between(_PAGE, "bench.expectations", table)


if __name__ == "__main__":
    main()
