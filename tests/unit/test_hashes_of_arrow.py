"""Hashes and texts of the fold over Arrow, held against Spark's definition written out by hand."""

import random
import struct
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import BadInput
from tideline.folding.arrow.castable import is_text
from tideline.folding.arrow.hashing import SEED, add_column
from tideline.folding.arrow.keys import buckets_of, comparable, key_texts, ranked
from tideline.folding.arrow.row_shape import VARIANT, Unlike, arrow_type, conformed, written
from tideline.model.current import SUMS, CurrentColumn, Folding

_M = 2**64 - 1
_P = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
TEXTS = {"type": "array", "elementType": "string"}
STRUCT = {"type": "struct", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": TEXTS}]}
STRUCTS = {"type": "array", "elementType": STRUCT}
PAIRS = {"type": "map", "keyType": "string", "valueType": STRUCT}
PARTS = {"type": "struct", "fields": [{"name": n, "type": "binary"} for n in ("value", "metadata")]}
ANY = {"type": "struct", "fields": [{"name": "v", "type": "variant"}, *STRUCT["fields"]]}
ANYS = {"type": "array", "elementType": "variant"}
KINDS = [
    *("boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp_ntz"),
    *("decimal(9,2)", "decimal(18,4)", "decimal(19,0)", "decimal(38,0)", "string", "binary"),
]


def _turned(x, bits):
    return ((x << bits) | (x >> (64 - bits))) & _M


def _xxh64(data, seed):
    """XXH64 of bytes, by its specification."""
    p1, p2, p3, p4, p5 = _P

    def round_of(lane, word):
        return _turned((lane + word * p2) & _M, 31) * p1 & _M

    at, size = 0, len(data)
    if size >= 32:
        lanes = [(seed + p1 + p2) & _M, (seed + p2) & _M, seed, (seed - p1) & _M]
        while at + 32 <= size:
            words = struct.unpack_from("<4Q", data, at)
            lanes = [round_of(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        found = sum(_turned(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18), strict=True)) & _M
        for lane in lanes:
            found = ((found ^ round_of(0, lane)) * p1 + p4) & _M
    else:
        found = (seed + p5) & _M
    found = (found + size) & _M
    while at + 8 <= size:
        (word,) = struct.unpack_from("<Q", data, at)
        found = (_turned(found ^ round_of(0, word), 27) * p1 + p4) & _M
        at += 8
    if at + 4 <= size:
        (word,) = struct.unpack_from("<I", data, at)
        found = (_turned(found ^ (word * p1 & _M), 23) * p2 + p3) & _M
        at += 4
    for byte in data[at:]:
        found = _turned(found ^ (byte * p5 & _M), 11) * p1 & _M
    for bits, prime in ((33, p2), (29, p3), (32, 1)):
        found = (found ^ (found >> bits)) * prime & _M
    return found


def _hash(value, kind, seed, *, is_plain=False):
    """Spark's hash of a value, with what is made of a nested one first (`model.current.SUMS`)."""
    if value is None:
        return seed
    if kind == "variant":
        return _hash(value, PARTS, seed)
    if isinstance(kind, dict) and kind["type"] == "map":
        pairs = [{"key": k, "value": v} for k, v in sorted(value, key=lambda p: p[0].encode())]
        fields = [{"name": n, "type": kind[f"{n}Type"]} for n in ("key", "value")]
        of = {"type": "array", "elementType": {"type": "struct", "fields": fields}}
        return _hash(pairs, of, seed)
    if isinstance(kind, dict) and kind["type"] == "struct":
        for number, field in enumerate(kind["fields"]):
            if (inner := value[field["name"]]) is not None:
                seed = _hash(inner, field["type"], _hash(number, "integer", seed))
        return seed
    if isinstance(kind, dict):
        seed = seed if is_plain else _hash(len(value), "integer", seed)
        for item in value:
            told = seed if is_plain else _hash(item is not None, "boolean", seed)
            seed = _hash(item, kind["elementType"], told)
        return seed
    return _xxh64(_data(value, kind), seed)


def _data(value, kind):
    if kind in ("string", "binary"):
        return value.encode() if isinstance(value, str) else value
    if kind == "float":
        return struct.pack("<f", value + 0.0 if value == value else float("nan"))
    if kind == "double":
        return struct.pack("<d", value + 0.0 if value == value else float("nan"))
    if kind == "date":
        return struct.pack("<i", (value - date(1970, 1, 1)).days)
    if kind == "timestamp_ntz":
        since = value - datetime(1970, 1, 1)
        return struct.pack("<q", (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds)
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        number = int(value.scaleb(scale))
        if precision <= 18:
            return struct.pack("<q", number)
        size = next(n for n in range(1, 17) if -(2 ** (8 * n - 1)) <= number < 2 ** (8 * n - 1))
        return number.to_bytes(size, "big", signed=True)
    return struct.pack("<q" if kind == "long" else "<i", value)


def _value(kind, chance):
    if chance.random() < 0.2:
        return None
    if isinstance(kind, dict) and kind["type"] == "struct":
        return {f["name"]: _value(f["type"], chance) for f in kind["fields"]}
    if isinstance(kind, dict) and kind["type"] == "map":
        names = dict.fromkeys(chance.choice("aAé😀") * n for n in range(1, chance.randrange(1, 5)))
        return [(name, _value(kind["valueType"], chance)) for name in reversed([*names])]
    if isinstance(kind, dict):
        return [_value(kind["elementType"], chance) for _ in range(chance.randrange(4))]
    size = chance.choice([0, 1, 3, 4, 7, 8, 9, 12, 15, 16, 23, 31, 32, 33, 40, 63, 64, 65, 300])
    bits = {"byte": 7, "short": 15, "integer": 31}.get(kind, 63)
    if kind == "variant":
        return {"value": chance.randbytes(size), "metadata": chance.randbytes(3)}
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        digits = chance.randrange(1, precision + 1)
        number = chance.choice([0, 127, 128, -128, -129, 255, 256, 32767, 32768, 10**digits - 1])
        number *= chance.choice([1, -1])
        return Decimal(number if abs(number) < 10**precision else 1).scaleb(-scale)
    made = {
        "string": lambda: "".join(chance.choice("aé😀\0") for _ in range(size)),
        "binary": lambda: chance.randbytes(size),
        "boolean": lambda: chance.random() < 0.5,
        "date": lambda: date.fromordinal(chance.randrange(1, date.max.toordinal() + 1)),
        "timestamp_ntz": lambda: datetime.fromordinal(chance.randrange(1, 3_652_059)),
        "float": lambda: chance.choice([0.0, -0.0, 1.5, float("nan"), float("-inf")]),
        "double": lambda: chance.choice([0.0, -0.0, 1.1, float("nan"), float("inf")]),
    }
    whole = [0, -1, 2**bits - 1, -(2**bits), chance.randrange(-(2**bits), 2**bits)]
    return made.get(kind, lambda: chance.choice(whole))()


def test_the_example_of_sparks_documentation():
    """`SELECT xxhash64('Spark', array(123), 2)`."""
    hashes = np.full(1, SEED, np.uint64)
    add_column(hashes, pa.array(["Spark"]), "string")
    whole = {"type": "array", "elementType": "integer"}
    add_column(hashes, pa.array([[123]], pa.list_(pa.int32())), whole, is_plain=True)
    add_column(hashes, pa.array([2], pa.int32()), "integer")
    assert hashes.view(np.int64).tolist() == [5602566077635097486]


@pytest.mark.parametrize(
    "kind", [*KINDS, "variant", TEXTS, STRUCT, STRUCTS, PAIRS, ANY, ANYS], ids=str
)
def test_every_type_is_hashed_as_it_is_defined(kind):
    """At its limits, with nulls, from any seed; a part of an array as well."""
    chance = random.Random(str(kind))
    values = [_value(kind, chance) for _ in range(300)]
    column = pa.array(values, arrow_type(kind))
    alone = (slice(n, n + 1) for n in range(40))  # an empty text behind others, say
    for part in (slice(None), slice(3, 200), slice(7, 7), *alone):
        seeds = np.arange(300, dtype=np.uint64)[part] * np.uint64(0x9E3779B97F4A7C15)
        expected = [_hash(v, kind, int(s)) for v, s in zip(values[part], seeds, strict=True)]
        add_column(seeds, column[part], kind)
        assert seeds.tolist() == expected


def test_names_of_columns_are_hashed_without_an_end():
    """A list of names that says which values did not come is hashed as Spark hashes a list."""
    column = pa.array([["a", None, "b"], [], None, ["b"]], arrow_type(TEXTS))
    hashes = np.full(4, SEED, np.uint64)
    add_column(hashes, column, TEXTS, is_plain=True)
    expected = [_hash(v, TEXTS, SEED, is_plain=True) for v in column.to_pylist()]
    assert hashes.tolist() == expected


def test_a_key_has_the_text_that_buckets_are_made_of():
    columns = [
        pa.array(["1E-10", 'a"\\\u2028\x00\x1fé\n\x7f', None]),
        pa.array([-(2**63), 0, None], pa.int64()),
        pa.array([Decimal("1E-38"), Decimal("-0.1"), None], pa.decimal128(38, 38)),
        pa.array([b"\x00\xff", b"", None], pa.binary()),
        pa.array([date(1, 1, 1), date(9999, 12, 31), None]),
        pa.array(
            [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 100_000), None],
            pa.timestamp("us"),
        ),
        pa.array([True, False, None]),
    ]
    kinds = ["string", "long", "decimal(38,38)", "binary", "date", "timestamp_ntz", "boolean"]
    assert key_texts(columns, kinds).to_pylist() == [
        f'["1E-10","-9223372036854775808","0.{"0" * 37}1","00FF","0001-01-01",'
        '"0001-01-01 00:00:00","true"]',
        f'["a\\"\\\\\u2028\\u0000\\u001Fé\\n\x7f","0","-0.1{"0" * 37}","","9999-12-31",'
        '"1969-12-31 23:59:59.1","false"]',
        "[null,null,null,null,null,null,null]",
    ]
    texts = key_texts([pa.array(["a", "b", "c"])], ["string"])
    expected = [(_xxh64(f'["{c}"]'.encode(), SEED) + 2**63) % 2**64 - 2**63 for c in "abc"]
    assert buckets_of(texts, 7).tolist() == [number % 7 for number in expected]


def test_a_time_that_python_does_not_have_is_written_as_spark_writes_it():
    """Of years below 0 and above 9999 with a sign; Spark 4 has made these texts."""
    days = {
        -719_163: "0000-12-31",
        -719_529: "-0001-12-31",
        -719_896: "-0002-12-29",
        2_932_896: "9999-12-31",
        2_932_897: "+10000-01-01",
        -(2**31): "-5877641-06-23",
        2**31 - 1: "+5881580-07-11",
    }
    column = pa.array([*days, None], pa.int32()).cast(pa.date32())
    texts = [f'["{text}"]' for text in days.values()]
    assert key_texts([column], ["date"]).to_pylist() == [*texts, "[null]"]
    times = {
        -62_135_596_800_000_001: "0000-12-31 23:59:59.999999",
        -62_199_014_399_900_000: "-0002-12-29 00:00:00.1",
        253_402_300_800_000_001: "+10000-01-01 00:00:00.000001",
        -6_490_963_296_000_000_000: "-203721-07-25 00:00:00",
    }
    column = pa.array([*times, None], pa.timestamp("us", "UTC"))
    texts = [f'["{text}"]' for text in times.values()]
    for kind in ("timestamp", "timestamp_ntz"):
        assert key_texts([column], [kind]).to_pylist() == [*texts, "[null]"]


def bytes_as_texts(values):
    """A column of texts that need be no UTF-8."""
    return pa.array(values, pa.binary()).view(pa.string())


def test_a_key_that_is_no_utf_8_has_the_text_that_java_reads():
    """A sequence that is cut off is one character, and so is a surrogate; Spark has made these."""
    texts = {
        b"a\xed\xa0\x80b": "a\ufffdb",
        b"\xed\xa0\x80\xed\xb0\x80": "\ufffd\ufffd",
        b"\xf0\x9f\x98": "\ufffd",
        b"\xf0\x9f": "\ufffd",
        b"\xe2\x82(": "\ufffd(",
        b"\xc0\x80": "\ufffd\ufffd",
        b"\xe0\x80\x80": "\ufffd\ufffd\ufffd",
        b"\xf4\x90\x80\x80": "\ufffd" * 4,
        b"\xff\n\xf0\x9f\x98\x80": "\ufffd\\n😀",
    }
    found = key_texts([bytes_as_texts([*texts, None, b"x"])], ["string"]).to_pylist()
    assert found == [*(f'["{text}"]' for text in texts.values()), "[null]", '["x"]']


def test_keys_are_in_sparks_order():
    """Null first; a null is no smallest number; texts by their bytes."""
    keys = comparable([pa.array(["b", None, "a", "a"]), pa.array([1, 2, -(2**63), None])])
    assert np.argsort(keys, kind="stable").tolist() == [1, 3, 2, 0]
    one, other = ranked(pa.array([-(2**63), None]), pa.array([0]))
    assert one[1] < one[0] < other[0]
    assert np.argsort(comparable([pa.array(["😀", "\uffff", "a"])])).tolist() == [2, 1, 0]
    some, others = pa.array(["b", "\ufffd"]), bytes_as_texts([b"\xed\xa0\x80", b"\xff"])
    keys = np.concatenate([comparable([some]), comparable([others])])
    assert np.argsort(keys).tolist() == [0, 2, 1, 3]


PAIRS_OF_BYTES = pa.array([[(1, 2)], None, [(3, 4)]], pa.map_(pa.int32(), pa.int8()))
ALIKE = [
    (pa.array([1, None], pa.int32()), pa.int64(), [1, None]),
    (pa.array([7], pa.int64()), pa.int16(), [7]),
    (pa.array([7], pa.int32()), pa.decimal128(12, 2), [Decimal("7.00")]),
    (pa.array([2**53], pa.int64()), pa.float64(), [2.0**53]),
    (pa.array([1.5], pa.float32()), pa.float64(), [1.5]),
    (pa.array([Decimal("1.5")], pa.decimal64(9, 2)), pa.decimal128(20, 4), [Decimal("1.5000")]),
    (pa.array([1], pa.timestamp("ms")), pa.timestamp("us"), [datetime(1970, 1, 1, 0, 0, 0, 1000)]),
    (pa.array([0], pa.timestamp("us", "UTC")), pa.timestamp("us"), [datetime(1970, 1, 1)]),
    (pa.array([date(2026, 1, 1)]), pa.timestamp("us"), [datetime(2026, 1, 1)]),
    (pa.array([b"a"], pa.large_binary()), pa.string(), ["a"]),
    (pa.array(["a"], pa.string_view()), pa.string(), ["a"]),
    (pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"]),
    (pa.array(["a", None]).dictionary_encode(), pa.string(), ["a", None]),
    (pa.nulls(2), pa.float32(), [None, None]),
    (pa.array([[1], None], pa.list_(pa.int8(), 1)), pa.list_(pa.int64()), [[1], None]),
    (pa.array([None, [1, 2], [3]])[1:], pa.list_(pa.int16()), [[1, 2], [3]]),
    (PAIRS_OF_BYTES[1:], pa.map_(pa.int64(), pa.int64()), [None, [(3, 4)]]),
    (pa.array([{"A": 1}]), pa.struct([("a", pa.int64())]), [{"a": 1}]),
]
UNLIKE = [
    (pa.array(["1"]), pa.int64()),
    (pa.array([2**40], pa.int64()), pa.int32()),
    (pa.array([2**53 + 1], pa.int64()), pa.float64()),
    (pa.array([Decimal("1.55")]), pa.decimal128(9, 1)),
    (pa.array([1.5]), pa.float32()),
    (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
    (pa.array([date(2026, 1, 1)]), pa.timestamp("us", "UTC")),
    (pa.array([[1]]), pa.int64()),
    (pa.array([{"a": 1, "A": 2}]), pa.struct([("a", pa.int64())])),
    (pa.array([{"value": b"", "metadata": None}]), VARIANT),
]


@pytest.mark.parametrize(("column", "kind", "values"), ALIKE, ids=str)
def test_values_of_another_type_are_the_tables(column, kind, values):
    """Others have written the file: what counts is that it tells the same."""
    found = conformed(column, kind)
    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (kind, values)


@pytest.mark.parametrize(("column", "kind"), UNLIKE, ids=str)
def test_values_that_the_table_s_type_does_not_have_are_refused(column, kind):
    with pytest.raises(Unlike):
        conformed(column, kind)


def test_a_list_that_lacks_fields_has_nulls():
    before = pa.array([None, [{"a": 1}]], pa.list_(pa.struct([("a", pa.int64())])))
    now = conformed(before, arrow_type(STRUCTS))
    assert now.to_pylist() == [None, [{"a": 1, "b": None}]]


def test_a_type_that_is_not_known_is_refused():
    with pytest.raises(BadInput, match="a column of type interval cannot be folded"):
        arrow_type("interval")


def test_a_variant_is_written_as_spark_reads_it(tmp_path):
    """Value, then metadata, never null; wherever the value stands, and whatever was in the file."""
    one = {"metadata": b"m", "value": b"v"}
    kinds = {"v": "variant", "row": ANY, "list": ANYS}
    kinds["map"] = {"type": "map", "keyType": "string", "valueType": "variant"}
    kinds["rows"] = {"type": "array", "elementType": ANY}
    rows = [{"v": one, "row": {"v": one, "a": 1}, "list": [one, None], "map": [("k", one)]}, {}]
    rows += [{"row": {"a": 1}, "map": [("k", None)], "rows": [{"a": 1}, None, {"v": one}]}]
    schema = pa.schema([(n, arrow_type(kind)) for n, kind in kinds.items()])
    batch = pa.RecordBatch.from_pylist(rows, schema)
    for made in (batch, batch.take(pa.array([0, None, 2])), batch.slice(1)):
        pq.write_table(pa.Table.from_batches([written(made)]), tmp_path / "a", store_schema=False)
        found = pq.read_table(tmp_path / "a")
        assert found.to_pylist() == made.to_pylist()
        assert found.schema.field("v").type == VARIANT
    before = pa.array([one, None])
    assert conformed(before, VARIANT).to_pylist() == [one, None]


def test_pairs_of_a_map_stand_in_sparks_order():
    """Whatever its keys are: one zero, NaN the greatest, parts from left to right, null first."""
    row = {
        "type": "struct",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": TEXTS}],
    }
    cases = {
        "double": [-0.5, -0.0, 1.5, float("inf"), float("nan")],
        "boolean": [False, True],
        "binary": [b"", b"a", b"\xff"],
        "decimal(9,2)": [Decimal("-1.00"), Decimal("2.00")],
    }
    nested = [{"a": None, "b": ["z"]}, {"a": 1, "b": None}, {"a": 1, "b": []}]
    nested += [{"a": 1, "b": ["a", "b"]}, {"a": 1, "b": ["b"]}, {"a": 2, "b": None}]
    for kind, keys in [*cases.items(), (row, nested)]:
        pairs = {"type": "map", "keyType": kind, "valueType": "long"}
        listed = [(key, n) for n, key in enumerate(keys)]
        columns = [pa.array([p, None, p], arrow_type(pairs)) for p in (listed, listed[::-1])]
        found = []
        for column in columns:
            for part in (column, column[1:]):
                found.append(np.full(len(part), SEED, np.uint64))
                add_column(found[-1], part, pairs)
        fields = [{"name": n, "type": t} for n, t in (("key", kind), ("value", "long"))]
        sorted_pairs = {"type": "array", "elementType": {"type": "struct", "fields": fields}}
        expected = _hash([{"key": k, "value": n} for k, n in listed], sorted_pairs, SEED)
        assert {h for hashes in found for h in hashes.tolist()} == {expected, SEED}


IS_TEXT = [
    ("double", 1.0, "1.0", True),
    ("double", 1.0, "1", False),
    ("double", -0.0, "-0.0", True),
    ("double", 0.0, "-0.0", False),
    ("double", 1e7, "1.0E7", True),
    ("double", 9999999.0, "9999999.0", True),
    ("double", 9.999e-4, "9.999E-4", True),
    ("double", 2e23, "2.0E23", True),
    ("double", 2e23, "1.9999999999999998E23", True),
    ("double", float("nan"), "NaN", True),
    ("double", float("-inf"), "-Infinity", True),
    ("double", 1.5, "1.50", False),
    ("double", 1.5, "no number", False),
    ("float", 1.1, "1.1", True),
    ("float", 1.2345679e7, "1.2345679E7", True),
    ("byte", 7, "7", True),
    ("short", -7, "-7", True),
    ("decimal(9,8)", Decimal("1E-8"), "0.00000001", True),
    ("decimal(9,2)", Decimal("1.50"), "1.5", False),
    ("date", date(2026, 1, 2), "2026-01-02", True),
    ("timestamp_ntz", datetime(2026, 1, 2, 3, 4, 5, 600_000), "2026-01-02 03:04:05.6", True),
    ("binary", b"yes", "yes", True),
    ("binary", b"\xff", "\ufffd", False),
    ("string", "é\n", "é\n", True),
    ("boolean", True, "true", True),
]


@pytest.mark.parametrize(("kind", "value", "text", "is_it"), IS_TEXT, ids=str)
def test_a_value_has_the_text_that_spark_s_cast_makes(kind, value, text, is_it):
    column = pa.array([None, value], arrow_type(kind))
    assert is_text(column, kind, text).tolist() == [False, is_it]


def test_keys_that_python_has_no_times_for_are_compared():
    """Spark has written them: of two columns, one is a time behind the year 9999."""
    times = pa.array([None, 0, 253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    days = pa.array([0, 1, 2_932_897], pa.date32())
    keys = comparable([times, days])
    assert (keys[1:] > keys[:-1]).all()


ANY_IN_A_MAP = {"type": "map", "keyType": "string", "valueType": ANY}


@pytest.mark.parametrize(
    ("kind", "of_oldest", "of_texts"),
    [
        *(("long", False, False), (STRUCTS, True, False), (PAIRS, True, False)),
        *(("variant", True, True), (ANY, True, True), (ANYS, True, True)),
        (ANY_IN_A_MAP, True, True),
    ],
    ids=str,
)
def test_tables_whose_sums_would_be_others_are_made_anew(kind, of_oldest, of_texts):
    """And no others: a VARIANT was hashed as its text, and nested values once without nulls."""
    folding = Folding(columns=(CurrentColumn("v", "v", kind),))
    names = ("xxhash64", "xxhash64-parts", SUMS)
    found = [replace(folding, sums=name).has_old_sums for name in names]
    assert found == [of_oldest, of_texts, False]
