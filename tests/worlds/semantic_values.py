"""Values of Debezium's and Connect's logical types, and what each has to become in a table.

That is computed from the types' definitions and docs/decoding.md, in whole numbers of Python's, by
nothing that the package uses. Times are days and microseconds since 1970, with their kind.
"""

from __future__ import annotations

import math
import struct
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from tests.worlds.connect_json import field, of, schema
from tests.worlds.semantics import ANY_SCALE, connect, decimal


class Bad(NamedTuple):
    """A record's error class in quarantine, and the one in Avro where that is another."""

    json: str
    avro: str = ""


RANGE, MISMATCH = Bad("out_of_range"), Bad("type_mismatch")
EMPTY = Bad("type_mismatch", "malformed")
DAYS = (-719_162, 2_932_896)
"""Of 0001-01-01 and 9999-12-31."""
LONG, INT = 2**63, 2**31
LONGS = (0, 1, -1, INT, -INT - 1, 2**53 + 1, -(2**53) - 1, LONG - 1, -LONG)
AVRO = {"int8": "int", "int16": "int", "int32": "int", "int64": "long"}
TIME, DATA, DEBEZIUM = "io.debezium.time.", "org.apache.kafka.connect.data.", "io.debezium.data."


class Kind(NamedTuple):
    """A type in Connect's JSON and in Avro."""

    json: dict[str, Any]
    avro: Any


def kind(written, name=None, *, logical=None, **parameters):
    """A type that is written as one of Connect's own."""
    more = {"parameters": parameters} if parameters else {}
    plain = AVRO.get(written, written)
    if name is None:
        small = {"type": plain, "connect.type": written}
        return Kind(of(written), small if written in ("int8", "int16") else plain)
    known = {"connect.parameters": parameters} if parameters else {}
    known |= {"logicalType": logical} if logical else {}
    return Kind(of(written, name, **more), connect(plain, name, **known))


def decimal_kind(scale):
    return kind("bytes", DATA + "Decimal", scale=str(scale))._replace(avro=decimal(scale))


def struct_kind(name, **fields):
    """A record; in Avro with a namespace, as Connect's names have one."""
    inner = [field(n, k.json) for n, k in fields.items()]
    named = [{"name": n, "type": ["null", k.avro], "default": None} for n, k in fields.items()]
    made = {"type": "record", "name": name, "connect.name": name, "fields": named}
    return Kind(schema(*inner, name=name) | {"optional": True}, made)


def list_of(item):
    return Kind(of("array", items=item.json), {"type": "array", "items": ["null", item.avro]})


def map_of(value):
    pairs = of("map", keys=of("string"), values=value.json)
    return Kind(pairs, {"type": "map", "values": ["null", value.avro]})


def as_date(number):
    return ("date", number) if DAYS[0] <= number <= DAYS[1] else RANGE


def as_time(zone, micros_of_one):
    """A rule: a number of units since 1970 is a time of the years 1 to 9999, or none."""
    of_day = 86_400_000_000

    def rule(number):
        micros = number * micros_of_one
        return (zone, micros) if DAYS[0] <= micros // of_day <= DAYS[1] else RANGE

    return rule


def edges(units_of_day, *more):
    """Numbers at the ends of the calendar, and around 1970."""
    first, end = DAYS[0] * units_of_day, (DAYS[1] + 1) * units_of_day
    return (first, first - 1, end - 1, end, 0, 1, -1, *more)


def digits(number):
    """The bytes of a whole number, as Java's BigInteger has them."""
    return number.to_bytes(number.bit_length() // 8 + 1, signed=True)


def as_decimal(scale):
    def rule(data):
        number = int.from_bytes(data, signed=True)
        if not data:
            return EMPTY
        if abs(number) >= 10**38:
            return RANGE
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return rule


def own_characters(given):
    """A decimal with its own scale, digit by digit."""
    number, scale = int.from_bytes(given["value"], signed=True), given["scale"]
    if not given["value"]:
        return EMPTY
    if abs(scale) > 16_383:
        return RANGE
    if scale <= 0:
        return str(number) + "0" * -scale if number else "0"
    text = str(abs(number)).rjust(scale + 1, "0")
    return "-" * (number < 0) + text[:-scale] + "." + text[-scale:]


def utc(year, month, day, *clock, micros=0, offset=0):
    """A moment in microseconds; clock is hours, minutes, seconds, and the offset in minutes."""
    days = date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    hours, minutes, seconds = clock
    return ("utc", (((days * 24 + hours) * 60 + minutes - offset) * 60 + seconds) * 10**6 + micros)


ZONED = {
    "2026-01-31T23:59:59Z": utc(2026, 1, 31, 23, 59, 59),
    "2026-01-31T23:59:59.1Z": utc(2026, 1, 31, 23, 59, 59, micros=100_000),
    "2026-01-31T23:59:59.123456Z": utc(2026, 1, 31, 23, 59, 59, micros=123_456),
    "2026-01-31T23:59:59.123456789Z": utc(2026, 1, 31, 23, 59, 59, micros=123_456),
    "2026-01-31T23:59:59.000001+02:00": utc(2026, 1, 31, 23, 59, 59, micros=1, offset=120),
    "2026-02-28T23:59:59-09:30": utc(2026, 2, 28, 23, 59, 59, offset=-570),
    "2024-02-29T00:00:00+14:00": utc(2024, 2, 29, 0, 0, 0, offset=840),
    "1969-12-31T23:59:59.999999Z": utc(1969, 12, 31, 23, 59, 59, micros=999_999),
    "1969-12-31T23:59:59.9999999Z": utc(1969, 12, 31, 23, 59, 59, micros=999_999),
    "1900-02-28T00:00:00Z": utc(1900, 2, 28, 0, 0, 0),
    "1582-10-10T12:00:00Z": utc(1582, 10, 10, 12, 0, 0),
    "0001-01-01T00:00:00Z": utc(1, 1, 1, 0, 0, 0),
    "9999-12-31T23:59:59.999999Z": utc(9999, 12, 31, 23, 59, 59, micros=999_999),
    "0001-01-01T00:00:00+01:00": RANGE,
    "9999-12-31T23:59:59-00:01": RANGE,
    **dict.fromkeys(("infinity", "-infinity", "", "2026-01-31", "2026-01-31T23:59:59"), MISMATCH),
    **dict.fromkeys(("2026-02-29T00:00:00Z", "2026-01-31T24:00:00Z"), MISMATCH),
    **dict.fromkeys(("2026-01-31T23:59:60Z", "2026-01-31 23:59:59Z"), MISMATCH),
    **dict.fromkeys(("+10000-01-01T00:00:00Z", "0000-12-31T00:00:00Z"), MISMATCH),
    "2026-01-31T23:59:59+01:30:15": MISMATCH,
}
TEXTS = {
    TIME + "ZonedTime": ("00:00:00Z", "23:59:59.999999+14:00", "24:00:00Z", "12:30:00-09:30"),
    TIME + "Interval": ("P0Y0M0DT0H0M0S", "P-178000000Y", "P1Y2M3DT4H5M6.78S", "P0Y0M-1DT0H0M0S"),
    DEBEZIUM + "Json": ('{"a": 1.10, "a": [null]}', "null", '"x"', "[]", "1E-10", ""),
    DEBEZIUM + "Xml": ("<a b='1'>&amp;\n</a>", "<a/>", "", "<é>\u2028</é>"),
    DEBEZIUM + "Uuid": ("00000000-0000-0000-0000-000000000000", "B68A35A7-17AD-35B3-AF2A-AE46EDB4"),
    DEBEZIUM + "Enum": ("a", "", "a,b", "é"),
    DEBEZIUM + "EnumSet": ("", "a,b", "b,a", "a"),
    DEBEZIUM + "Ltree": ("a.b.c", "", "a_1.é"),
}
DOUBLES = (0.1, -0.0, 1.5, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2.0**53, 1e22)
FLOATS = (0.1, -0.0, 1.5, 1.4e-45, 1.17549435e-38, 3.4028235e38, 16_777_216.0, -1e10)
NO_NUMBERS = (math.nan, math.inf, -math.inf)
NINES = 10**38 - 1
NUMBERS = (0, 1, -1, 128, -128, -129, 10**18, NINES, -NINES, NINES + 1, -NINES - 1, 10**39 - 1)
ANY = struct_kind(DEBEZIUM + "VariableScaleDecimal", scale=kind("int32"), value=kind("bytes"))
ANY = ANY._replace(avro=ANY_SCALE)
MS, US = as_time("ntz", 1000), as_time("ntz", 1)
DAY = 86_400_000
INSIDE = struct_kind(
    "orders.Inside",
    day=kind("int32", TIME + "Date"),
    micro=kind("int64", TIME + "MicroTimestamp"),
    zoned=kind("string", TIME + "ZonedTimestamp"),
    total=decimal_kind(2),
)
LINE = struct_kind("orders.Line", at=kind("int64", DATA + "Timestamp"), ratio=kind("double"))
GEOMETRY = struct_kind(DEBEZIUM + "geometry.Geometry", wkb=kind("bytes"), srid=kind("int32"))


def same(value):
    return value


def plain_types():
    """Name, type, values, and the rule that says what each one becomes."""
    yield "day", kind("int32", TIME + "Date"), edges(1, 19_754, INT - 1, -INT), as_date
    day = kind("int32", DATA + "Date", logical="date")
    yield "connect_day", day, edges(1, -25_567, INT - 1, -INT), as_date
    far = (LONG - 1, -LONG, 253_402_300_799_999_999)
    yield "milli", kind("int64", TIME + "Timestamp"), edges(DAY, -2_208_988_800_001, *far), MS
    more = (*far[:2], 9_223_372_036_825_200_000, -9_223_372_036_832_400_000, 951_782_400_000_000)
    yield "micro", kind("int64", TIME + "MicroTimestamp"), edges(DAY * 1000, *more), US
    instant = kind("int64", DATA + "Timestamp", logical="timestamp-millis")
    yield "instant", instant, edges(DAY, -999, *far), as_time("utc", 1000)
    for name in ("NanoTimestamp", "NanoDuration", "MicroDuration"):
        yield name.lower(), kind("int64", TIME + name), LONGS, same
    for name, units in (("MicroTime", 86_400_000_000), ("NanoTime", 86_400_000_000_000)):
        yield name.lower(), kind("int64", TIME + name), (0, units - 1, units, LONG - 1, -1), same
    clock = (0, 1, DAY - 1, DAY, INT - 1, -INT)
    yield "clock", kind("int32", TIME + "Time"), clock, same
    yield "connect_clock", kind("int32", DATA + "Time", logical="time-millis"), clock, same
    yield "year", kind("int32", TIME + "Year"), (0, 1901, 2155, -4712, INT - 1, -INT), same
    yield "zoned", kind("string", TIME + "ZonedTimestamp"), tuple(ZONED), ZONED.get
    for name, texts in TEXTS.items():
        yield name.rpartition(".")[2].lower(), kind("string", name), texts, same
    for scale in (0, 2, 10, 38):
        written = (*map(digits, NUMBERS), b"\0\0\0\x01", b"\xff\xff", b"")
        yield f"decimal{scale}", decimal_kind(scale), written, as_decimal(scale)
    wide = (b"\0", digits(10**38), digits(1 - 10**39))
    yield "decimal39", decimal_kind(39), wide, same  # no table has it: its bytes
    scales = ((0, 0), (5, -3), (0, -3), (0, 3), (-1100, 3), (1, 20), (-1, 20), (NINES * 99, 39))
    ends = ((7, 16_383), (7, -16_383), (7, 16_384), (7, -16_384), (7, INT - 1), (7, -INT))
    pairs = [{"scale": s, "value": digits(n)} for n, s in scales + ends]
    yield "any_scale", ANY, (*pairs, {"scale": 1, "value": b""}), own_characters


def other_types():
    """The same of types that are as they are written, and of lists, maps and records."""
    yield "bits", kind("bytes", DEBEZIUM + "Bits", length="9"), (b"", b"\0\x80", b"\xff\x01"), same
    wkb = b"\1\1\0\0\0" + struct.pack("<2d", -0.0, 5e-324)
    places = ({"wkb": wkb, "srid": 4326}, {"wkb": b"", "srid": None}, {"wkb": wkb, "srid": -1})
    yield "geometry", GEOMETRY, places, same
    for bits in (8, 16, 32, 64):
        most = 2 ** (bits - 1)
        yield f"int{bits}", kind(f"int{bits}"), (0, -1, most - 1, -most), same
    yield "double", kind("double"), (*DOUBLES, *NO_NUMBERS), same
    yield "float", kind("float"), (*FLOATS, *NO_NUMBERS), same
    yield "paid", kind("boolean"), (True, False), same
    texts = ("", "\0", "é", "e\u0301", "a  ", "𝄞", "null", "\ufeff\u2028")
    yield "note", kind("string"), texts, same
    yield "raw", kind("bytes"), (b"", b"\0", bytes(range(256))), same
    listed = ([], [None], [0, None, -1], [DAYS[1]])
    days = list_of(kind("int32", TIME + "Date"))
    yield "days", days, (*listed, [0, DAYS[1] + 1]), listed_as(as_date)
    totals = ([b"\x01", None, digits(-NINES)], [digits(NINES + 1)])
    yield "totals", list_of(decimal_kind(10)), totals, listed_as(as_decimal(10))
    yield "ratios", list_of(kind("double")), ([*NO_NUMBERS, -0.0, 5e-324, None],), same
    times = map_of(kind("int64", TIME + "MicroTimestamp"))
    for value in ({"a": -1, "b": None}, {}, {"": LONG - 1}):
        found = {k: None if v is None else US(v) for k, v in value.items()}
        yield (
            "times",
            times,
            (value,),
            lambda _, found=found: whole(found.values(), [*found.items()]),
        )
    micro, one = DAYS[0] * DAY * 1000, "0001-01-01T00:00:00Z"
    given = {"day": DAYS[0], "micro": micro, "zoned": one, "total": digits(-5)}
    good = {"day": ("date", DAYS[0]), "micro": ("ntz", micro), "zoned": ZONED[one]}
    yield "inside", INSIDE, (given,), lambda _: good | {"total": Decimal("-0.05")}
    yield "inside", INSIDE, (dict.fromkeys(given),), same
    yield "inside", INSIDE, (given | {"micro": micro - 1},), lambda _: RANGE
    yield "inside", INSIDE, (given | {"zoned": "infinity"},), lambda _: MISMATCH
    lines = [{"at": -1, "ratio": math.nan}, None, {"at": None, "ratio": -0.0}]
    moved = [{"at": ("utc", -1000), "ratio": math.nan}, *lines[1:]]
    yield "lines", list_of(LINE), (lines,), lambda _: moved
    yield "lines", list_of(LINE), ([*lines, {"at": LONG - 1, "ratio": 0.0}],), lambda _: RANGE


def listed_as(rule):
    def of_list(given):
        found = [None if value is None else rule(value) for value in given]
        return whole(found, found)

    return of_list


def whole(parts, found):
    """A value with parts; one that is wrong makes all of it wrong."""
    return next((part for part in parts if isinstance(part, Bad)), found)


TYPES = [*plain_types(), *other_types()]
KINDS = {name: kind for name, kind, _, _ in TYPES}
CASES = [(name, value, rule(value)) for name, _, values, rule in TYPES for value in values]
ONLY_JSON = [
    *[(name, "1", MISMATCH) for name in ("day", "milli", "int64", "double", "nanotimestamp")],
    *[(name, 1.5, MISMATCH) for name in ("day", "micro", "int8")],
    *[(name, LONG, RANGE) for name in ("int64", "nanotime", "milli")],
    *[("raw", text, MISMATCH) for text in ("%", "AA")],
    ("decimal2", 2.5, Decimal("2.50")),
    ("decimal2", 1e2, Decimal("100.00")),
    ("decimal10", 1e-7, Decimal("0.0000001000")),
    ("decimal2", 0.001, MISMATCH),
]
"""What no other format can write: values of other types, and decimals in their own digits."""
