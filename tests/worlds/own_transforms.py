"""Functions that a stream file may name as `decode.transform`."""

from pyspark.sql import functions as F


def doubled(rows):
    return rows.withColumn("id", F.col("id") * 2)


def dropping(rows):
    return rows.filter("id % 2 = 0")


def widening(rows):
    return rows.withColumn("more", F.lit(1))


def renaming(rows):
    return rows.drop("id")
