"""Decode the parts of the raw rows, and say of each row whether it is good, and if not, why not."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.model.decoding import PLAIN_ID, DecodePlan, PartPlan
from tideline.spark.decoding.event_date import judge_event_date
from tideline.spark.decoding.formats import ERROR, ERROR_CLASS, FIELDS, PAYLOAD, SCHEMA_ID, decode
from tideline.spark.decoding.framing import IS_NEW, unframe
from tideline.spark.transforms import Transform

IS_TOMBSTONE, IS_DROPPED, PART = "is_tombstone", "is_dropped", "part"
_TOLD = (ERROR_CLASS, ERROR)


def judge(plan: DecodePlan) -> Transform:
    """Decode, and judge.

    Added beside the raw columns are `is_tombstone`, `is_dropped` (a tombstone that is not kept),
    `value_fields` and `key_fields`, `schema_id`, `is_new_id`, `event_date` if the plan has one, and
    of a bad record `part`, `error_class` and `error`.

    - Where value and key are both bad, the value's error is told.
    - Where both are good, the event's time may still be bad; that counts as the value's.
    - Of a tombstone that is dropped nothing is decoded.
    - `schema_id` is the value's where values are decoded, else the key's; of a bad record it is
      that of the bad part. It is null without framing.
    """

    def transform(rows: DataFrame) -> DataFrame:
        is_dropped = F.col("value").isNull() if plan.tombstones == "drop" else F.lit(False)
        rows = rows.withColumns({IS_TOMBSTONE: F.col("value").isNull(), IS_DROPPED: is_dropped})
        for part in plan.parts:
            rows = _with_part(rows, part)
        rows = _joined(rows, plan)
        return rows if plan.event_date is None else rows.transform(judge_event_date(plan))

    return transform


def _with_part(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode one part; what is said of it gets its name."""
    framed = unframe(rows, part)
    wanted = {n: F.when(~F.col(IS_DROPPED), F.col(n)) for n in (PAYLOAD, *_TOLD)}
    wanted[IS_NEW] = F.col(IS_NEW) & ~F.col(IS_DROPPED)
    framed = framed.withColumns(wanted).withColumnsRenamed({n: f"framing_{n}" for n in _TOLD})
    decoded = decode(framed, part)
    told = {n: F.coalesce(F.col(f"framing_{n}"), F.col(n)) for n in _TOLD}
    names = (FIELDS, SCHEMA_ID, IS_NEW, *_TOLD)
    return (
        decoded.withColumns(told)
        .drop(PAYLOAD, *(f"framing_{n}" for n in _TOLD))
        .withColumnsRenamed({n: f"{part.part}_{n}" for n in names})
    )


def _joined(rows: DataFrame, plan: DecodePlan) -> DataFrame:
    """One schema id, class and text of each row."""
    parts = sorted((part.part for part in plan.parts), key=lambda name: name != "value")
    bad = [F.col(f"{name}_{ERROR_CLASS}").isNotNull() for name in parts]
    first = F.col(f"{parts[0]}_{SCHEMA_ID}")
    made = {PART: F.lit(None).cast("string"), SCHEMA_ID: first}
    made |= {n: F.lit(None).cast("string") for n in _TOLD}
    for name, is_bad in reversed(list(zip(parts, bad, strict=True))):
        made[PART] = F.when(is_bad, name).otherwise(made[PART])
        for n in (SCHEMA_ID, *_TOLD):
            made[n] = F.when(is_bad, F.col(f"{name}_{n}")).otherwise(made[n])
    made[SCHEMA_ID] = F.nullif(made[SCHEMA_ID], F.lit(PLAIN_ID))
    made[IS_NEW] = reduce(or_, (F.col(f"{name}_{IS_NEW}") for name in parts))
    return rows.withColumns(made)
