"""Hold each good row against what the stream file expects of it, in the pass that decodes it.

A condition is Spark's SQL over the typed table's columns. It has to say the same of a row each
time: the quarantine is written by a second pass, and a clear makes the rows anew. So whatever
depends on the time, on chance or on other rows is refused, by what Spark has made of the text.

A condition that cannot be worked out, as a division by zero or a sum that is too large, is null.
Conditions are resolved in ANSI mode, in which Spark raises an error rather than giving a wrong
value; the error is caught around the condition. The session has that mode (`PINNED`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import add, and_
from typing import Any, cast

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructType
from pyspark.sql.utils import is_remote

from tideline.decoding.spark.fields import ERROR, ERROR_CLASS
from tideline.model.decoding import UNAVAILABLE, DecodePlan, ErrorClass, Expectation
from tideline.spark.coordinates import Transform

FAILED: ErrorClass = "expectation"
_THIRD_DAY = date(1970, 1, 3)
_BEFORE, _IS_ASKED, _FAILED = "so far {}", "is asked", "failed_expectations"
"""Names of columns while conditions are resolved; no column of a Delta table may have a space."""
_NOW = re.compile(
    r"\b(current_(date|timestamp|time|user)|localtimestamp)\b|\b(now|curdate|user|session_user"
    r"|unix_timestamp) *\( *\)",
    re.IGNORECASE,
)
"""Functions that say something else at another time, or to another user, where nobody can ask
what Spark makes of a text: on Spark Connect, or without columns."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_UNSTEADY = re.compile(r"Now|Current\w+|LocalTime\w*|SparkVersion|AesEncrypt")
"""The same as classes of expressions; AES begins with random bytes."""
_MOVING = re.compile(r"(?<!\w)(?:now|today|tomorrow|yesterday)(?![a-z`])", re.IGNORECASE)
"""Texts that Spark takes for a time of now."""
_SPELLS = re.compile(rf"{_MOVING.pattern}|\\\\|\\(?!['\"])", re.IGNORECASE)
_OF_RECORDS = ("AttributeReference", "NamedLambdaVariable")
_DAYS = "ExtractANSIIntervalDays"
_CONSTANT = {
    **dict.fromkeys(("FormatString", "StringSpace"), slice(1)),
    **dict.fromkeys(("StringRepeat", "ArrayRepeat", "StringLPad", "StringRPad"), slice(1, 2)),
    **dict.fromkeys(("DateAdd", "DateSub"), slice(1, 2)),
    "Sequence": slice(3),
}
"""Arguments that say how much memory it takes; or a number of days, which Spark lets wrap."""


HALTING = ""
"""Stands for all rules that halt; no rule has this name."""
_BITS, _TALLY = 31, "tally_{}"


def add_expectation_columns(plan: DecodePlan, columns: list[Column], is_gone: Column) -> Transform:
    """Add a column for each expectation; a good row that fails one may become bad.

    Tombstones and deletes are not asked: they hold no row. Where a change did not bring all values,
    a condition that is null does not fail.

    Args:
        plan: With its expectations.
        columns: The typed table's.
        is_gone: Whether a row is a tombstone's, or a delete's.
    """
    part = "key" if [p.part for p in plan.parts] == ["key"] else "value"
    lacks = F.col(UNAVAILABLE).isNotNull() if any(p.unavailable for p in plan.parts) else None

    def condition(rule: Expectation) -> Column:
        passes = F.lit(rule.on_null == "pass")
        return F.coalesce(null_on_error(rule.sql), passes if lacks is None else passes | lacks)

    def transform(rows: DataFrame) -> DataFrame:
        there = {_BEFORE.format(name): name for name in rows.columns}
        is_asked = (F.col(ERROR_CLASS).isNull() & ~is_gone).alias(_IS_ASKED)
        wide = rows.select(*(F.col(n).alias(b) for b, n in there.items()), is_asked, *columns)
        bits = [F.when(condition(rule), 0).otherwise(1 << n) for n, rule in enumerate(plan.expect)]
        failed = F.when(F.col(_IS_ASKED), reduce(Column.bitwiseOR, bits)).otherwise(0)
        rows = wide.select(
            *(F.col(b).alias(n) for b, n in there.items()), failed.cast("long").alias(_FAILED)
        )
        barring = [(n, rule) for n, rule in enumerate(plan.expect) if rule.on_fail != "count"]
        is_barred = _fails(*(n for n, _ in barring))
        names = [F.when(_fails(n), F.lit(rule.name)) for n, rule in barring]
        text = F.concat(F.lit("fails "), F.array_join(F.array(*names), ", "))
        failures = {
            "part": F.when(is_barred, part).otherwise(F.col("part")),
            ERROR_CLASS: F.when(is_barred, FAILED).otherwise(F.col(ERROR_CLASS)),
            ERROR: F.when(is_barred, text).otherwise(F.col(ERROR)),
        }
        return rows.withColumns(failures) if barring else rows

    return transform


def null_on_error(sql: str) -> Column:
    """A condition, and null where an exception is raised while it is worked out.

    Of a day and a number, `try_add` is Spark's `TryEval`: it catches whatever its arguments raise.
    Spark's optimizer moves parts of them elsewhere, ahead of it: so the condition has to stand in a
    branch of CASE, and the day may not be a constant.
    """
    day = F.date_from_unix_date(F.col(_IS_ASKED).cast("int"))
    return F.try_add(day, F.expr(sql).cast("int")) == F.lit(_THIRD_DAY)


def counts(plan: DecodePlan, *, of_bad: bool) -> list[Column]:
    """What to observe, for `counted`: each number is a sum of two flags, and costs as much as one.

    Args:
        of_bad: Whether of rules whose failing rows are bad, which the second pass sees; or of
            those that only count, whose rows only the first pass sees.
    """
    bits = [
        F.when(flag, F.lit(1 << _BITS * (n % 2))).otherwise(0)
        for n, flag in enumerate(_flags(plan, of_bad=of_bad).values())
    ]
    pairs = (reduce(add, bits[n : n + 2]) for n in range(0, len(bits), 2))
    fails_none = F.col(_FAILED) == 0
    return [
        F.sum(F.when(fails_none, F.lit(0)).otherwise(pair)).alias(_TALLY.format(k))
        for k, pair in enumerate(pairs)
    ]


def failures_in(plan: DecodePlan, observed: Mapping[str, int], *, of_bad: bool) -> dict[str, int]:
    """How many rows fail each of these rules, and of bad ones at least one that halts."""
    found = {}
    for n, name in enumerate(_flags(plan, of_bad=of_bad)):
        total = observed[_TALLY.format(n // 2)] or 0  # of no rows the sum is null
        found[name] = total >> _BITS * (n % 2) & (1 << _BITS) - 1
    return found


def _flags(plan: DecodePlan, *, of_bad: bool) -> dict[str, Column]:
    rules = list(enumerate(plan.expect))
    flags = {r.name: _fails(n) for n, r in rules if (r.on_fail != "count") == of_bad}
    if halting := [n for n, r in rules if r.on_fail == "halt"] if of_bad else []:
        flags[HALTING] = _fails(*halting)
    return flags


def _fails(*numbers: int) -> Column:
    """Whether a row fails one of some expectations."""
    return F.col(_FAILED).bitwiseAND(F.lit(sum(1 << n for n in numbers))) != 0


def refused_conditions(
    spark: SparkSession, columns: StructType | None, rules: Sequence[Expectation]
) -> Iterator[tuple[int, str]]:
    """Which conditions cannot be used, by their numbers, and why.

    Args:
        columns: The typed table's; None where nobody knows them: then only the grammar counts.
    """
    rows = spark.createDataFrame([], columns or "_ boolean")
    if _refused(rows, [rule.sql for rule in rules], is_known=columns is not None) is None:
        return
    for number, rule in enumerate(rules):
        reason = _refused(rows, [rule.sql], is_known=columns is not None)
        if reason is not None:
            yield number, reason


def _refused(rows: DataFrame, conditions: Sequence[str], *, is_known: bool) -> str | None:
    """Why one of the conditions cannot be used; all together take Spark as long as one."""
    is_resolved = is_known and not is_remote()
    if unsteady := _unsteady_text(rows, conditions, is_resolved=is_resolved):
        return _is_unsteady(unsteady)
    try:
        columns = [F.expr(sql).alias(f"c{n}") for n, sql in enumerate(conditions)]
        for field in rows.select(*columns).schema:
            if not isinstance(field.dataType, BooleanType):
                kind = field.dataType.simpleString()
                return f"it is of type {kind}; allowed: a condition, true or false"
        met = rows.filter(reduce(and_, map(F.expr, conditions)))  # neither sums nor windows
        _ = met.schema
    except PySparkException as error:
        if not (is_known or isinstance(error, ParseException)):
            return None
        text = str(error).strip().splitlines()[0].rstrip(";")
        return f"Spark refuses it: {text[:500]}"
    return _refused_as_resolved(cast(Any, met)) if is_resolved else None


def _refused_as_resolved(met: Any) -> str | None:
    """Why conditions cannot be used, by what Spark has made of them."""
    plan = met._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        return (
            "it depends on chance or on Spark, and rows are decoded again; allowed: columns' values"
        )
    if not plan.subqueriesAll().isEmpty():
        return "it asks other tables, which change; allowed: columns' values"
    if not plan.child().children().isEmpty():
        return "it makes other rows of a row; allowed: a condition"
    for part in _Part.read(iter(json.loads(plan.condition().toJSON()))).all():
        if _UNSTEADY.fullmatch(part.name):
            return _is_unsteady(part.name)
        if part.is_moving:
            return _is_unsteady("a text as 'now'")
        if part.needs_constants:
            return (
                f"{part.name} by a record's number may take all memory, or wrap; allowed: a"
                " constant, and day + n * interval 1 day"
            )
    return None


def _is_unsteady(what: str) -> str:
    return (
        f"{what} says something else at another time, or to another Spark or user, and rows are"
        " decoded again; allowed: the column timestamp, Kafka's time of the record"
    )


def _unsteady_text(rows: DataFrame, conditions: Sequence[str], *, is_resolved: bool) -> str | None:
    """What in a text says something else at another time.

    Args:
        is_resolved: Whether what Spark makes of functions is looked at as well.
    """
    for sql in conditions:
        if not is_resolved and (found := _NOW.search(_QUOTED.sub("''", sql))):
            return found[0]
        if _has_literal_of_now(rows, sql):
            return "a literal as 'now'"
    return None


def _has_literal_of_now(rows: DataFrame, sql: str) -> bool:
    """Whether a literal, as `date 'today'`, depends on the time: once parsed, it is a constant.

    With another word in place of that one, and of what may spell it, it is no literal.
    """
    other = _SPELLS.sub("never", sql)
    try:
        _ = other == sql or rows.select(F.expr(other)).schema
    except PySparkException as error:
        return error.getCondition() == "INVALID_TYPED_LITERAL"
    return False


@dataclass(frozen=True, slots=True)
class _Part:
    """An expression as Spark has resolved it.

    Args:
        name: Its class.
        facts: What Spark writes of it.
        inner: The expressions that it is made of.
    """

    name: str
    facts: Mapping[str, Any]
    inner: tuple[_Part, ...]

    @classmethod
    def read(cls, nodes: Iterator[Mapping[str, Any]]) -> _Part:
        """Take an expression off a list in which each stands before its own ones."""
        node = next(nodes)
        name = str(node["class"]).rpartition(".")[2]
        return cls(name, node, tuple(cls.read(nodes) for _ in range(node["num-children"])))

    def all(self, *, but_times: bool = False) -> Iterator[_Part]:
        """It and all within; or without those that make a time of something, and what they use."""
        if not (but_times and self.makes_time):
            yield self
            for part in self.inner:
                yield from part.all(but_times=but_times)

    @property
    def makes_time(self) -> bool:
        """Whether it makes a time or a day of something else, as of a text."""
        is_cast = self.name == "Cast" and str(self.facts["dataType"]).startswith(("date", "time"))
        return is_cast or self.name in ("ParseToDate", "ParseToTimestamp")

    @property
    def is_of_records(self) -> bool:
        """Whether it is another value for another record."""
        return any(part.name in _OF_RECORDS for part in self.all())

    @property
    def is_moving(self) -> bool:
        """Whether it makes a time of a constant text that may say now."""
        if not self.makes_time or self.inner[0].is_of_records:
            return False
        made_of = [*self.inner[0].all(but_times=True)]
        constants = [part.facts for part in made_of if part.name == "Literal"]
        texts = [facts["value"] for facts in constants if facts["dataType"] == "string"]
        return bool(texts) and (len(made_of) > 1 or bool(_MOVING.search(str(texts[0]))))

    @property
    def needs_constants(self) -> bool:
        """Whether a record's value may make it take all memory, or wrap."""
        asked = self.inner[_CONSTANT.get(self.name, slice(0))]
        return any(part.is_of_records and part.name != _DAYS for part in asked)
