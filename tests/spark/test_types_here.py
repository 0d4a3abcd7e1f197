"""What the fold in the run's own process makes of values is what Spark's own expressions make."""

import random
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from tests.worlds.record_keys import KINDS, UNSET
from tideline.folding.arrow.castable import is_text
from tideline.folding.arrow.hashing import SEED, add_column
from tideline.folding.arrow.keys import buckets_of, key_texts
from tideline.folding.arrow.row_shape import arrow_type, conformed, written
from tideline.spark.unset import is_unset

PIECES = [
    *(b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xf0\x9f\x98\x80", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xe2"),
    *(b"\xe2\x82", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xf4\x90\x80\x80", b"\xff", b"a"),
    *(b"\xf8\x88\x80\x80\x80", b'"', b"\xc3\xa9", b"\xf0\x80\x80\x80", b"\xed", b"\x80", b"\n"),
]
ARRAY = {"type": "array", "elementType": "variant"}


def read(spark, folder, kinds, **columns):
    """A file's columns as Spark reads them, in their order."""
    count = len(next(iter(columns.values())))
    table = pa.table({"n": pa.array(range(count), pa.int64()), **columns})
    pq.write_table(table, folder / "rows.parquet", store_schema=False)
    schema = ", ".join(f"{name} {kind}" for name, kind in ({"n": "long"} | kinds).items())
    return spark.session.read.schema(schema).parquet(str(folder)).orderBy("n")


def test_a_key_of_any_bytes_has_one_text(spark, tmp_path):
    chance = random.Random(1)
    values = [*PIECES, *(a + b for a in PIECES for b in PIECES)]
    values += [
        bytes(
            chance.choice([chance.randrange(256), 0xED, 0xF0, 0xE0, 0xA0, 0x80]) for _ in range(n)
        )
        for n in (chance.randrange(1, 9) for _ in range(2000))
    ]
    column = pa.array(values).view(pa.string())
    rows = read(spark, tmp_path, {"k": "string"}, k=column)
    text = F.to_json(F.array("k"))
    bucket = F.pmod(F.xxhash64(text), F.lit(16).cast("bigint"))
    found = rows.select(text.cast("binary"), bucket).collect()
    texts = key_texts([column], ["string"])
    assert [t.encode() for t in texts.to_pylist()] == [bytes(row[0]) for row in found]
    assert buckets_of(texts, 16).tolist() == [row[1] for row in found]


def test_a_time_of_any_year_has_one_text(spark, tmp_path):
    chance = random.Random(2)
    days = [-(2**31), 2**31 - 1, *(chance.randrange(-(2**31), 2**31) for _ in range(300))]
    days += [chance.randrange(-1_500_000, 3_500_000) for _ in range(300)]
    micros = [-(2**63), 2**63 - 1, *(chance.randrange(-(2**63), 2**63) for _ in range(300))]
    micros += [chance.randrange(-(10**17), 3 * 10**17) // 10**n * 10**n for n in [0, 3, 6] * 100]
    columns = {
        "d": pa.array(days, pa.int32()).cast(pa.date32()),
        "t": pa.array(micros, pa.timestamp("us", "UTC")),
        "z": pa.array(micros, pa.timestamp("us")),
    }
    kinds = {"d": "date", "t": "timestamp", "z": "timestamp_ntz"}
    rows = read(spark, tmp_path, kinds, **columns)
    texts = [F.to_json(F.array(F.col(name).cast("string"))) for name in columns]
    rows = rows.select(*texts).collect()
    for place, name in enumerate(columns):
        found = key_texts([columns[name]], [kinds[name]]).to_pylist()
        assert found == [row[place] for row in rows], name


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_number_has_the_text_of_javas(spark, tmp_path, kind):
    """Each one's own; and no neighbour has it."""
    chance = random.Random(3)
    values = [0.0, -0.0, 1e7, 9999999.0, 1e-3, 9.999e-4, float("nan"), float("inf"), 5e-324, 2e23]
    values += [
        chance.choice([1, -1]) * chance.random() * 10 ** chance.randrange(-30, 30)
        for _ in range(500)
    ]
    column = pa.array(values, arrow_type(kind))
    rows = read(spark, tmp_path, {"v": kind}, v=column).select(F.col("v").cast("string")).collect()
    for place, row in enumerate(rows):
        found = is_text(column, kind, row[0])
        assert found[place]
        same = {str(values[n]) for n in range(len(values)) if found[n] and values[n]}
        assert len(same) < 2 or kind == "float", row


def test_a_variant_is_read_by_spark_as_it_was_written(spark, tmp_path):
    """Written by Spark, read and hashed by its bytes here, and written again."""
    session = spark.session
    texts = ['{"a": [1, 2.5, "x"], "b": null}', "1", None, "null", '{"long": "' + "y" * 200 + '"}']
    rows = session.createDataFrame([(n, text) for n, text in enumerate(texts)], "n long, t string")
    one = F.parse_json("t")
    made = rows.select("n", one.alias("v"), F.array(one, F.lit(None).cast("variant")).alias("list"))
    made.coalesce(1).write.parquet(str(tmp_path / "spark"))
    (file,) = (tmp_path / "spark").glob("*.parquet")
    table = pq.ParquetFile(file).read().sort_by("n")
    kinds = {"n": "long", "v": "variant", "list": ARRAY}
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()])
    (batch,) = table.combine_chunks().to_batches()
    columns = [conformed(batch.column(f.name), f.type) for f in schema]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    # a row that is taken out, and nulls in its place, as a fold makes them
    batch = batch.take(pa.array([4, None, 2, 1, 0, 3]))
    (tmp_path / "here").mkdir()
    pq.write_table(
        pa.Table.from_batches([written(batch)]), tmp_path / "here" / "a.parquet", store_schema=False
    )
    read_again = session.read.schema("n long, v variant, list array<variant>")
    told = F.to_json(F.struct("v", "list"))
    expected = {row[0]: row[1] for row in made.select("n", told).collect()} | {None: "{}"}
    found = read_again.parquet(str(tmp_path / "here")).select("n", told).collect()
    assert {row[0]: row[1] for row in found} == expected
    parts = "n long, v struct<value: binary, metadata: binary>"
    of_bytes = F.xxhash64(
        *(f(part) for part in ("value", "metadata") for f in (number_of, lambda p: F.col("v")[p]))
    )
    found = session.read.schema(parts).parquet(str(tmp_path / "here")).select("n", "v", of_bytes)
    hashes = pa.array([SEED] * len(batch), pa.uint64()).to_numpy().copy()
    add_column(hashes, batch.column("v"), "variant")
    here = dict(zip(batch.column("n").to_pylist(), hashes.view("int64").tolist(), strict=True))
    assert here == {row[0]: row[2] for row in found.collect()}


def number_of(part):
    """What is hashed in front of a struct's field: its number, if the field is there."""
    number = F.lit(("value", "metadata").index(part))
    return F.when(F.col("v")[part].isNotNull(), number)


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_was_not_told_is_known_by_both(spark, kind):
    """To whoever decodes, as to the fold (`property/test_folding_untold.py`)."""
    sql = {"long": "bigint", "integer": "int"}.get(kind, kind)
    values = [(n, value) for n, value in enumerate(KINDS[kind])]
    rows = spark.session.createDataFrame(values, f"n int, x {sql}")
    found = rows.select("n", is_unset(F.col("x"), kind)).collect()
    assert [row[1] for row in sorted(found)] == UNSET[kind]


TYPES = [
    (pa.array([1, -7], pa.int32()), "long"),
    (pa.array([1, -7], pa.int32()), "double"),
    (pa.array([1, -7], pa.int32()), "decimal(12,2)"),
    (pa.array([1, -7], pa.int64()), "decimal(20,0)"),
    (pa.array([1.5, -7.25], pa.float32()), "double"),
    (pa.array([1, -7], pa.int8()), "integer"),
    (pa.array([1, 7], pa.uint32()), "long"),
    (pa.array([date(2026, 1, 1)]), "timestamp_ntz"),
    (pa.array([1, -7], pa.timestamp("ms", "UTC")), "timestamp"),
    (pa.array([1, -7], pa.timestamp("us")), "timestamp"),
    (pa.array([1, -7], pa.timestamp("us", "UTC")), "timestamp_ntz"),
    (pa.array(["é"]), "binary"),
    (pa.array(["é".encode()]), "string"),
    (pa.array([b"ab"], pa.binary(2)), "binary"),
]


@pytest.mark.parametrize(("column", "kind"), TYPES, ids=str)
def test_a_file_s_type_is_read_as_spark_reads_it(spark, tmp_path, column, kind):
    sql = {"long": "bigint", "integer": "int"}.get(kind, kind)
    rows = read(spark, tmp_path, {"v": sql}, v=column).select(F.xxhash64("v")).collect()
    hashes = pa.array([SEED] * len(column), pa.uint64()).to_numpy().copy()
    found = pq.ParquetFile(tmp_path / "rows.parquet").read()["v"].combine_chunks()
    add_column(hashes, conformed(found, arrow_type(kind)), kind)
    assert hashes.view("int64").tolist() == [row[0] for row in rows]
