"""Hashes and buckets of the fold are those of Spark's own expressions."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tests.worlds.build import ID
from tests.worlds.fold_plans import KEYS, NESTED, plan_of
from tests.worlds.spark_sums import bucket_of, current_schema, hash_of
from tideline.documents import dump
from tideline.folding.arrow.changes import buckets
from tideline.folding.arrow.row_shape import RowShape, arrow_type, hashes_of, read_rows
from tideline.model.spark_job import SparkJob, SparkResult
from tideline.spark.application import ALONE, run_job
from tideline.spark.failures import failed
from tideline.spark.session import SESSION

_LIMITS = {
    "long": [-(2**63), 2**63 - 1, 0, -1],
    "integer": [-(2**31), 2**31 - 1, 0, -1],
    "boolean": [True, False],
    "double": [0.0, -0.0, float("nan"), float("-inf"), 5e-324, 1.5],
    "float": [0.0, -0.0, float("nan"), float("inf"), 1.5],
    "date": [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "decimal(9,2)": [Decimal("-9999999.99"), Decimal("0.01"), Decimal(0)],
    "decimal(18,4)": [Decimal("-" + "9" * 14 + ".9999"), Decimal("0.0001")],
    "decimal(38,0)": [Decimal(n) for n in (0, 1, -1, 127, 128, 255, 256, -128, -129, -256, 32768)]
    + [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(2**63), Decimal(-(2**63) - 1)],
    "decimal(38,38)": [Decimal("1E-38"), Decimal("-0.1")],
}


_SIZES = [0, 1, 3, 4, 7, 8, 9, 12, 15, 16, 23, 31, 32, 33, 40, 63, 64, 65, 300]


def _text(chance):
    return "".join(chance.choice('a"\\\n\x01é\u2028😀') for _ in range(chance.choice(_SIZES)))


def _value(kind, chance):
    """A value of a type, at its limit or anywhere; null now and then."""
    if chance.random() < 0.2:
        return None
    if isinstance(kind, dict) and kind["type"] == "struct":
        return {field["name"]: _value(field["type"], chance) for field in kind["fields"]}
    if isinstance(kind, dict) and kind["type"] == "map":
        keys = dict.fromkeys(_text(chance) for _ in range(chance.randrange(4)))
        return [(key, _value(kind["valueType"], chance)) for key in keys]
    if isinstance(kind, dict):
        return [_value(kind["elementType"], chance) for _ in range(chance.randrange(4))]
    if kind == "binary":
        return chance.randbytes(chance.choice(_SIZES))
    if kind == "string":
        return _text(chance)
    if kind in ("long", "integer") and chance.random() < 0.7:
        return chance.randrange(-(2**31), 2**31)
    return chance.choice(_LIMITS[kind])


def _rows(shape, count):
    chance, made = random.Random(7), []
    for n in range(count):
        row = {name: _value(kind, chance) for name, kind in shape.kinds.items()}
        row |= {"topic_id": ID, "generation": n % 3, "partition": n % 5, "offset": n}
        made.append(
            row | {"is_deleted": n % 7 == 0, "unavailable_columns": [None, [], ["c1"]][n % 3]}
        )
    return made


def _in_both(session, plan, tmp_path, count=400):
    """The same rows as Spark and as this process reads them."""
    shape = RowShape(plan)
    types = {n: arrow_type(kind) for n, kind in shape.kinds.items()}
    data = pa.Table.from_pylist(_rows(shape, count), pa.schema(types.items()))
    file = tmp_path / "rows.parquet"
    number = pa.array(range(count), pa.int32())
    pq.write_table(data.append_column("bucket", number), file, store_schema=False)
    found = session.read.schema(current_schema(plan)).parquet(str(file))
    store = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    (here,) = read_rows(store, file.name, shape.schema, shape.topics)
    return shape, found, here


@pytest.mark.parametrize("wide", [False, True])
def test_a_row_has_one_hash(spark, tmp_path, wide):
    """Of every type, at its limits, with nulls in each place; and of more than sixty columns."""
    kinds = {f"c{n}": kind for n, kind in enumerate({**_LIMITS, "string": (), "binary": ()})}
    if wide:
        kinds |= {f"w{n}": "integer" for n in range(60)}
    plan = plan_of(("k",), k="long", **kinds, **NESTED)
    shape, rows, here = _in_both(spark.session, plan, tmp_path)
    expected = [row[0] % 2**64 for row in rows.select(hash_of(plan)).collect()]
    assert hashes_of(shape, here).tolist() == expected
    assert hashes_of(shape, here.slice(5, 300)).tolist() == expected[5:305]


def test_a_key_has_one_bucket(spark, tmp_path):
    """Of one column of each type, and of all of them."""
    names = {f"k{n}": kind for n, kind in enumerate(KEYS) if kind != "decimal(18,7)"}
    known = {**_LIMITS, "string": (), "binary": ()}
    names |= {name: kind if kind in known else "decimal(38,38)" for name, kind in names.items()}
    for number, key in enumerate([(name,) for name in names] + [(*names,)]):
        plan = plan_of(key, **{name: names[name] for name in key})
        folder = tmp_path / str(number)
        folder.mkdir()
        shape, rows, here = _in_both(spark.session, plan, folder, 60)
        expected = [row[0] for row in rows.select(bucket_of(plan)).collect()]
        assert buckets(shape, here).tolist() == expected, key


def test_each_job_begins_with_the_settings_that_stored_values_depend_on(spark, tmp_path):
    """A warm session may have served another job, or have its cluster's defaults."""
    spark.session.conf.set("spark.sql.ansi.enabled", "false")
    job = SparkJob("orders", "run", "p", "", "", (), "read_committed", (), {}, str(tmp_path / "r"))
    (tmp_path / "job.json").write_text(dump(job))
    seen = {}

    def execute(session, _job):
        seen.update({key: session.conf.get(key) for key in SESSION})
        return SparkResult()

    kinds = (SparkJob, SparkResult)
    run_job(str(tmp_path / "job.json"), kinds, execute, failed, spark.session, ALONE)
    assert seen == SESSION
