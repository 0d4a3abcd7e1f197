"""Route the records of a topic with several event types: each into the typed table of its type.

The five bytes before a value name its schema, and so its type. Raw rows are filtered by them before
anything is decoded, and each type is decoded by a pass of its own, as if it were alone. The first
of these passes counts the records of each type, and of none: there is a pass for those that have
some. Then one pass writes the bad rows of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tideline.decoding.spark.expectations import failures_in
from tideline.decoding.spark.fields import ERROR_CLASS, PAYLOAD
from tideline.decoding.spark.framing import IS_NEW, head_of, unframe
from tideline.decoding.spark.judging import PART, judge
from tideline.decoding.spark.typed_writing import (
    Bad,
    bad_place,
    bad_places_in,
    compared,
    new_schemas,
    refuse_rules,
    step_of,
    with_quarantine,
    write_typed,
)
from tideline.model.decoding import DecodePlan, PartPlan
from tideline.model.spark_job import DecodeJob, DecodeResult, SparkResult
from tideline.spark.coordinates import Transform, within
from tideline.spark.raw_rows import observed

_OF = "of {}"
"""Name of the count of a type's records."""


def write_types(raw: DataFrame, job: DecodeJob) -> DecodeResult:
    """Write the typed rows of each event type, and the quarantined ones of all.

    Args:
        raw: The raw rows at the plan's coordinates.
        job: Where the rows go.

    Returns:
        As `write_decoded`.

    `refuse_rules`, `write_typed` and `with_quarantine` say what they refuse.
    """
    if new := refuse_rules(raw, job):
        return new
    plan, step = job.plan, step_of(job.plan)
    known = [name for name in job.types if _ids(plan, name)]
    done: dict[str, Mapping[str, Any]] = {}
    overall: Mapping[str, Any] = {}
    metrics, seen = _counts(plan, known), Observation("routed")
    for name in known:
        if overall and not overall[_OF.format(name)]:
            continue
        rows = raw if overall else raw.observe(seen, *metrics)
        done[name] = write_typed(rows.transform(_of(plan, name)), job.of_type(name), step)
        overall = overall or _looked_at(raw, plan, observed(seen, raw, metrics), step)
        if (overall["new"] or done[name]["new"]) and not job.is_last_round:
            return new_schemas(raw, plan)
    overall = overall or _looked_at(raw, plan, raw.agg(*metrics).collect()[0].asDict(), step)
    if overall["new"] and not job.is_last_round:
        return new_schemas(raw, plan)
    result = _counted(plan, overall, done)
    near = {
        name: raw.transform(within(bad_places_in(counts["places"], step)))
        for name, counts in (*done.items(), ("", overall))
        if counts["bad"]
    }
    if near:
        pieces = [_piece(rows, plan, name) for name, rows in near.items()]
        bad = overall["bad"] + sum(counts["bad"] for counts in done.values())
        result = with_quarantine(result, pieces, bad, job)
    if not plan.is_again:
        return result
    judged = {name: (_piece(raw, plan, name).judged, job.of_type(name)) for name in job.types}
    every = [*(rows for rows, _ in judged.values()), _piece(raw, plan, "").judged]
    return compared(result, judged, every, job)


def _counted(
    plan: DecodePlan, overall: Mapping[str, Any], done: Mapping[str, Mapping[str, Any]]
) -> DecodeResult:
    """What the passes have counted, but for the bad rows.

    Args:
        overall: Of all records.
        done: Of those of each type.
    """
    failed = dict.fromkeys(plan.rules, 0)
    for name, counts in done.items():
        found = failures_in(plan.of_type(name), counts, of_bad=False)
        failed |= {f"{name}.{rule}": n for rule, n in found.items()}
    return DecodeResult(
        decoded=SparkResult(rows=sum(counts["good"] for counts in done.values())),
        by_type={name: SparkResult(rows=counts["good"]) for name, counts in done.items()},
        raw_rows=overall["rows"],
        tombstones=overall["tombstones"],
        unasked=overall["new"] + sum(counts["new"] for counts in done.values()),
        failed=failed,
        bad_of_types=sum(counts["bad"] for counts in done.values()),
    )


def _piece(raw: DataFrame, plan: DecodePlan, name: str) -> Bad:
    """The records of a type, judged; without a name those of none, and what tells their type."""
    if not name:
        return Bad(raw.filter(_is_other(plan)).transform(_unframed(plan)), plan)
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
    is_of = _begins(_ids(plan, name))
    return lambda rows: rows.filter(is_of)


def _begins(ids: Sequence[int]) -> Column:
    """Whether a value begins with one of these ids; null where there is no value."""
    heads = [F.lit(head_of(n)) for n in ids]
    return F.substring("value", 1, 5).isin(*heads) if heads else F.lit(False)


def _is_other(plan: DecodePlan) -> Column:
    """Whether a record has a value, and no type claims it."""
    own = [w.schema_id for w in _values(plan).writers]
    return F.coalesce(~_begins(own), F.lit(False)) & F.col("value").isNotNull()


def _unframed(plan: DecodePlan) -> Transform:
    """Judge what tells a record's type, where no type claims it: it is bad, or its id is new."""
    part = _values(plan)
    return lambda rows: unframe(rows, part).drop(PAYLOAD).withColumn(PART, F.lit(part.part))


def _counts(plan: DecodePlan, types: Sequence[str]) -> list[Column]:
    return [
        *(F.count_if(_begins(_ids(plan, name))).alias(_OF.format(name)) for name in types),
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("value").isNull()).alias("tombstones"),
        F.count_if(_is_other(plan)).alias("bad"),
    ]


def _looked_at(
    raw: DataFrame, plan: DecodePlan, counts: Mapping[str, Any], step: int
) -> Mapping[str, Any]:
    """The counts, with how many of the records of no type have new ids, and where they all are."""
    if not counts["bad"]:
        return {**counts, "new": 0}
    is_bad = F.col(ERROR_CLASS).isNotNull()
    others = _piece(raw, plan, "").judged
    looked = others.agg(
        F.count_if(F.col(IS_NEW)).alias("new"), bad_place(is_bad, step).alias("places")
    )
    return {**counts, **looked.collect()[0].asDict()}
