"""Route the records of a topic with several event types: each into the typed table of its type.

The five bytes before a value name its schema, and so its type. Raw rows are filtered by them before
anything is decoded, and each type is decoded by a pass of its own, as if it were alone. The first
of these passes counts what is of no type as well. Then one pass writes the bad rows of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tideline.decoding.spark.expectations import counted
from tideline.decoding.spark.fields import ERROR_CLASS, PAYLOAD
from tideline.decoding.spark.framing import IS_NEW, unframe
from tideline.decoding.spark.judging import PART, judge
from tideline.decoding.spark.writing import (
    Bad,
    compared,
    new_schemas,
    place_of,
    places_in,
    refuse_rules,
    step_of,
    with_quarantine,
    write_typed,
)
from tideline.model.decoding import DecodePlan, PartPlan
from tideline.model.spark_job import DecodeJob, DecodeResult, SparkResult
from tideline.spark.coordinates import Transform, within
from tideline.spark.raw_rows import observed


def write_types(raw: DataFrame, job: DecodeJob) -> DecodeResult:
    """Write the typed rows of each event type, and the quarantined ones of all.

    Args:
        raw: The raw rows at the plan's coordinates.
        job: Where the rows go.

    Returns:
        As `write_decoded`.

    Raises:
        BadInput, VerificationFailed: As `write_decoded`.
    """
    if new := refuse_rules(raw, job):
        return new
    plan, step = job.plan, step_of(job.plan)
    known = [name for name in job.types if _ids(plan, name)]
    others = raw.transform(_unframed(plan))
    metrics, seen = _counts(step), Observation("routed")
    watched = others.observe(seen, *metrics).select(raw.columns)
    done = {}
    told = None
    for name in known:
        rows = watched if told is None else raw
        done[name] = write_typed(rows.transform(_of(plan, name)), job.of_type(name), step)
        told = told or observed(seen, others, metrics)
        if (told["new"] or done[name]["new"]) and not job.is_last_round:
            return new_schemas(raw, plan)
    told = told or others.agg(*metrics).collect()[0].asDict()
    if told["new"] and not job.is_last_round:
        return new_schemas(raw, plan)
    result = _counted(plan, told, done)
    near = {
        name: raw.transform(within(places_in(counts["places"], step)))
        for name, counts in (*done.items(), ("", told))
        if counts["bad"]
    }
    if near:
        pieces = [_piece(rows, plan, name) for name, rows in near.items()]
        bad = told["bad"] + sum(counts["bad"] for counts in done.values())
        result = with_quarantine(result, pieces, bad, job)
    if not plan.is_again:
        return result
    judged = {name: (_piece(raw, plan, name).judged, job.of_type(name)) for name in job.types}
    every = [*(rows for rows, _ in judged.values()), others]
    return compared(result, judged, every, job)


def _counted(
    plan: DecodePlan, told: Mapping[str, Any], done: Mapping[str, Mapping[str, Any]]
) -> DecodeResult:
    """What the passes have counted, but for the bad rows.

    Args:
        told: Of all records.
        done: Of those of each type.
    """
    failed = dict.fromkeys(plan.rules, 0)
    for name, counts in done.items():
        found = counted(plan.of_type(name), counts, of_bad=False)
        failed |= {f"{name}.{rule}": n for rule, n in found.items()}
    return DecodeResult(
        decoded=SparkResult(rows=sum(counts["good"] for counts in done.values())),
        by_type={name: SparkResult(rows=counts["good"]) for name, counts in done.items()},
        raw_rows=told["rows"],
        tombstones=told["tombstones"],
        unasked=told["new"] + sum(counts["new"] for counts in done.values()),
        failed=failed,
    )


def _piece(raw: DataFrame, plan: DecodePlan, name: str) -> Bad:
    """The records of a type, judged; without a name those of none, and what tells their type."""
    if not name:
        return Bad(raw.transform(_unframed(plan)), plan)
    of_type = plan.of_type(name)
    judged = raw.transform(_of(plan, name)).transform(judge(of_type))
    return Bad(judged, of_type, f"{name}.")


def _values(plan: DecodePlan) -> PartPlan:
    return next(part for part in plan.framed if part.part == "value")


def _ids(plan: DecodePlan, name: str) -> Sequence[int]:
    """The ids that a type has claimed."""
    return next(part.claimed for part in plan.parts if part.type == name)


def _of(plan: DecodePlan, name: str) -> Transform:
    """The records of a type, by the bytes before their values."""
    heads = [F.lit(b"\0" + n.to_bytes(4, "big")) for n in _ids(plan, name)]
    is_of = F.substring("value", 1, 5).isin(*heads) if heads else F.lit(False)
    return lambda rows: rows.filter(is_of)


def _unframed(plan: DecodePlan) -> Transform:
    """Judge what tells a record's type; a record of a type is good."""
    part = _values(plan)
    return lambda rows: unframe(rows, part).drop(PAYLOAD).withColumn(PART, F.lit(part.part))


def _counts(step: int) -> list[Column]:
    is_bad = F.col(ERROR_CLASS).isNotNull()
    return [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("value").isNull()).alias("tombstones"),
        F.count_if(F.col(IS_NEW)).alias("new"),
        F.count_if(is_bad).alias("bad"),
        place_of(is_bad, step).alias("places"),
    ]
