"""Write good rows in one pass, then the bad ones, which are few, in another.

The first pass decodes everything. It counts, and notes where the bad rows are: by steps of offsets,
so that a topic of bad rows only does not fill the driver's memory. The second pass reads and
decodes these steps again. It costs nothing where every row is good, and as much as the first pass
where bad rows are everywhere.

Another way is one pass that writes good and bad rows beside each other, and moves the files then.
Object stores cannot move files.

Each pass observes before it filters: Spark moves no filter below an observation. Moved below the
decoding, a filter by its outcome would decode each record several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tideline.errors import VerificationFailed
from tideline.launch.job import DecodeJob, DecodeResult, SparkResult
from tideline.model.decoding import ErrorClass
from tideline.model.offsets import CoordinateRange
from tideline.spark.decoding.coordinates import within
from tideline.spark.decoding.formats import ERROR_CLASS
from tideline.spark.decoding.framing import IS_NEW
from tideline.spark.decoding.judging import IS_DROPPED, IS_TOMBSTONE
from tideline.spark.decoding.new_ids import find_new_ids
from tideline.spark.decoding.tables import for_typed, quarantined, typed
from tideline.spark.decoding.transform import own_transform, refuse_other_rows
from tideline.spark.sink import observed, write_rows
from tideline.spark.transforms import Transform

_STEPS = 50_000
"""About so many places of bad rows are noted at most."""


def write_decoded(raw: DataFrame, judge: Transform, job: DecodeJob) -> DecodeResult:
    """Write the typed rows and the quarantined ones into their attempts' folders.

    Args:
        raw: The raw rows at the plan's coordinates.
        judge: Decodes them; of the same row it says the same each time.
        job: Where the rows go.

    Returns:
        The counts; or ids that the plan does not name, and then nothing else.

    Raises:
        BadInput: The stream's own function cannot be used.
        VerificationFailed: It has dropped or added rows; or the two passes have not found the same
            bad rows.
    """
    step = max(1, sum(len(r.offsets) for r in job.plan.ranges) // _STEPS)
    is_bad = F.col(ERROR_CLASS).isNotNull()
    judged = raw.transform(for_typed(job.plan)).transform(judge)
    metrics, seen = _counts(is_bad, step), Observation("decoded")
    good = judged.observe(seen, *metrics).filter(~is_bad & ~F.col(IS_DROPPED))
    rows, written = _transformed(good.transform(typed(job.plan)), job.plan.transform)
    write_rows(rows, job.decoded)
    counts = observed(seen, judged, metrics)
    if counts["new"] and not job.is_last_round:
        return DecodeResult(new_ids=find_new_ids(raw, job.plan))
    if written is not None:
        after = observed(written, rows, [_rows()])["rows"]
        refuse_other_rows(job.plan.transform, counts["good"], after)
    result = DecodeResult(
        decoded=SparkResult(rows=counts["good"]),
        raw_rows=counts["rows"],
        tombstones=counts["tombstones"],
    )
    if not counts["bad"]:
        return result
    near = raw.transform(within(_places(counts["places"], step)))
    return _with_quarantine(result, near.transform(judge), counts["bad"], job)


def _transformed(rows: DataFrame, name: str | None) -> tuple[DataFrame, Observation | None]:
    """The rows after the stream's own function, if it has one, and who counts them."""
    if name is None:
        return rows, None
    seen = Observation("transformed")
    return rows.transform(own_transform(name)).observe(seen, _rows()), seen


def _rows() -> Column:
    return F.count(F.lit(1)).alias("rows")


def _counts(is_bad: Column, step: int) -> list[Column]:
    names = ("topic_id", "generation", "partition")
    place = F.concat_ws("/", *names, F.floor(F.col("offset") / F.lit(step)))
    is_good = ~is_bad & ~F.col(IS_DROPPED)
    return [
        _rows(),
        F.count_if(is_good).alias("good"),
        F.count_if(is_bad).alias("bad"),
        F.count_if(F.col(IS_TOMBSTONE) & ~is_bad).alias("tombstones"),
        F.count_if(F.col(IS_NEW)).alias("new"),
        # As a text: an observation hands over no arrays.
        F.array_join(F.collect_set(F.when(is_bad, place)), " ").alias("places"),
    ]


def _places(text: str, step: int) -> Sequence[CoordinateRange]:
    """The steps of offsets with bad rows."""
    found = []
    for place in text.split():
        topic_id, generation, partition, n = place.split("/")
        start = int(n) * step
        log = (topic_id, int(generation), int(partition))
        found.append(CoordinateRange("", *log, start, start + step))
    return found


def _with_quarantine(
    result: DecodeResult, judged: DataFrame, expected: int, job: DecodeJob
) -> DecodeResult:
    error_class = F.col(ERROR_CLASS)
    seen = Observation("quarantined")
    classes = [F.count_if(error_class == name).alias(name) for name in get_args(ErrorClass)]
    bad = judged.observe(seen, *classes).filter(error_class.isNotNull())
    write_rows(bad.transform(quarantined(job.plan)), job.quarantine)
    found = observed(seen, judged, classes)
    counts = {name: count for name, count in found.items() if count}
    rows = sum(counts.values())
    if rows != expected:
        raise VerificationFailed(
            f"{job.plan.plan_id}: {expected} records cannot be decoded, and {rows} of them were"
            " written for the quarantine; nothing was committed, clear the task or run again"
        )
    return replace(result, quarantined=SparkResult(rows=rows), classes=counts)
