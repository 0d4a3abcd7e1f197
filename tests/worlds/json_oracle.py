"""What has to become of a JSON document, by Python's own parser; and documents of all kinds.

It shares nothing with the decoder but the rules on docs/decoding.md.
"""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

ORDER = (
    "malformed",
    "trailing_bytes",
    "invalid_utf8",
    "duplicate_field",
    "type_mismatch",
    "out_of_range",
)
"""Of all that is wrong with a document, the first of these is told."""
_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))",
    re.ASCII,
)


LONG_S = "\u017f"
"""In upper case it is an S."""

INNER = {
    "n": {"type": "integer"},
    "Tag": {"type": "string"},
    "day": {"type": "string", "format": "date"},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "total": {"type": "number"},
        "is_new": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "anything": {},
        "line": {"type": "object", "properties": INNER},
        "lines": {"type": "array", "items": {"type": "object", "properties": INNER}},
        "sizes": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "rates": {"type": "object", "additionalProperties": {"type": "number"}},
    },
}
"""Each kind of field."""


class Number(str):
    """A number as it was written."""


class Members(list):
    """An object's names and values, in order."""


class Oracle:
    """Judges documents of one JSON Schema of plain properties.

    Args:
        schema: Its keywords are type, properties, items, additionalProperties and format; and of
            the whole `$schema`.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._is_draft_4 = "draft-04" in schema.get("$schema", "")

    def judge(self, data: bytes) -> tuple[str | None, dict[str, Any]]:
        """The error's class, or None and the fields."""
        self._wrong: set[str] = set()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return "invalid_utf8", {}
        if text.startswith("\ufeff") or "\0" in text[:4]:
            return "malformed", {}
        start = len(text) - len(text.lstrip(" \t\r\n"))
        try:
            document, end = _READER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return "malformed", {}
        if text[end:].strip(" \t\r\n"):
            self._wrong.add("trailing_bytes")
        self._look_at(document)
        found = self._value(self._schema, document, is_root=True)
        worst = next((name for name in ORDER if name in self._wrong), None)
        return worst, found if worst is None else {}

    def _look_at(self, value: Any) -> None:
        """Names twice, and halves of characters, wherever they are."""
        if isinstance(value, Members):
            names = [name for name, _ in value]
            if len({*names}) < len(names):
                self._wrong.add("duplicate_field")
            for name, inner in value:
                self._look_at(name)
                self._look_at(inner)
        elif isinstance(value, list):
            for inner in value:
                self._look_at(inner)
        elif isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            self._wrong.add("invalid_utf8")

    def _value(self, schema: dict[str, Any], value: Any, *, is_root: bool = False) -> Any:
        if value is None and not is_root:
            return None
        kind = schema.get("format") or schema.get("type", "text")
        if kind == "object" and "properties" not in schema:
            kind = "map"
        return getattr(self, f"_{kind.replace('-', '_')}")(schema, value)

    def _bad(self, name: str) -> None:
        self._wrong.add(name)

    def _object(self, schema: dict[str, Any], value: Any) -> Any:
        if not isinstance(value, Members):
            return self._bad("type_mismatch")
        given = dict(value)
        wanted = schema["properties"]
        if schema.get("additionalProperties") is False and given.keys() - wanted.keys():
            self._bad("type_mismatch")
        missing = {name.upper().lower() for name in wanted if name not in given}
        if any(n.upper().lower() in missing for n in given.keys() - wanted.keys()):
            self._bad("type_mismatch")
        return {name: self._value(kind, given.get(name)) for name, kind in wanted.items()}

    def _map(self, schema: dict[str, Any], value: Any) -> Any:
        if not isinstance(value, Members):
            return self._bad("type_mismatch")
        return {n: self._value(schema["additionalProperties"], inner) for n, inner in value}

    def _array(self, schema: dict[str, Any], value: Any) -> Any:
        if not isinstance(value, list) or isinstance(value, Members):
            return self._bad("type_mismatch")
        return [self._value(schema["items"], inner) for inner in value]

    def _boolean(self, _: Any, value: Any) -> Any:
        return value if isinstance(value, bool) else self._bad("type_mismatch")

    def _string(self, _: Any, value: Any) -> Any:
        is_text = isinstance(value, str) and not isinstance(value, Number)
        return value if is_text else self._bad("type_mismatch")

    def _text(self, _: Any, value: Any) -> Any:
        return value if isinstance(value, str) and not isinstance(value, Number) else Any

    def _integer(self, _: Any, value: Any) -> Any:
        if not isinstance(value, Number):
            return self._bad("type_mismatch")
        if re.fullmatch("-?[0-9]+", value):
            found = int(value)
        elif self._is_draft_4:
            return self._bad("type_mismatch")
        elif not re.split("[eE]", value)[0].strip("-0."):
            found = 0
        elif abs(float(value)) == float("inf"):
            return self._bad("out_of_range")
        elif float(value) == 0 or Fraction(value).denominator != 1:
            return self._bad("type_mismatch")
        else:
            found = int(Fraction(value))
        return found if -(2**63) <= found < 2**63 else self._bad("out_of_range")

    def _number(self, _: Any, value: Any) -> Any:
        if not isinstance(value, Number):
            return self._bad("type_mismatch")
        found = float(value)
        mantissa = re.split("[eE]", value)[0]
        digits = re.sub("[-.]", "", mantissa).strip("0")
        if not digits:
            return found
        if abs(found) == float("inf") or found == 0:
            return self._bad("out_of_range")
        if abs(found) < 2**53:
            return found
        again = Context(prec=max(15, len(digits))).plus(Decimal(found))
        rounded = Context(prec=len(digits)).plus(again)
        return found if rounded == Decimal(value) else self._bad("out_of_range")

    def _date(self, schema: Any, value: Any) -> Any:
        text = self._string(schema, value)
        try:
            if text is not None and re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
                return date.fromisoformat(text)
        except ValueError:
            pass
        return self._bad("type_mismatch")

    def _date_time(self, schema: Any, value: Any) -> Any:
        found = _INSTANT.fullmatch(self._string(schema, value) or "")
        if found is None:
            return self._bad("type_mismatch")
        day, hour, minute, second, parts, _, sign, hours, minutes = found.groups()
        try:
            shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
            if int(minutes or 0) > 59:
                raise ValueError(minutes)
            at = datetime.fromisoformat(f"{day}T{hour}:{minute}:{second}")
            at = at.replace(
                microsecond=int(((parts or "") + "000000")[:6]),
                tzinfo=timezone(-shift if sign == "-" else shift),
            )
            return at.astimezone(UTC)
        except OverflowError:
            return self._bad("out_of_range")
        except ValueError:
            return self._bad("type_mismatch")


def _no_constant(name: str) -> None:
    raise ValueError(name)


_READER = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=Number, parse_int=Number, parse_constant=_no_constant
)


def _words(text: str) -> list[str]:
    return text.split()


_NUMBERS = _words(
    """
    0 -0 1 -1 1.0 1e2 1E2 1e-2 0.1 1.10 9007199254740991 9007199254740992 9007199254740993
    9007199254740993.0 90071992547409930e-1 9007199254740993.5 18014398509481984 1e23
    6.02214076e23 9223372036854775807 9223372036854775808 -9223372036854775808
    -9223372036854775809 123456789012345678901234567890 12345678901234567890.123456789 1e300 1e308
    1.8e308 1e400 -1e400 1e-400 5e-324 0e999999999999 1e999999999999 1e-999999999999
    0.12345678901234567890 2.2250738585072014e-308 01 1. .5 +1 - 1e 1e+ 0x10 NaN Infinity
    -Infinity 1_0
    """
)
_TIMES = _words(
    """
    2026-01-02T03:04:05Z 2026-01-02t03:04:05.678z 2026-01-02T03:04:05.123456789+02:00 12:30:00
    2026-01-02T03:04:05 2024 19000 -5 2026-02-30T00:00:00Z 2026-01-02T24:00:00Z
    2026-01-02T23:59:60Z 2026-01-02T03:04:05+24:00 2026-01-02T03:04:05-0100 2026-01-02 2024-02-29
    2023-02-29 0000-01-01 0001-01-01T00:00:00+01:00 9999-12-31T23:59:59.999999Z 2026-1-2
    +2026-01-02 2026-01-02Z 2026-01-02T03:04Z 2026-01-02T03:04:05.Z
    """
)
_TIMES += ["2026-01-02 03:04:05Z", " 2026-01-02", "\u0662026-01-02", ""]
_TEXTS = ["", "a", "\xe9", "\U0001f600", "\0", 'a"b', "\\", LONG_S, "K", "x" * 300]
_ESCAPES = [r"\ud83d\ude00", r"\ud83d", r"\ude00", r"\u0041", r"\n", r"\x", r"\u12", "\\", "\n"]
_PIECES = [*'{}[],:"', " ", "\n", "null", "true", "1", "\\", "\0", "\ufeff", "//", "'", "\xa0"]


class Documents:
    """Documents for a schema: good ones, ones with wrong values, and ones that are damaged.

    Args:
        seed: The same seed makes the same documents.
    """

    def __init__(self, schema: dict[str, Any], seed: int) -> None:
        self._schema = schema
        self._random = random.Random(seed)

    def next(self) -> bytes:
        """One more."""
        r = self._random
        text = self._space() + self._of(self._schema, 0) + self._space()
        for _ in range(r.choice((0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 5))):
            at = r.randrange(len(text) + 1)
            to = min(len(text), at + r.choice((0, 0, 1, 1, 3, 20)))
            text = text[:at] + r.choice(("", r.choice(_PIECES))) + text[to:]
        data = text.encode("utf-8", "surrogatepass")
        if r.random() < 0.03 and data:
            at = r.randrange(len(data))
            data = data[:at] + bytes([r.randrange(256)]) + data[at + 1 :]
        return data

    def _space(self) -> str:
        return self._random.choice(("", "", "", " ", "\n\t", "\r "))

    def _of(self, schema: dict[str, Any], depth: int) -> str:
        r = self._random
        if r.random() < 0.02:
            return self._any(depth)
        if r.random() < 0.05:
            return "null"
        kind = schema.get("format") or schema.get("type")
        if kind in ("integer", "number"):
            return r.choice(_NUMBERS) if r.random() < 0.08 else str(r.randrange(-(10**6), 10**6))
        if kind in ("date", "date-time"):
            good = "2026-01-02" if kind == "date" else "2026-01-02T03:04:05.5Z"
            return self._string(r.choice(_TIMES) if r.random() < 0.08 else good)
        if kind == "string":
            return self._string(r.choice(_TEXTS))
        if kind == "boolean":
            return r.choice(("true", "false"))
        if kind == "array":
            items = [self._of(schema["items"], depth + 1) for _ in range(r.choice((0, 1, 2, 5)))]
            return f"[{f'{self._space()},'.join(items)}]"
        if kind == "object" and "properties" in schema:
            members = [
                (self._name(name), self._of(kind, depth + 1))
                for name, kind in schema["properties"].items()
                if r.random() < 0.8
            ]
            return self._object(members, depth)
        if kind == "object":
            inner = schema["additionalProperties"]
            names = r.choices(("a", "b", "é", "A"), k=r.choice((0, 1, 2)))
            return self._object([(self._name(n), self._of(inner, depth + 1)) for n in names], depth)
        return self._any(depth)

    def _object(self, members: list[tuple[str, str]], depth: int) -> str:
        r = self._random
        while r.random() < 0.08:
            name = r.choice(("x", "y", "ID", "Id", "note", "l\u0131ne", "N"))
            members.insert(r.randrange(len(members) + 1), (self._name(name), self._any(depth + 1)))
        if r.random() < 0.3:
            r.shuffle(members)
        made = (f"{self._space()}{n}{self._space()}:{self._space()}{v}" for n, v in members)
        return f"{{{','.join(made)}{self._space()}}}"

    def _name(self, name: str) -> str:
        if self._random.random() < 0.01 and name:
            return f'"\\u{ord(name[0]):04x}{name[1:]}"'
        return json.dumps(name, ensure_ascii=False)

    def _string(self, text: str) -> str:
        r = self._random
        made = json.dumps(text, ensure_ascii=r.random() < 0.3)
        return f'{made[:-1]}{r.choice(_ESCAPES)}"' if r.random() < 0.01 else made

    def _any(self, depth: int) -> str:
        r = self._random
        if depth > 4 or r.random() < 0.6:
            number = r.choice(_NUMBERS) if r.random() < 0.3 else "1.50"
            plain = (number, "null", "true", self._string(r.choice(_TEXTS)))
            return r.choice(plain)
        if r.random() < 0.5:
            return f"[{','.join(self._any(depth + 1) for _ in range(r.randrange(3)))}]"
        members = [
            (self._name(r.choice(("a", "b", "c"))), self._any(depth + 1))
            for _ in range(r.randrange(3))
        ]
        return self._object(members, depth + 1)
