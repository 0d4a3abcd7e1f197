"""Conditions of all kinds: what each is of a row that is hostile, and which are refused."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from tideline.decoding.spark.expectations import null_on_error, refused_conditions
from tideline.model.decoding import Expectation
from tideline.spark.session import compile_plans

CONDITIONS = json.loads((Path(__file__).parents[1] / "data" / "conditions.json").read_text())
MOST, SMALL = 2**63 - 1, 2**31 - 1
ROW = {
    "`is asked` boolean": True,
    "amount bigint": MOST,
    "most bigint": MOST,
    "least bigint": -MOST - 1,
    "small int": SMALL,
    "int_least int": -SMALL - 1,
    "zero int": 0,
    "huge double": 1e300,
    "price decimal(38, 2)": Decimal(10**35),
    "decimal_small decimal(38, 0)": Decimal(10**37),
    "word string": "x,%y",
    "value string": "abc",
    "open string": "([",
    "escape string": "a\\",
    "percent string": "%zz",
    "bytes binary": bytearray(b"\xff\xfe"),
    "list array<int>": [1, 2],
    "d date": date(2026, 1, 2),
    "timestamp timestamp": datetime(2026, 1, 2, tzinfo=UTC),
    "missing int": None,
    "nowhere int": None,
    "user int": None,
}
"""A row whose values are at the ends of their types, or are none of what a function takes."""
SAID = {
    "now": "says something else at another time",
    "chance": "depends on chance",
    "tables": "asks other tables|TABLE_OR_VIEW_NOT_FOUND",
    "memory": "may take all memory",
    "Spark": "",
}


@pytest.fixture
def rows(spark):
    return spark.session.createDataFrame([tuple(ROW.values())], ", ".join(ROW))


@pytest.mark.parametrize("is_compiled", [False, True], ids=["interpreted", "compiled"])
def test_what_cannot_be_worked_out_is_null(spark, rows, is_compiled):
    """Whatever a record makes of it: no value that is wrapped, and no job that ends."""
    compile_plans(spark.session, for_offsets=10**6 if is_compiled else 1)
    wanted = [(sql, None) for sql in CONDITIONS["null"]]
    wanted += [(sql, True) for sql in CONDITIONS["true"]]
    columns = [F.when(F.col("is asked"), null_on_error(sql)) for sql, _ in wanted]
    (found,) = rows.select(F.array(*columns)).collect()
    wrong = [
        (sql, is_)
        for (sql, expected), is_ in zip(wanted, found[0], strict=True)
        if is_ is not expected
    ]
    assert not wrong


def test_which_are_refused(spark, rows):
    """By what Spark has made of each, however it is spelt."""
    kinds = [(sql, SAID[k]) for k, texts in CONDITIONS["refused"].items() for sql in texts]
    taken = [*CONDITIONS["null"], *CONDITIONS["true"]]
    rules = [Expectation(f"r{n}", sql, "count") for n, (sql, _) in enumerate(kinds)]
    rules += [Expectation(f"t{n}", sql, "count") for n, sql in enumerate(taken)]
    found = dict(refused_conditions(spark.session, rows.schema, rules))
    wrong = [
        (sql, found.get(n))
        for n, (sql, said) in enumerate(kinds)
        if n not in found or not re.search(said, found[n])
    ]
    wrong += [(rules[n].sql, why) for n, why in found.items() if n >= len(kinds)]
    assert not wrong


def test_what_is_refused_without_columns(spark):
    """The text is all that there is."""
    texts = ["timestamp > now()", "d < date 'today'", "nosuch > 0", "no_such(nosuch) = 'now()'"]
    rules = [Expectation(f"r{n}", sql, "count") for n, sql in enumerate(texts)]
    assert [n for n, _ in refused_conditions(spark.session, None, rules)] == [0, 1]
