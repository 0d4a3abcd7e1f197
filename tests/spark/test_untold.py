"""Deletes that may lack a column of the key: Spark's rules decide, over Arrow they are the same."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.folds import Folds, at, change, place
from tests.worlds.record_keys import KINDS, TEXTS, UNSET
from tideline.folding.arrow import untold
from tideline.folding.spark import folding as by_spark
from tideline.folding.spark.changes import record_key
from tideline.model.current import CurrentColumn, Deletes, Layout
from tideline.model.spark_job import FoldResult
from tideline.spark.unset import is_unset

RECORDS = 120
"""Each with a history of its own; all are folded at once."""
BY_W = {
    "order": "sequence",
    "layout": Layout(("k", "v"), 3, sequence=("w",)),
    "sequence": (CurrentColumn("sequence_1", "w", "long"),),
}
WAYS = {
    "one partition": {},
    "two incarnations": {"eras": (ID, OTHER_ID)},
    "by time": {"order": "time"},
    "by a declared order": BY_W,
}


def histories(rng, way):
    """Changes of many records: rows of theirs come, go, go again, with and without their values."""
    topics = (ID, OTHER_ID) if way == "two incarnations" else (ID,)
    partitions = (0,) if way == "one partition" else (0, 1)
    next_offset = {}
    for number in range(RECORDS):
        own = rng.choice(partitions)
        for _ in range(rng.randrange(1, 8)):
            partition = own if rng.random() < 0.8 else rng.choice(partitions)
            topic = rng.choice(topics)
            offset = next_offset.get((topic, partition), 0)
            next_offset[topic, partition] = offset + 1
            op = rng.choice(["c", "c", "u", "d", "d", None, None])
            value = None if op is None else rng.choice(["eu", "us", "", None])
            if way in ("one partition", "by time") and rng.random() < 0.004:
                op, value = "t", None
            row = change(offset, f'r{number}"\\', op, value, rng.randrange(9), partition=partition)
            row |= {"topic_id": topic, "generation": rng.choice([0, 0, 1])}
            row["timestamp"] += timedelta(seconds=rng.randrange(-5, 5))
            yield row
            if op == "d" and rng.random() < 0.5:
                next_offset[topic, partition] += 1
                after = row | {"op": None, "is_tombstone": True, "v": None, "offset": offset + 1}
                yield after


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("way", WAYS)
def test_both_ways_refuse_the_same_deletes(spark, tmp_path, way, seed, monkeypatch):
    """Of all, of some that are folded above or below others, and of a look; in memory or not."""
    rng = random.Random(f"{way} {seed}")
    for module in (untold, by_spark):
        monkeypatch.setattr(module, "_MOST_NAMED", 10_000)
    if (seed + [*WAYS].index(way)) % 2:
        monkeypatch.setattr(untold, "_HELD", 20)
    deletes = Deletes(True, "op", "d", ("v",), ("k",), True)
    plan = {"layout": Layout(("k", "v"), 3), "deletes": deletes, "has_unavailable": False}
    folds = Folds(spark.session, tmp_path, **(plan | WAYS[way]))
    both, jobs, rows = folds.ways.fold, [], [*histories(rng, way)]
    folds.has(*rows)
    places = sorted(place(row) for row in rows)
    ranges = [at(p[3], p[3] + 1, p[2], p[1], p[0]) for p in places]
    folds.ways.fold = lambda spark, job: jobs.append(job) or FoldResult(left=(None,))
    folds.fold(ranges)
    (job,) = jobs
    half = len(ranges) // 2
    some = {
        "all": (ranges, {}),
        "anew": (ranges, {"is_anew": True}),
        "above": ([r for r in ranges if r.start_offset >= half], {}),
        "below": ([r for r in ranges if r.start_offset < half], {}),
        "any": (rng.sample(ranges, half), {}),
    }
    refused = 0
    for number, (name, (chosen, facts)) in enumerate(some.items()):
        covered = {"covered": tuple(ranges), "ranges": tuple(chosen)}
        one = replace(job, plan=replace(job.plan, **covered, **facts))
        one = replace(one, current=replace(one.current, folder=f"landed-{number}"))
        if name in ("any", "above"):
            both(spark.session, replace(one, every_file=()))
            one = replace(one, current=replace(one.current, folder=f"landed-{number}-again"))
        refused += len(both(spark.session, one).refused)
    both(spark.session, replace(job, is_look=True))
    assert refused > 10
    assert not folds.ways.spark


def test_records_keys_and_values_that_were_not_told_are_alike(spark):
    """Spark's text of each type's values, and what it takes for no value."""
    for kind, values in KINDS.items():
        rows = spark.session.createDataFrame(
            [(n, v) for n, v in enumerate(values)], f"n int, x {sql(kind)}"
        )
        made = rows.select(
            record_key(["x"]).alias("text"), is_unset(F.col("x"), kind).alias("unset"), "n"
        )
        found = sorted(made.collect(), key=lambda row: row["n"])
        assert [row["text"] for row in found] == TEXTS[kind]
        assert [row["unset"] for row in found] == UNSET[kind]


def sql(kind):
    return {"long": "bigint", "integer": "int"}.get(kind, kind)
