"""Write good rows in one pass, then the bad ones, which are few, in another.

The first pass decodes everything, and then applies the stream's own `transform`. It counts, and
notes where the bad rows are: by steps of offsets, so that a topic of bad rows only does not fill
the driver's memory. The second pass reads and decodes these steps again. It costs nothing where
every row is good, and as much as the first pass where bad rows are everywhere.

Another way is one pass that writes good and bad rows beside each other, and moves the files then.
Object stores cannot move files.

Each pass observes before it filters: Spark moves no filter below an observation. Moved below the
decoding, a filter by its outcome would decode each record several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import get_args

from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tideline.decoding.schemas.envelope import untold_columns
from tideline.decoding.spark.comparing import changed_rows
from tideline.decoding.spark.envelope import IS_BARE
from tideline.decoding.spark.expectations import HALTING, counted, refusals
from tideline.decoding.spark.expectations import counts as failures
from tideline.decoding.spark.fields import ERROR_CLASS
from tideline.decoding.spark.framing import IS_NEW, find_new_ids, find_new_schemas
from tideline.decoding.spark.judging import IS_DROPPED, IS_TOMBSTONE, judge
from tideline.decoding.spark.rows import for_typed, quarantined, typed, typed_type
from tideline.errors import BadInput, VerificationFailed
from tideline.model.decoding import DecodePlan, ErrorClass
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import DecodeJob, DecodeResult, SparkResult
from tideline.model.wording import shown
from tideline.spark.coordinates import Transform, within
from tideline.spark.failures import reason_of_values
from tideline.spark.raw_rows import observed, write_rows


def own_transform(name: str) -> Transform:
    """Run a function over typed rows; it may change values, and neither columns nor rows.

    Args:
        name: `module:function`, importable where Spark's driver runs.

    Raises:
        BadInput: It cannot be imported, or returns other columns.
    """
    module, _, function = name.partition(":")
    try:
        change = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise BadInput(
            f"decode.transform: {name} cannot be imported by Spark's driver: {error}; install its"
            " module there, or put its folder on PYTHONPATH"
        ) from error

    def transform(rows: DataFrame) -> DataFrame:
        changed: DataFrame = change(rows)
        expected = [(f.name, f.dataType.simpleString()) for f in rows.schema.fields]
        actual = {f.name: f.dataType.simpleString() for f in changed.schema.fields}
        wrong = [f"{n} {kind}" for n, kind in expected if actual.pop(n, None) != kind]
        if wrong or actual:
            raise BadInput(
                f"decode.transform: {name} has to return the columns that it is given:"
                f" {', '.join(wrong) or 'none'} missing or of another type,"
                f" {', '.join(actual) or 'none'} too many"
            )
        return changed.select(*rows.columns)

    return transform


def refuse_other_rows(name: str | None, given: int, written: int) -> None:
    """Hold the rows that were written against those that were decoded.

    Raises:
        VerificationFailed: The function has dropped rows, or added some.
    """
    if given != written:
        raise VerificationFailed(
            f"decode.transform: {name} has made {written} rows of {given}; it has to keep each row"
            " and its coordinates; nothing was committed"
        )


_STEPS = 50_000
"""About so many places of bad rows are noted at most."""


def write_decoded(raw: DataFrame, job: DecodeJob) -> DecodeResult:
    """Write the typed rows and the quarantined ones into their attempts' folders.

    Args:
        raw: The raw rows at the plan's coordinates.
        job: Where the rows go.

    Returns:
        The counts; or ids that the plan does not name, and then nothing else.

    Raises:
        BadInput: The stream's own function cannot be used, or a condition of its expectations.
        VerificationFailed: It has dropped or added rows; or the two passes have not found the same
            bad rows.
    """
    if wrong := _refused(raw, job.plan):
        new = DecodeResult() if job.is_last_round else _new_schemas(raw, job.plan)
        if new.asks_again:  # a column may come with them
            return new
        raise BadInput(f"{'; '.join(wrong)}. Nothing was decoded")
    step = max(1, sum(len(r.offsets) for r in job.plan.ranges) // _STEPS)
    is_bad = F.col(ERROR_CLASS).isNotNull()
    judged = raw.transform(for_typed(job.plan)).transform(judge(job.plan))
    metrics = [*_counts(is_bad, step), *failures(job.plan, of_bad=False)]
    if looks := any(map(untold_columns, job.plan.parts)):
        metrics.append(F.count_if(F.col(IS_BARE)).alias(IS_BARE))
    seen = Observation("decoded")
    good = _good(judged.observe(seen, *metrics))
    rows, written = _transformed(good.transform(typed(job.plan)), job.plan.transform)
    try:
        write_rows(rows, job.decoded)
    except Exception as error:
        _refuse_a_rule(raw, job.plan, error)
        raise
    counts = observed(seen, judged, metrics)
    if counts["new"] and not job.is_last_round:
        return _new_schemas(raw, job.plan)
    if written is not None:
        after = observed(written, rows, [_rows()])["rows"]
        refuse_other_rows(job.plan.transform, counts["good"], after)
    result = DecodeResult(
        decoded=SparkResult(rows=counts["good"]),
        raw_rows=counts["rows"],
        tombstones=counts["tombstones"],
        unasked=counts["new"],
        bare_updates=counts[IS_BARE] if looks else 0,
        failed={rule.name: 0 for rule in job.plan.expect} | counted(job.plan, counts, of_bad=False),
    )
    if counts["bad"]:
        near = raw.transform(within(_places(counts["places"], step)))
        result = _with_quarantine(result, near.transform(judge(job.plan)), counts["bad"], job)
    return _compared(result, raw.transform(judge(job.plan)), job) if job.plan.is_again else result


def _refused(raw: DataFrame, plan: DecodePlan) -> list[str]:
    """What is wrong with the conditions of expectations."""
    if not plan.expect:
        return []
    found = refusals(raw.sparkSession, typed_type(plan), plan.expect)
    return [
        f"decode.expect.{n} ({plan.expect[n].name}): got {shown(plan.expect[n].sql)}; {reason}"
        for n, reason in found
    ]


def _refuse_a_rule(raw: DataFrame, plan: DecodePlan, error: Exception) -> None:
    """Name the rule that has failed a job: Spark looks at constants, as patterns, before any row.

    Raises:
        BadInput: It fails alone as well.
    """
    if (why := _reason(error)) is None:
        return
    for rule in plan.expect:
        judged = raw.transform(for_typed(plan)).transform(judge(replace(plan, expect=(rule,))))
        try:
            judged.write.format("noop").mode("overwrite").save()
        except Exception as again:
            if _reason(again) is None:
                raise
            raise BadInput(
                f"decode.expect ({rule.name}): got {shown(rule.sql)}; Spark fails, and gives no"
                f" null: {why}. Nothing was decoded; correct it"
            ) from error


def _reason(error: Exception) -> str | None:
    """Why a job fails each time, also for a constant; None where it may pass."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    is_constant = isinstance(error, IllegalArgumentException)
    if is_constant or (condition or "").startswith("INVALID_FORMAT"):
        return str(error).split("\n", 1)[0]
    return reason_of_values(error)


def _new_schemas(raw: DataFrame, plan: DecodePlan) -> DecodeResult:
    """Schemas that records carry, and that the plan does not name."""
    return DecodeResult(new_ids=find_new_ids(raw, plan), new_schemas=find_new_schemas(raw, plan))


def _good(judged: DataFrame) -> DataFrame:
    """The rows for the typed table; observe before."""
    return judged.filter(F.col(ERROR_CLASS).isNull() & ~F.col(IS_DROPPED))


def _compared(result: DecodeResult, judged: DataFrame, job: DecodeJob) -> DecodeResult:
    """With how many rows of both tables are others than those that stand there."""
    looked = judged.observe(Observation("compared"), _rows())
    plan, good = job.plan, _good(looked).transform(typed(job.plan))
    if plan.transform is not None:
        good = good.transform(own_transform(plan.transform))
    bad = looked.filter(F.col(ERROR_CLASS).isNotNull()).transform(quarantined(plan))
    return replace(
        result,
        changed=changed_rows(good, plan.table_uri, job.decoded_files, plan.ranges),
        quarantine_changed=changed_rows(
            bad, plan.quarantine_uri, job.quarantined_files, plan.ranges
        ),
    )


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
    metrics = [*classes, *failures(job.plan, of_bad=True)]
    bad = judged.observe(seen, *metrics).filter(error_class.isNotNull())
    write_rows(bad.transform(quarantined(job.plan)), job.quarantine)
    found = observed(seen, judged, metrics)
    counts = {name: count for name in get_args(ErrorClass) if (count := found[name])}
    failed = counted(job.plan, found, of_bad=True)
    halting = failed.pop(HALTING, 0)
    rows = sum(counts.values())
    if rows != expected:
        raise VerificationFailed(
            f"{job.plan.plan_id}: {expected} records cannot be decoded, and {rows} of them were"
            " written for the quarantine; nothing was committed, clear the task or run again"
        )
    return replace(
        result,
        quarantined=SparkResult(rows=rows),
        classes=counts,
        failed={**result.failed, **failed},
        halting=halting,
    )
