"""Hashes and texts of the fold over Arrow, held against Spark's definition written out by hand."""

import random
import struct
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tideline.folding.arrow import NotCovered
from tideline.folding.arrow.hashing import SEED, add_column
from tideline.folding.arrow.keys import buckets_of, comparable, key_texts, ranked
from tideline.folding.arrow.rows import arrow_type, conformed

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
    """Spark's hash of a value, with what `folding.spark.sums` makes of a nested one."""
    if value is None:
        return seed
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


@pytest.mark.parametrize("kind", [*KINDS, TEXTS, STRUCT, STRUCTS, PAIRS], ids=str)
def test_every_type_is_hashed_as_it_is_defined(kind):
    """At its limits, with nulls, from any seed; a part of an array as well."""
    chance = random.Random(str(kind))
    values = [_value(kind, chance) for _ in range(300)]
    column = pa.array(values, arrow_type(kind))
    for part in (slice(None), slice(3, 200), slice(7, 7)):
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


def test_a_time_that_no_calendar_has_is_spark_s():
    with pytest.raises(NotCovered):
        key_texts([pa.array([-719_163], pa.int32()).cast(pa.date32())], ["date"])


def test_keys_are_in_sparks_order():
    """Null first; a null is no smallest number; texts by their bytes."""
    keys = comparable([pa.array(["b", None, "a", "a"]), pa.array([1, 2, -(2**63), None])])
    assert np.argsort(keys, kind="stable").tolist() == [1, 3, 2, 0]
    one, other = ranked(pa.array([-(2**63), None]), pa.array([0]))
    assert one[1] < one[0] < other[0]
    assert np.argsort(comparable([pa.array(["😀", "\uffff", "a"])])).tolist() == [2, 1, 0]


def test_another_type_in_a_file_is_spark_s():
    """A wider type of the table holds each value; any other may tell another one."""
    for column, kind in (
        (pa.array(["1"]), pa.int64()),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.int64()), pa.int32()),
    ):
        with pytest.raises(NotCovered):
            conformed(column, kind)
    assert conformed(pa.array([1], pa.int32()), pa.int64()).to_pylist() == [1]
    before = pa.array([None, [{"a": 1}]], pa.list_(pa.struct([("a", pa.int64())])))
    now = conformed(before, arrow_type(STRUCTS))
    assert now.to_pylist() == [None, [{"a": 1, "b": None}]]


def test_a_type_that_is_not_known_is_spark_s():
    with pytest.raises(NotCovered):
        arrow_type("variant")


def test_keys_that_python_has_no_times_for_are_compared():
    """Spark has written them: of two columns, one is a time behind the year 9999."""
    times = pa.array([None, 0, 253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    days = pa.array([0, 1, 2_932_897], pa.date32())
    keys = comparable([times, days])
    assert (keys[1:] > keys[:-1]).all()
