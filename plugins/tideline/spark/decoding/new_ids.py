"""Ids of schemas that records carry and the plan does not name."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.model.decoding import DecodePlan
from tideline.spark.decoding.formats import SCHEMA_ID
from tideline.spark.decoding.framing import IS_NEW, unframe

MOST = 1000
"""Ids of one part that are told at once."""


def find_new_ids(raw: DataFrame, plan: DecodePlan) -> dict[str, tuple[int, ...]]:
    """The new ids by part, at most `MOST` of each; looked for only where there are some.

    A set of all ids would grow with the records: any four bytes are an id.
    """
    found = {}
    for part in plan.parts:
        ids = raw.select(part.part).transform(lambda rows, part=part: unframe(rows, part))
        ids = ids.filter(F.col(IS_NEW)).select(SCHEMA_ID).distinct().limit(MOST)
        found[part.part] = tuple(sorted(row[SCHEMA_ID] for row in ids.collect()))
    return {part: ids for part, ids in found.items() if ids}
