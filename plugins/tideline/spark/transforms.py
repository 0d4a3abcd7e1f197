"""From Kafka's columns to the table's columns. `DataFrame -> DataFrame`, native functions only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tideline.model.offsets import CoordinateRange
from tideline.table.schema import COLUMNS

Transform = Callable[[DataFrame], DataFrame]


def to_table_rows(ranges: Sequence[CoordinateRange], plan_id: str) -> Transform:
    """Add topic id, generation and plan id, and select the table's columns in their order.

    Kafka's columns already have the table's types.

    Args:
        ranges: The plan's ranges; they give topic id and generation of each partition.
        plan_id: The plan that lands the rows.
    """

    def transform(records: DataFrame) -> DataFrame:
        made = {
            "timestamp_type": F.col("timestampType"),
            "topic_id": _topic_ids(ranges),
            "generation": _generations(ranges),
            "plan_id": F.lit(plan_id),
        }
        return records.select(*(made[n].alias(n) if n in made else n for n in COLUMNS))

    return transform


def _topic_ids(ranges: Sequence[CoordinateRange]) -> Column:
    ids = {planned.topic: planned.topic_id for planned in ranges}
    if len(ids) == 1:
        return F.lit(next(iter(ids.values())))
    return _lookup(ids, F.col("topic"))


def _generations(ranges: Sequence[CoordinateRange]) -> Column:
    """By partition, and by offset where a generation begins inside a partition's ranges."""
    if len({p.generation for p in ranges}) == 1:
        return F.lit(ranges[0].generation)
    place = F.concat_ws("/", F.col("topic"), F.col("partition"))
    lowest, *later = layers(ranges)
    column = _lookup({name: p.generation for name, p in lowest.items()}, place)
    for layer in later:
        begins = _lookup({name: p.start_offset for name, p in layer.items()}, place)
        generation = _lookup({name: p.generation for name, p in layer.items()}, place)
        column = F.when(F.col("offset") >= begins, generation).otherwise(column)
    return column


def layers(ranges: Sequence[CoordinateRange]) -> list[dict[str, CoordinateRange]]:
    """The lowest range of each partition by `topic/partition`, then the next ones, and so on."""
    found: list[dict[str, CoordinateRange]] = []
    for planned in sorted(ranges, key=lambda r: r.start_offset):
        name = f"{planned.topic}/{planned.partition}"
        depth = sum(name in layer for layer in found)
        if depth == len(found):
            found.append({})
        found[depth][name] = planned
    return found


def _lookup(values: dict[str, str] | dict[str, int], key: Column) -> Column:
    literals = chain.from_iterable((F.lit(k), F.lit(v)) for k, v in values.items())
    return F.create_map(*literals)[key]
