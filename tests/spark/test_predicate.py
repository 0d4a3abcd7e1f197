"""What Spark makes of the predicate of many ranges."""

import random

from pyspark.sql import functions as F

from tests.unit.build import ID, OTHER_ID, planned
from tideline.table.predicate import coordinates_predicate


def test_it_is_true_for_exactly_the_planned_coordinates(spark):
    """300 ranges with partitions left out, of two topics and two generations, against a sieve."""
    chance = random.Random(1)
    ranges = []
    for topic_id, generation in ((ID, 0), (ID, 1), (OTHER_ID, 0)):
        for partition in sorted(chance.sample(range(150), 100)):
            start, end = sorted(chance.sample(range(40), 2))
            ranges.append(planned(start, end, partition, topic_id=topic_id, generation=generation))
    session = spark.session
    ids = F.array(F.lit(ID), F.lit(OTHER_ID))
    number = F.col("id")
    rows = session.range(2 * 2 * 150 * 40).select(
        F.get(ids, (number % 2).cast("int")).alias("topic_id"),
        (F.floor(number / 2) % 2).cast("int").alias("generation"),
        (F.floor(number / 4) % 150).cast("int").alias("partition"),
        F.floor(number / 600).alias("offset"),
    )
    found = {tuple(row) for row in rows.where(coordinates_predicate(ranges)).collect()}
    assert found == {
        (r.topic_id, r.generation, r.partition, offset)
        for r in ranges
        for offset in range(r.start_offset, r.end_offset)
    }
