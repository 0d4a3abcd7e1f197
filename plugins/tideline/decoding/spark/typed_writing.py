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

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from typing import Any, get_args

from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tideline.decoding.schemas.envelope import untold_columns
from tideline.decoding.spark.comparing import changed_rows
from tideline.decoding.spark.envelope_rows import IS_BARE
from tideline.decoding.spark.expectations import HALTING, failures_in, refused_conditions
from tideline.decoding.spark.expectations import counts as failures
from tideline.decoding.spark.fields import ERROR_CLASS
from tideline.decoding.spark.framing import IS_NEW, find_new_ids, find_new_schemas
from tideline.decoding.spark.judging import IS_DROPPED, IS_TOMBSTONE, judge
from tideline.decoding.spark.row_columns import for_typed, quarantine_columns, typed, typed_type
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

    `refuse_rules`, `write_typed` and `with_quarantine` say what they refuse.
    """
    if new := refuse_rules(raw, job):
        return new
    step = step_of(job.plan)
    counts = write_typed(raw, job, step)
    if counts["new"] and not job.is_last_round:
        return new_schemas(raw, job.plan)
    result = DecodeResult(
        decoded=SparkResult(rows=counts["good"]),
        raw_rows=counts["rows"],
        tombstones=counts["tombstones"],
        unasked=counts["new"],
        bare_updates=counts.get(IS_BARE, 0),
        failed=dict.fromkeys(job.plan.rules, 0) | failures_in(job.plan, counts, of_bad=False),
    )
    judged = raw.transform(judge(job.plan))
    if counts["bad"]:
        near = raw.transform(within(bad_places_in(counts["places"], step)))
        bad = Bad(near.transform(judge(job.plan)), job.plan)
        result = with_quarantine(result, [bad], counts["bad"], job)
    return compared(result, {"": (judged, job)}, [judged], job) if job.plan.is_again else result


def step_of(plan: DecodePlan) -> int:
    """So many offsets are one place of bad rows."""
    return max(1, sum(len(r.offsets) for r in plan.ranges) // _STEPS)


def write_typed(raw: DataFrame, job: DecodeJob, step: int) -> Mapping[str, Any]:
    """Write the typed rows of one table.

    Args:
        raw: The raw rows that may go there.
        job: Of that table.
        step: As `step_of` says.

    Returns:
        How many rows are `good`, `bad`, `new`, and so on; and where the bad ones are.

    `own_transform` and `refuse_other_rows` say what they refuse.
    """
    is_bad = F.col(ERROR_CLASS).isNotNull()
    judged = raw.transform(for_typed(job.plan)).transform(judge(job.plan, tells_why=False))
    metrics = [*_counts(is_bad, step), *failures(job.plan, of_bad=False)]
    if any(map(untold_columns, job.plan.parts)):
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
    if written is not None and (job.is_last_round or not counts["new"]):
        after = observed(written, rows, [_rows()])["rows"]
        refuse_other_rows(job.plan.transform, counts["good"], after)
    return counts


def refuse_rules(raw: DataFrame, job: DecodeJob) -> DecodeResult | None:
    """Refuse conditions of expectations that cannot be used; unless a column may come.

    Returns:
        New schemas, where a condition is wrong and there are some; else None.

    Raises:
        BadInput: A condition is wrong.
    """
    wrong = [text for name in job.plan.tables for text in _refused(raw, job.plan, name)]
    if not wrong:
        return None
    new = DecodeResult() if job.is_last_round else new_schemas(raw, job.plan)
    if new.asks_again:  # a column may come with them
        return new
    raise BadInput(f"{'; '.join(wrong)}. Nothing was decoded")


def _refused(raw: DataFrame, plan: DecodePlan, name: str) -> list[str]:
    """What is wrong with the conditions of a table's expectations."""
    plan = plan.of_type(name)
    if not plan.expect:
        return []
    found = refused_conditions(raw.sparkSession, typed_type(plan), plan.expect)
    key = f"decode.value.types.{name}.expect" if name else "decode.expect"
    return [
        f"{key}.{n} ({plan.expect[n].name}): got {shown(plan.expect[n].sql)}; {reason}"
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


def new_schemas(raw: DataFrame, plan: DecodePlan) -> DecodeResult:
    """Schemas that records carry, and that the plan does not name."""
    return DecodeResult(new_ids=find_new_ids(raw, plan), new_schemas=find_new_schemas(raw, plan))


def _good(judged: DataFrame) -> DataFrame:
    """The rows for the typed table; observe before."""
    return judged.filter(F.col(ERROR_CLASS).isNull() & ~F.col(IS_DROPPED))


def compared(
    result: DecodeResult,
    by_type: Mapping[str, tuple[DataFrame, DecodeJob]],
    others: Sequence[DataFrame],
    job: DecodeJob,
) -> DecodeResult:
    """With how many rows of the tables are others than those that stand there.

    Args:
        by_type: Of each typed table the judged rows, and its job.
        others: All judged rows, bad ones among them.
    """
    changed = 0
    for judged, of_type in by_type.values():
        plan = of_type.plan
        good = _good(_looked(judged)).transform(typed(plan))
        if plan.transform is not None:
            good = good.transform(own_transform(plan.transform))
        changed += changed_rows(good, plan.table_uri, of_type.decoded_files, plan.ranges)
    plan = job.plan
    bad = reduce(DataFrame.unionByName, (_bad_rows(_looked(rows), plan) for rows in others))
    files, ranges = job.quarantined_files, plan.ranges
    in_quarantine = changed_rows(bad, plan.quarantine_uri, files, ranges)
    return replace(result, changed=changed, quarantine_changed=in_quarantine)


def _looked(judged: DataFrame) -> DataFrame:
    return judged.observe(Observation(), _rows())  # several of them may be in one job


def _bad_rows(judged: DataFrame, plan: DecodePlan) -> DataFrame:
    """The rows for the quarantine; observe before."""
    return judged.filter(F.col(ERROR_CLASS).isNotNull()).transform(quarantine_columns(plan))


def _transformed(rows: DataFrame, name: str | None) -> tuple[DataFrame, Observation | None]:
    """The rows after the stream's own function, if it has one, and who counts them."""
    if name is None:
        return rows, None
    seen = Observation("transformed")
    return rows.transform(own_transform(name)).observe(seen, _rows()), seen


def _rows() -> Column:
    return F.count(F.lit(1)).alias("rows")


def bad_place(is_bad: Column, step: int) -> Column:
    """Where bad rows are, as a text: an observation hands over no arrays."""
    names = ("topic_id", "generation", "partition")
    place = F.concat_ws("/", *names, F.floor(F.col("offset") / F.lit(step)))
    return F.array_join(F.collect_set(F.when(is_bad, place)), " ")


def _counts(is_bad: Column, step: int) -> list[Column]:
    is_good = ~is_bad & ~F.col(IS_DROPPED)
    return [
        _rows(),
        F.count_if(is_good).alias("good"),
        F.count_if(is_bad).alias("bad"),
        F.count_if(F.col(IS_TOMBSTONE) & ~is_bad).alias("tombstones"),
        F.count_if(F.col(IS_NEW)).alias("new"),
        bad_place(is_bad, step).alias("places"),
    ]


def bad_places_in(text: str, step: int) -> Sequence[CoordinateRange]:
    """The steps of offsets with bad rows."""
    found = []
    for place in text.split():
        topic_id, generation, partition, n = place.split("/")
        start = int(n) * step
        log = (topic_id, int(generation), int(partition))
        found.append(CoordinateRange("", *log, start, start + step))
    return found


@dataclass(frozen=True, slots=True)
class Bad:
    """Rows of which some are bad.

    Args:
        judged: They, after `judge`.
        plan: Of their table.
        name: What stands before the names of its expectations.
    """

    judged: DataFrame
    plan: DecodePlan
    name: str = ""


def with_quarantine(
    result: DecodeResult, pieces: Sequence[Bad], expected: int, job: DecodeJob
) -> DecodeResult:
    """Write the bad rows of all pieces, and count them.

    Args:
        expected: How many they are.

    Raises:
        VerificationFailed: They are another number.
    """
    error_class = F.col(ERROR_CLASS)
    classes = [F.count_if(error_class == name).alias(name) for name in get_args(ErrorClass)]
    watched = [
        (Observation(f"quarantined {n}"), [*classes, *failures(piece.plan, of_bad=True)], piece)
        for n, piece in enumerate(pieces)
    ]
    bad = (
        _bad_rows(piece.judged.observe(seen, *metrics), job.plan)
        for seen, metrics, piece in watched
    )
    write_rows(reduce(DataFrame.unionByName, bad), job.quarantine)
    counts, failed, halting = Counter[str](), dict[str, int](), 0
    for seen, metrics, piece in watched:
        found = observed(seen, piece.judged, metrics)
        counts.update({name: found[name] for name in get_args(ErrorClass) if found[name]})
        of_piece = failures_in(piece.plan, found, of_bad=True)
        halting += of_piece.pop(HALTING, 0)
        failed |= {f"{piece.name}{name}": n for name, n in of_piece.items()}
    rows = counts.total()
    if rows != expected:
        raise VerificationFailed(
            f"{job.plan.plan_id}: {expected} records cannot be decoded, and {rows} of them were"
            " written for the quarantine; nothing was committed, clear the task or run again"
        )
    return replace(
        result,
        quarantined=SparkResult(rows=rows),
        classes=dict(counts),
        failed={**result.failed, **failed},
        halting=halting,
    )
