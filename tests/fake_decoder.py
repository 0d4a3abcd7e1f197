"""The application that decodes, without Spark: real raw files in, real data files out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from posixpath import relpath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.documents import dump, load
from tideline.model.decoding import DecodePlan, PartPlan
from tideline.model.spark_job import DecodeJob, DecodeResult, Output, SparkResult
from tideline.table.schema import own_columns
from tideline.table.written_files import Manifest

_OWN = ("topic_id", "generation", "topic", "partition", "offset", "timestamp")
_SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("generation", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("schema_id", pa.int32()),
        ("decode_plan_id", pa.string()),
    ]
)
_TYPED = _SCHEMA.append(pa.field("is_tombstone", pa.bool_()))
_QUARANTINED = _SCHEMA.append(pa.field("error_class", pa.string()))


class FakeDecoder:
    """Judges values by the id in their first five bytes; the fields stay null.

    Args:
        loses, doubles: Offsets that it writes and counts not at all, or twice, as a bug would.

    `jobs` are those that it was given.
    """

    def __init__(self, loses: Iterable[int] = (), doubles: Iterable[int] = ()) -> None:
        self.loses, self.doubles = set(loses), set(doubles)
        self.jobs: list[DecodeJob] = []

    def submit(self, job_path: str) -> None:
        """Run the job file as spark-submit would."""
        job = load(DecodeJob, Path(job_path).read_bytes(), "the job")
        self.jobs.append(job)
        Path(job.result_path).write_text(dump(self._decoded(job)))

    def _decoded(self, job: DecodeJob) -> DecodeResult:
        (part,) = (p for p in job.plan.parts if p.part == "value")
        raw = [r for r in _raw_rows(job) if r["offset"] not in self.loses]
        rows = [r for row in raw for r in [row] * (1 + (row["offset"] in self.doubles))]
        is_framed = part.framing == "confluent"
        new = {_id(r["value"]) for r in rows} - {None, *_known(part)} if is_framed else set()
        if new:
            return DecodeResult(new_ids={"value": tuple(sorted(i for i in new if i is not None))})
        good, bad, tombstones = [], [], 0
        for row in rows:
            error = _error(row["value"], part)
            is_tombstone = row["value"] is None
            tombstones += is_tombstone
            kept = {n: row[n] for n in _OWN}
            kept |= {"schema_id": _id(row["value"]), "decode_plan_id": job.plan.plan_id}
            if error is not None:
                bad.append({**kept, "error_class": error})
            elif not is_tombstone or job.plan.tombstones == "keep":
                good.append({**kept, "is_tombstone": is_tombstone})
        return DecodeResult(
            decoded=self.written(job.decoded, good, _typed(job.plan)),
            quarantined=self.written(job.quarantine, bad, _QUARANTINED),
            raw_rows=len(rows),
            tombstones=tombstones,
            classes=dict(Counter(str(r["error_class"]) for r in bad)),
        )

    def written(self, output: Output, rows: list[dict[str, Any]], schema: pa.Schema) -> SparkResult:
        """Write the files of one table; how many rows there are."""
        return _written(output, rows, schema)


def _typed(plan: DecodePlan) -> pa.Schema:
    return pa.schema([field for field in _TYPED if field.name in own_columns(plan)])


def value_of(schema_id: int) -> bytes:
    """A record's bytes in Confluent's framing; the rest is nobody's business here."""
    return b"\0" + schema_id.to_bytes(4, "big") + b"..."


def _id(value: bytes | None) -> int | None:
    return int.from_bytes(value[1:5], "big") if value is not None and value[:1] == b"\0" else None


def _known(part: PartPlan) -> set[int]:
    return {*(w.schema_id for w in part.writers), *part.unknown, *part.foreign, *part.unfit}


def _error(value: bytes | None, part: PartPlan) -> str | None:
    if value is None or _id(value) in {w.schema_id for w in part.writers}:
        return None
    if part.framing == "plain":
        return None if part.writers else "type_mismatch"
    classes: Mapping[str, tuple[int, ...]] = {
        "unknown_schema": part.unknown,
        "wrong_subject": part.foreign,
        "type_mismatch": part.unfit,
    }
    return next((name for name, ids in classes.items() if _id(value) in ids), "framing")


def _raw_rows(job: DecodeJob) -> list[dict[str, Any]]:
    found = []
    for path in job.raw_files:
        for row in pq.read_table(Path(job.raw_uri, path)).to_pylist():
            place = (row["topic_id"], row["generation"], row["partition"])
            if any(
                place == (r.topic_id, r.generation, r.partition)
                and r.start_offset <= row["offset"] < r.end_offset
                for r in job.plan.ranges
            ):
                found.append(row)
    return found


def _written(output: Output, rows: list[dict[str, Any]], schema: pa.Schema) -> SparkResult:
    folders: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        days = {"event_date": row["timestamp"].date()}
        named = [f"{name}={({**row, **days})[name]}" for name in output.partition_by]
        folders["/".join([output.folder, *named])].append(row)
    kept = pa.schema([f for f in schema if f.name not in output.partition_by])
    for folder, own in folders.items():
        Path(output.uri, folder).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(own, kept), Path(output.uri, folder, "part-0.parquet"))
    named = Manifest(tuple(relpath(f"{f}/part-0.parquet", output.folder) for f in folders))
    Path(output.uri, output.folder).mkdir(parents=True, exist_ok=True)
    Path(output.uri, output.folder, "_files.json").write_text(dump(named))
    return SparkResult(rows=len(rows))
