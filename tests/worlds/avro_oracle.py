"""What an Avro record is by the specification, read a byte at a time; and records of all kinds.

It shares nothing with the decoder but the rules on docs/decoding.md.
"""

from __future__ import annotations

import random
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": ["null", "string"]}, {"name": "price", "type": "double"}],
}


def _of(kind: str, logical: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": logical, **more}


_TYPES: dict[str, Any] = {
    "paid": "boolean",
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "s": "string",
    "y": "bytes",
    "maybe": ["null", "long"],
    "choice": ["null", "long", "string", LINE],
    "colour": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
    "digest": {"type": "fixed", "name": "Digest", "size": 3},
    "total": _of("bytes", "decimal", precision=38, scale=2),
    "exact": {"type": "fixed", "name": "Exact", "size": 4} | _of("fixed", "decimal", precision=9),
    "day": _of("int", "date"),
    "clock": _of("int", "time-millis"),
    "at": _of("long", "timestamp-millis"),
    "instant": ["null", _of("long", "timestamp-micros")],
    "nano": _of("long", "timestamp-nanos"),
    "tags": {"type": "array", "items": "string"},
    "counts": {"type": "map", "values": "long"},
    "lines": {"type": "array", "items": {**LINE, "name": "Other"}},
    "nothing": "null",
    "nulls": {"type": "array", "items": "null"},
    "hollow": {"type": "record", "name": "Hollow", "fields": []},
    "last": "int",
}
SCHEMA = {
    "type": "record",
    "name": "All",
    "fields": [{"name": name, "type": kind} for name, kind in _TYPES.items()],
}
HOLLOW = {"nothing", "nulls", "hollow"}
"""Fields that make no column."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _END = datetime(1, 1, 1, tzinfo=UTC), (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH)
_DAYS = ((_FIRST - _EPOCH).days, _END.days + 1)
_FEW = 1000
_DIGITS = Context(prec=60)


class Malformed(Exception):
    """It is not a record."""


class Reading:
    """One record while it is read.

    Args:
        data: Without framing.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.wrong: set[str] = set()

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise Malformed
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, bits: int = 64) -> int:
        found = 0
        for shift in range(0, 70, 7):
            (one,) = self.take(1)
            found |= (one & 0x7F) << shift
            if one < 0x80:
                if found >= 1 << bits:
                    raise Malformed
                return (found >> 1) ^ -(found & 1)
        raise Malformed

    def text(self) -> str:
        data = self.take(self.number())
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.wrong.add("invalid_utf8")
            return ""

    def blocks(self, least: int, item: Any) -> list[Any]:
        found: list[Any] = []
        while count := self.number():
            end = None
            if count < 0:
                count, size = -count, self.number()
                end = self.at + size
                if size < 0 or end > len(self.data):
                    raise Malformed
            left = len(self.data) - self.at
            most = left // least if least else max(len(self.data), _FEW) - len(found)
            if count > most:
                raise Malformed
            found += [item() for _ in range(count)]
            if end not in (None, self.at):
                raise Malformed
        return found

    def value(self, kind: Any) -> Any:
        if isinstance(kind, list):
            branch = self.number()
            if not 0 <= branch < len(kind):
                raise Malformed
            found = self.value(kind[branch])
            if len(kind) == 2 or found is None:
                return found
            members: dict[str, Any] = {f"member{n}": None for n in range(len(kind) - 1)}
            return {**members, f"member{branch - 1}": found}
        name, logical = _told(kind)
        if logical is not None:
            return self.logical(name, logical, kind)
        return getattr(self, f"_{name}")(kind)

    def _null(self, _: Any) -> None:
        return None

    def _boolean(self, _: Any) -> bool:
        (one,) = self.take(1)
        if one > 1:
            raise Malformed
        return one == 1

    def _int(self, _: Any) -> int:
        return self.number(32)

    def _long(self, _: Any) -> int:
        return self.number()

    def _float(self, _: Any) -> float:
        return float(struct.unpack("<f", self.take(4))[0])

    def _double(self, _: Any) -> float:
        return float(struct.unpack("<d", self.take(8))[0])

    def _string(self, _: Any) -> str:
        return self.text()

    def _bytes(self, _: Any) -> bytes:
        return self.take(self.number())

    def _fixed(self, kind: Any) -> bytes:
        return self.take(kind["size"])

    def _enum(self, kind: Any) -> str:
        symbol = self.number(32)
        if not 0 <= symbol < len(kind["symbols"]):
            raise Malformed
        return str(kind["symbols"][symbol])

    def _array(self, kind: Any) -> list[Any]:
        least = {"string": 1, "null": 0}.get(str(kind["items"]), 9)
        return self.blocks(least, lambda: self.value(kind["items"]))

    def _map(self, kind: Any) -> dict[str, Any]:
        return dict(self.blocks(2, lambda: (self.text(), self.value(kind["values"]))))

    def _record(self, kind: Any) -> dict[str, Any]:
        made = {f["name"]: self.value(f["type"]) for f in kind["fields"]}
        return {n: v for n, v in made.items() if n not in HOLLOW}

    def logical(self, name: str, logical: str, kind: dict[str, Any]) -> Any:
        if logical == "decimal":
            data = self.take(kind["size"] if name == "fixed" else self.number())
            if not data:
                raise Malformed
            digits = int.from_bytes(data, "big", signed=True)
            if abs(digits) >= 10 ** kind["precision"]:
                self.wrong.add("out_of_range")
                return None
            return Decimal(digits).scaleb(-kind.get("scale", 0), _DIGITS)
        number = self.number(32 if name == "int" else 64)
        of_day = {"date": 1, "timestamp-millis": 86_400_000, "timestamp-micros": 86_400_000_000}
        if logical not in of_day:
            return number
        if not _DAYS[0] * of_day[logical] <= number < _DAYS[1] * of_day[logical]:
            self.wrong.add("out_of_range")
            return None
        if logical == "date":
            return date(1970, 1, 1) + timedelta(number)
        micros = number * (1000 if logical == "timestamp-millis" else 1)
        return _EPOCH + timedelta(microseconds=micros)


def judge(data: bytes) -> tuple[str | None, dict[str, Any]]:
    """The error's class, or None and the fields."""
    reading = Reading(data)
    try:
        fields = reading.value(SCHEMA)
    except Malformed:
        return "malformed", {}
    if reading.at < len(data):
        return "trailing_bytes", {}
    for name in ("invalid_utf8", "out_of_range"):
        if name in reading.wrong:
            return name, {}
    return None, fields


class Records:
    """Records of all kinds: good ones, and such with a few bytes that are others.

    Args:
        seed: The same seed gives the same records.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self) -> tuple[bytes, bool]:
        """A record, and whether it is as a writer has written it."""
        data = self._encoded(SCHEMA)
        if self._random.random() < 0.4:
            return data, True
        for _ in range(self._random.choice((1, 1, 2, 3))):
            data = self._changed(data)
        return data, False

    def _changed(self, data: bytes) -> bytes:
        draw = self._random
        at = draw.randrange(len(data) + 1)
        kind = draw.randrange(6)
        if kind == 0:
            return data[:at]
        if kind == 1:
            return data[:at] + draw.randbytes(draw.choice((1, 2, 9))) + data[at:]
        if kind == 2:
            return data[:at] + data[at + draw.choice((1, 2, 5)) :]
        if kind == 3:
            forged = draw.choice((2**60, -(2**60), -(2**63), 2**63 - 1, 10**6, 2**31, -1))
            return data[:at] + _zigzag(forged) + data[at + 1 :]
        if kind == 4:
            return data + draw.randbytes(draw.choice((0, 1, 3)))
        return data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]

    def _encoded(self, kind: Any) -> bytes:
        draw = self._random
        if isinstance(kind, list):
            branch = draw.randrange(len(kind))
            return _zigzag(branch) + self._encoded(kind[branch])
        name, logical = _told(kind)
        if logical == "decimal" and name == "bytes":
            return self._text(
                draw.randbytes(17 if draw.random() < 0.01 else draw.choice((1, 8, 15)))
            )
        return bytes(getattr(self, f"_{name}")(kind, logical))

    def _null(self, *_: Any) -> bytes:
        return b""

    def _boolean(self, *_: Any) -> bytes:
        return bytes([self._random.randrange(2)])

    def _int(self, _: Any, logical: str | None) -> bytes:
        draw, usual = self._random, self._random.randrange(20_000)
        if logical == "time-millis" or (logical == "date" and draw.random() < 0.98):
            return _zigzag(usual)
        edges = (0, -1, 2**31 - 1, -(2**31), -719_162, 2_932_896, -719_163, 2_932_897)
        return _zigzag(draw.choice((*edges, usual)))

    def _float(self, *_: Any) -> bytes:
        draw = self._random
        return struct.pack("<f", draw.choice((0.0, -1.5, float("nan"), draw.random())))

    def _double(self, *_: Any) -> bytes:
        draw = self._random
        return struct.pack("<d", draw.choice((-0.0, 1e300, float("inf"), draw.random())))

    def _string(self, *_: Any) -> bytes:
        draw = self._random
        text = draw.choice(("", "a", "é", "𝄞 long " * draw.randrange(9))).encode()
        return self._text(text if draw.random() < 0.999 else b"\xff")

    def _bytes(self, *_: Any) -> bytes:
        return self._text(self._random.randbytes(self._random.randrange(20)))

    def _text(self, data: bytes) -> bytes:
        return _zigzag(len(data)) + data

    def _fixed(self, kind: Any, logical: str | None) -> bytes:
        data = self._random.randbytes(kind["size"])
        return bytes([data[0] % 8, *data[1:]]) if logical else data

    def _enum(self, kind: Any, _: Any) -> bytes:
        return _zigzag(self._random.randrange(len(kind["symbols"])))

    def _array(self, kind: Any, _: Any) -> bytes:
        return self._blocks(lambda: self._encoded(kind["items"]))

    def _map(self, kind: Any, _: Any) -> bytes:
        return self._blocks(lambda: self._encoded("string") + self._encoded(kind["values"]))

    def _record(self, kind: Any, _: Any) -> bytes:
        return b"".join(self._encoded(f["type"]) for f in kind["fields"])

    def _long(self, _: Any, logical: str | None) -> bytes:
        return _zigzag(self._whole(logical))

    def _whole(self, logical: str | None) -> int:
        draw = self._random
        usual = draw.randrange(2**41)
        if logical in (None, "timestamp-nanos"):
            return draw.choice((0, -1, 2**63 - 1, -(2**63), usual))
        if draw.random() < 0.98:
            return usual
        ends = {"timestamp-millis": 86_400_000, "timestamp-micros": 86_400_000_000}
        return draw.choice((2**62, -(2**63), *(d * ends[logical] - 1 for d in _DAYS)))

    def _blocks(self, item: Any) -> bytes:
        draw, found = self._random, b""
        while (count := draw.choice((0, 0, 1, 2, 5))) > 0:
            items = b"".join(item() for _ in range(count))
            if draw.random() < 0.3:
                found += _zigzag(-count) + _zigzag(len(items)) + items
            else:
                found += _zigzag(count) + items
        return found + b"\0"


def _told(kind: Any) -> tuple[str, str | None]:
    """Name and logical type."""
    return (kind["type"], kind.get("logicalType")) if isinstance(kind, dict) else (kind, None)


def _zigzag(number: int) -> bytes:
    left, found = (number << 1) ^ (number >> 63), bytearray()
    left &= 2**64 - 1
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])
