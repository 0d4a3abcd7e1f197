"""A column of each type of PostgreSQL that Debezium has a case for, and what becomes of its values.

The database is the judge: values are selected as texts, of lists as lists of texts, and `typed`
says what the typed table has to hold for one of them.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

Settings = Mapping[str, str]
"""Of the connector, and `format`: `json` or `avro`."""
Typed = Callable[[str, Settings], Any]
_DAY_IN_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        type: Of PostgreSQL.
        typed: What is in the typed table for a text of the database's.
        values: Literals.
        long: A value that PostgreSQL keeps aside, if the type has such ones.
        untold: Settings of the connector's with which a long value comes as null when an update has
            left it alone; None if it always comes as what Tideline knows.
    """

    type: str
    typed: Typed
    values: tuple[str, ...]
    long: str | None = None
    untold: Callable[[Settings], bool] = lambda settings: False

    @property
    def is_list(self) -> bool:
        """Whether a value is a list."""
        return self.type.endswith("[]")

    def judged(self, selected: Any, settings: Settings) -> Any:
        """What the typed table has to hold.

        Args:
            selected: As `selection` has it.
            settings: Of the connector.
        """
        if selected is None:
            return None
        if self.is_list:
            return [None if t is None else self.typed(t, settings) for t in selected]
        return self.typed(selected, settings)


def of_an_extension(name: str) -> tuple[str, ...]:
    """Statements that make a type of this name.

    The tests' PostgreSQL comes without extensions: to Debezium, a type is its name and its text.
    """
    function = "CREATE FUNCTION {0}{1} AS 'text{2}' LANGUAGE internal IMMUTABLE STRICT"
    return (
        f"CREATE TYPE {name}",
        function.format(name, f"in(cstring) RETURNS {name}", "in"),
        function.format(name, f"out({name}) RETURNS cstring", "out"),
        f"CREATE TYPE {name} (INPUT = {name}in, OUTPUT = {name}out, LIKE = text)",
    )


def selection(name: str, column: Column) -> str:
    """What is selected of a column: texts as `SELECT *` shows them, not as a cast makes them."""
    shown = "CASE WHEN {0} IS NOT NULL THEN {1} END"
    if not column.is_list:
        return shown.format(name, f"format('%s', {name})")
    items = shown.format("item", "format('%s', item)")
    items = f"(SELECT json_agg({items}) FROM unnest({name}) AS item)"
    return shown.format(name, f"coalesce({items}, '[]')")


def _as(function: Callable[[str], Any]) -> Typed:
    return lambda text, settings: function(text)


def _real(text: str, settings: Settings) -> float:
    """In a column of 8 bytes; of Avro it has 4, and JSON has the shortest text of it."""
    if settings["format"] == "json":
        return float(text)
    found: float = struct.unpack("f", struct.pack("f", float(text)))[0]
    return found


def _bits(text: str) -> bytes:
    """Bits from the last one on, in as few bytes as hold them; zeros need none (BitSet)."""
    number = int(text, 2)
    return number.to_bytes(-(-number.bit_length() // 8), "little")


def _money(text: str) -> Decimal:
    return Decimal(text.replace("$", "").replace(",", ""))


def _number(places: int | None) -> Typed:
    """A number, by `decimal.handling.mode`.

    Args:
        places: Behind the point; None where the type does not say.
    """

    def typed(text: str, settings: Settings) -> Any:
        mode = settings.get("decimal.handling.mode", "precise")
        if mode == "double":
            return float(text)
        if mode == "string":
            return text
        if places is not None:
            return Decimal(text)
        return text.rstrip("0").rstrip(".") if "." in text else text

    return typed


def _cash(text: str, settings: Settings) -> Any:
    mode = settings.get("decimal.handling.mode", "precise")
    found = _money(text)
    return {"precise": found, "double": float(found), "string": str(found)}[mode]


def _bytes(text: str, settings: Settings) -> Any:
    data = bytes.fromhex(text.removeprefix("\\x"))
    mode = settings.get("binary.handling.mode", "bytes")
    return {
        "bytes": data,
        "hex": data.hex(),
        "base64": base64.b64encode(data).decode(),
        "base64-url-safe": base64.urlsafe_b64encode(data).decode(),
    }[mode]


def _clock(precision: int) -> Typed:
    """A time of day, by `time.precision.mode`."""

    def typed(text: str, settings: Settings) -> int:
        found = datetime.fromisoformat(f"1970-01-01 {text}") - datetime(1970, 1, 1)
        micros = found // timedelta(microseconds=1)
        mode = settings.get("time.precision.mode", "adaptive")
        in_millis = mode == "connect" or (mode == "adaptive" and precision <= 3)
        return micros // 1000 if in_millis else micros

    return typed


def _local(text: str, settings: Settings) -> datetime:
    found = datetime.fromisoformat(text)
    if settings.get("time.precision.mode") == "connect":  # milliseconds, an instant of UTC
        return found.replace(microsecond=found.microsecond // 1000 * 1000, tzinfo=UTC)
    return found


def _zoned(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _zoned_clock(text: str) -> str:
    found = datetime.fromisoformat(f"1970-01-02 {text}").astimezone(UTC)
    return f"{found.time().isoformat()}Z"


_SPANS = {
    "3 days 04:05:06.7": (3 * _DAY_IN_MICROSECONDS + 14_706_700_000, "P0Y0M3DT4H5M6.7S"),
    "-00:00:01": (-1_000_000, "P0Y0M0DT0H0M-1S"),
}


def _span(text: str, settings: Settings) -> Any:
    return _SPANS[text][settings.get("interval.handling.mode") == "string"]


def _pairs(text: str, settings: Settings) -> Any:
    found = json.loads("{" + text.replace("=>", ":").replace(":NULL", ":null") + "}")
    if settings.get("hstore.handling.mode") == "map":
        return [*found.items()]
    return json.dumps(found, separators=(",", ":"))


def _point(text: str) -> dict[str, Any]:
    x, y = map(float, text.strip("()").split(","))
    wkb = b"\1\1\0\0\0" + struct.pack("<dd", x, y)
    return {"x": x, "y": y, "wkb": wkb, "srid": None}


_whole, _double, _text = _as(int), _as(float), _as(str)
_flag = _as(lambda text: text in ("t", "true"))
_day = _as(date.fromisoformat)


def _always(settings: Settings) -> bool:
    return True


def _filled(item: str, count: int = 3000) -> str:
    return f"array_fill({item}, ARRAY[{count}])"


_LONG = "repeat('x', 9000)"
COLUMNS: Mapping[str, Column] = {
    "flag": Column("boolean", _flag, ("true", "false")),
    "one_bit": Column("bit(1)", _as(lambda text: text == "1"), ("B'1'", "B'0'")),
    "bits": Column("bit(10)", _as(_bits), ("B'1000000001'", "B'0000000000'")),
    "some_bits": Column("bit varying(20)", _as(_bits), ("B'101'", "B'10101010101'")),
    "small": Column("smallint", _whole, ("-32768", "0")),
    "whole": Column("integer", _whole, ("-2147483648", "2147483647")),
    "big": Column("bigint", _whole, ("9223372036854775807", "-1")),
    "object": Column("oid", _whole, ("4294967295", "0")),
    "ratio": Column("real", _real, ("0.1", "'NaN'")),
    "share": Column("double precision", _double, ("0.1", "'-Infinity'")),
    "price": Column("numeric(20,6)", _number(6), ("12345678901234.567891", "-0.000001")),
    "count_": Column("numeric(5)", _number(0), ("12345", "0")),
    "free": Column(
        "numeric",
        _number(None),
        ("1.25", "-1e20"),
        "('0.' || repeat('7', 9000))::numeric",
        lambda settings: settings.get("decimal.handling.mode") != "string",
    ),
    "cash": Column("money", _cash, ("'1234.50'", "'-0.01'")),
    "padded": Column("char(6)", _text, ("'é'", "''")),
    "varied": Column("varchar(9000)", _text, ("'é'", "''"), _LONG),
    "note": Column("text", _text, ("'é'", "''"), _LONG),
    "title": Column("name", _as(lambda text: None), ("'a'", "''")),  # null in each change
    "loose": Column("citext", _text, ("'Ab'::citext", "''"), "repeat('X', 9000)::citext"),
    "tree": Column("ltree", _text, ("'a.b'::ltree", "''"), "repeat('abcdefgh.', 900)::ltree"),
    "isbn": Column("isbn", _text, ("'978-0-393-04002-9'::isbn", "''")),
    "doc": Column("json", _text, ("'{\"a\": 1}'", "'[]'"), f"('\"' || {_LONG} || '\"')::json"),
    "docb": Column("jsonb", _text, ("'{\"a\": 1}'", "'[]'"), f"('\"' || {_LONG} || '\"')::jsonb"),
    "ref": Column("uuid", _text, ("'6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10'",)),
    "place": Column("point", _as(_point), ("'(1.5,-2)'",)),
    "host": Column("inet", _text, ("'10.0.0.1'", "'10.0.0.0/8'")),
    "net": Column("cidr", _text, ("'10.0.0.0/8'",)),
    "card": Column("macaddr", _text, ("'08:00:2b:01:02:03'",)),
    "card8": Column("macaddr8", _text, ("'08:00:2b:01:02:03:04:05'",)),
    "ints_from": Column("int4range", _text, ("'[1,5)'", "'empty'")),
    "longs_from": Column("int8range", _text, ("'[1,)'",)),
    "numbers_from": Column("numrange", _text, ("'(1.5,2.5]'",)),
    "days_from": Column("daterange", _text, ("'[2024-02-28,2024-03-01)'",)),
    "times_from": Column("tsrange", _text, ("'[2024-02-29 10:00:00,2024-02-29 11:00:00)'",)),
    "mood": Column("mood", _text, ("'glad'", "'sad'")),
    "worth": Column("worth", _number(2), ("1.10", "-0.01")),
    "day": Column("date", _day, ("'2024-02-29'", "'0001-01-01'")),
    "at": Column("timestamp", _local, ("'2024-01-31 23:59:59.999999'", "'1900-01-01'")),
    "at_milli": Column("timestamp(3)", _local, ("'1969-12-31 23:59:59.999'",)),
    "at_second": Column("timestamp(0)", _local, ("'2024-01-31 23:59:59'",)),
    "zoned": Column("timestamptz", _as(_zoned), ("'2026-01-31 23:59:59.123456+02'",)),
    "clock": Column("time", _clock(6), ("'23:59:59.999999'", "'00:00:00'")),
    "clock_milli": Column("time(3)", _clock(3), ("'23:59:59.999'",)),
    "zoned_clock": Column("timetz", _as(_zoned_clock), ("'23:59:59.123456+02'",)),
    "span": Column("interval", _span, ("'3 days 04:05:06.7'", "'-00:00:01'")),
    "raw": Column(
        "bytea",
        _bytes,
        (r"'\x00ff'", r"'\x'"),
        "decode(repeat('00ff', 9000), 'hex')",
        lambda settings: settings.get("binary.handling.mode", "").startswith("base64"),
    ),
    "pairs": Column(
        "hstore",
        _pairs,
        ('\'"a"=>"1", "b"=>NULL\'::hstore',),
        f"('\"a\"=>\"' || {_LONG} || '\"')::hstore",
    ),
    "flags": Column("boolean[]", _flag, ("'{t,NULL,f}'", "'{}'"), _filled("true", 9000), _always),
    "smalls": Column("smallint[]", _whole, ("'{-1,2}'",), _filled("7::smallint", 9000), _always),
    "ints": Column("integer[]", _whole, ("'{1,NULL}'",), _filled("7")),
    "longs": Column("bigint[]", _whole, ("'{9223372036854775807}'",), _filled("7::bigint")),
    "objects": Column("oid[]", _whole, ("'{4294967295}'",), _filled("7::oid"), _always),
    "ratios": Column("real[]", _real, ("'{0.1}'",), _filled("0.5::real"), _always),
    "shares": Column("float8[]", _double, ("'{0.1,NULL}'",), _filled("0.5::float8"), _always),
    "prices": Column(
        "numeric(10,2)[]", _number(2), ("'{1.10,-0.01}'",), _filled("0.5::numeric"), _always
    ),
    "texts": Column("text[]", _text, ("'{a,NULL,é}'", "'{}'"), _filled("'abcdefgh'::text")),
    "varieds": Column("varchar(9)[]", _text, ("'{a}'",), _filled("'abcdefgh'::varchar")),
    "paddeds": Column("char(3)[]", _text, ("'{a}'",), _filled("'abc'::char(3)")),
    "looses": Column("citext[]", _text, ("'{Ab}'",), _filled("'abcdefgh'::citext"), _always),
    "docs": Column("json[]", _text, ("ARRAY['{\"a\": 1}'::json]",), _filled("'{\"a\": 1}'::json")),
    "docbs": Column("jsonb[]", _text, ("ARRAY['{\"a\": 1}'::jsonb]",), _filled("'[1]'::jsonb")),
    "refs": Column(
        "uuid[]",
        _text,
        ("'{6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10}'",),
        _filled("'6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10'::uuid", 900),
    ),
    "days": Column(
        "date[]",
        _day,
        ("'{2024-02-29,NULL}'",),
        _filled("'2024-02-29'::date"),
        lambda settings: settings.get("time.precision.mode") == "connect",
    ),
    "times": Column(
        "timestamp[]",
        _local,
        ("'{2024-02-29 10:00:00.5}'",),
        _filled("'2024-02-29'::timestamp"),
        _always,
    ),
    "zoneds": Column(
        "timestamptz[]",
        _as(_zoned),
        ("'{2024-02-29 10:00:00+02}'",),
        _filled("'2024-02-29Z'::timestamptz"),
        _always,
    ),
    "clocks": Column("time[]", _clock(6), ("'{10:00:00.5}'",), _filled("'10:00'::time"), _always),
    "hosts": Column("inet[]", _text, ("'{10.0.0.1}'",), _filled("'10.0.0.1'::inet"), _always),
    "nets": Column("cidr[]", _text, ("'{10.0.0.0/8}'",), _filled("'10.0.0.0/8'::cidr"), _always),
    "cards": Column(
        "macaddr[]",
        _text,
        ("'{08:00:2b:01:02:03}'",),
        _filled("'08:00:2b:01:02:03'::macaddr"),
        _always,
    ),
    "ranges": Column(
        "int4range[]", _text, ("ARRAY['[1,5)'::int4range]",), _filled("'[1,5)'::int4range"), _always
    ),
    "moods": Column("mood[]", _text, ("'{glad,sad}'", "'{}'"), _filled("'glad'::mood"), _always),
    "raws": Column(
        "bytea[]",
        _bytes,
        (r"ARRAY['\x00ff'::bytea]",),
        _filled(r"'\x00ff'::bytea", 1000),
        lambda settings: settings.get("binary.handling.mode", "bytes") != "bytes",
    ),
}
"""The key is `id`, and `n` is a number that updates change."""
