"""What a payload of Kafka Connect's JSON has to become: each kind's rule once more, in Python.

Fragments of JSON are drawn for each kind, right ones and wrong ones. What they are is judged from
the parsed fragment alone, by nothing that the decoder uses.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import date, datetime, timedelta
from decimal import Context, Decimal

from tests.worlds import connect_json
from tests.worlds.connect_json import field, of, schema

KINDS = {**connect_json.KINDS, "tags": of("array", items=of("int32"))}
SCHEMA = schema(*(field(name, kind) for name, kind in KINDS.items()))
MISMATCH, RANGE = "type_mismatch", "out_of_range"
ORDER = (MISMATCH, RANGE)
"""The first that is found anywhere counts."""
_FIRST, _LAST = date(1, 1, 1), date(9999, 12, 31)
_EPOCH = date(1970, 1, 1)
_DAY = 86_400_000_000


class Wrong(Exception):
    """A value is not what its column holds; its class."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        return re.fullmatch(r"-?\d+", self) is not None


def judge(text):
    """The class of a payload, or None, and its values; times are microseconds since 1970."""
    payload = json.loads(text, parse_int=Number, parse_float=Number)
    values, problems = {}, []
    for name in KINDS:
        try:
            given = payload.get(name)
            values[name] = None if given is None else _RULES[name](given)
        except Wrong as wrong:
            problems.append(str(wrong))
    return next((kind for kind in ORDER if kind in problems), None), values


def _whole(given):
    if not isinstance(given, Number) or not given.is_whole:
        raise Wrong(MISMATCH)
    if not -(2**63) <= int(given) < 2**63:
        raise Wrong(RANGE)
    return int(given)


def _ratio(given):
    if given in ("NaN", "Infinity", "-Infinity") and not isinstance(given, Number):
        return float(given)
    if not isinstance(given, Number):
        raise Wrong(MISMATCH)
    found, exact = float(given), Decimal(given)
    if found in (float("inf"), float("-inf")) or (found == 0) != exact.is_zero():
        raise Wrong(RANGE)
    if abs(found) >= 2**53:
        digits = len(exact.normalize(Context(prec=2000)).as_tuple().digits)
        if digits > 15 and Context(prec=digits).create_decimal(Decimal(found)) != exact:
            raise Wrong(RANGE)
    return found


def _text(given):
    if isinstance(given, Number) or not isinstance(given, str):
        raise Wrong(MISMATCH)
    return given


def _paid(given):
    if not isinstance(given, bool):
        raise Wrong(MISMATCH)
    return given


def _raw(given):
    try:
        return base64.b64decode(_text(given), validate=True)
    except ValueError as error:
        raise Wrong(MISMATCH) from error


def _time(of_day):
    def rule(given):
        number = _whole(given)
        first, last = ((day - _EPOCH).days for day in (_FIRST, _LAST))
        if not first * of_day <= number < (last + 1) * of_day:
            raise Wrong(RANGE)
        return number * (_DAY // of_day) if of_day > 1 else number

    return rule


_RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))"
)


def _zoned(given):
    read = _RFC_3339.fullmatch(_text(given))
    if read is None:
        raise Wrong(MISMATCH)
    *parts, below, sign, hours, minutes = read.groups()
    shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        local = datetime(*map(int, parts), int((below or "")[:6].ljust(6, "0")))
    except ValueError as error:
        raise Wrong(MISMATCH) from error
    if shift >= timedelta(days=1) or int(minutes or 0) > 59:
        raise Wrong(MISMATCH)
    days = local.toordinal() - _EPOCH.toordinal()
    inside = local - datetime.combine(local.date(), datetime.min.time())
    found = days * _DAY + inside // timedelta(microseconds=1)
    found -= (-1 if sign == "-" else 1) * (shift // timedelta(microseconds=1))
    first, last = ((day - _EPOCH).days * _DAY for day in (_FIRST, _LAST))
    if not first <= found < last + _DAY:
        raise Wrong(RANGE)
    return found


def _total(given):
    if isinstance(given, Number):
        exact = Decimal(given)
        if abs(exact.as_tuple().exponent) > 16_383:
            raise Wrong(RANGE)
        unscaled = exact.scaleb(2, Context(prec=40_000))
        if unscaled != unscaled.to_integral_value(context=Context(prec=40_000)):
            raise Wrong(MISMATCH)
        digits = int(unscaled)
    else:
        data = _raw(given)
        if not data:
            raise Wrong(MISMATCH)
        digits = int.from_bytes(data, signed=True)
    if abs(digits) >= 10**38:
        raise Wrong(RANGE)
    return Decimal(digits).scaleb(-2, Context(prec=40))


def _any(given):
    if not isinstance(given, dict):
        raise Wrong(MISMATCH)
    scale, value = given.get("scale"), given.get("value")
    if not isinstance(scale, Number) or not scale.is_whole or isinstance(value, Number):
        raise Wrong(MISMATCH)
    data = _raw(value)
    if not data:
        raise Wrong(MISMATCH)
    if abs(int(scale)) > 16_383:
        raise Wrong(RANGE)
    digits, places = int.from_bytes(data, signed=True), int(scale)
    if places <= 0:
        return str(digits * 10**-places)
    text = str(abs(digits)).rjust(places + 1, "0")
    return f"{'-' if digits < 0 else ''}{text[:-places]}.{text[-places:]}"


def _tags(given):
    if not isinstance(given, list):
        raise Wrong(MISMATCH)
    return _all(None if item is None else (lambda item=item: _whole(item)) for item in given)


def _counts(given):
    if not isinstance(given, dict):
        raise Wrong(MISMATCH)
    made = _all(None if v is None else (lambda v=v: _whole(v)) for v in given.values())
    return dict(zip(given, made, strict=True))


def _all(made):
    """Every value, or the first class of what is wrong with any."""
    found, problems = [], []
    for make in made:
        try:
            found.append(None if make is None else make())
        except Wrong as wrong:
            problems.append(str(wrong))
    for kind in ORDER:
        if kind in problems:
            raise Wrong(kind)
    return found


_RULES = {
    "id": _whole,
    "ratio": _ratio,
    "note": _text,
    "paid": _paid,
    "raw": _raw,
    "day": _time(1),
    "milli": _time(86_400_000),
    "micro": _time(_DAY),
    "zoned": _zoned,
    "total": _total,
    "any": _any,
    "tags": _tags,
    "counts": _counts,
}
_STRANGE = ("true", '"text"', "[]", "{}", "1.5", "1e3", '""', "12", '"12"', "null")


class Payloads:
    """Payloads of `SCHEMA`, most of them right, drawn from a seed."""

    def __init__(self, random):
        self.random = random

    def next(self):
        """A payload's JSON."""
        chosen = self.random
        names = [n for n in KINDS if chosen.random() < 0.7]
        members = (f'"{n}": {self._fragment(n)}' for n in names)
        return "{" + ", ".join(members) + "}"

    def _fragment(self, name):
        if self.random.random() < 0.02:
            return self.random.choice(_STRANGE)
        return getattr(self, f"_{name}")()

    def _number(self, *edges):
        near = self.random.choice(edges) + self.random.randrange(-2, 3)
        return str(near if self.random.random() < 0.1 else self.random.randrange(-(10**9), 10**9))

    def _id(self):
        return self._number(2**63, -(2**63), 2**53, 0)

    def _ratio(self):
        drawn = self.random.random()
        if drawn < 0.05:
            return self.random.choice(['"NaN"', '"Infinity"', '"-Infinity"', "1e400", "1e-400"])
        if drawn < 0.1:
            return str(self.random.randrange(2**52, 2**60))
        return repr(self.random.uniform(-1, 1) * 10 ** self.random.randrange(-300, 300))

    def _note(self):
        return json.dumps("".join(self.random.choices('aé\n"\\€😀 ', k=5)))

    def _paid(self):
        return self.random.choice(["true", "false"])

    def _base64(self, data):
        return json.dumps(base64.b64encode(data).decode())

    def _raw(self):
        if self.random.random() < 0.02:
            return self.random.choice(['"%"', '"A"', '"AA A"', '"é"'])
        return self._base64(self.random.randbytes(self.random.randrange(5)))

    def _day(self):
        return self._number(-719_162, 2_932_896) if self.random.random() < 0.1 else "19754"

    def _milli(self):
        return self._number(-719_162 * 86_400_000, 2_932_897 * 86_400_000, 2**63)

    def _micro(self):
        return self._number(-719_162 * _DAY, 2_932_897 * _DAY, 2**63)

    def _zoned(self):
        choice = self.random.choice
        day = choice(["2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "1970-01-01"])
        time = choice(["23:59:59", "00:00:00", "24:00:00", "12:30"])
        zone = choice(["Z", "z", "+02:00", "-01:30", "", "+24:00", "+0200"])
        below = choice(["", ".1", ".123456", ".123456789", "."])
        usual = self.random.random() < 0.8
        return '"2026-01-31T23:59:59.5Z"' if usual else f'"{day}T{time}{below}{zone}"'

    def _total(self):
        drawn = self.random.random()
        if drawn < 0.05:
            return self.random.choice(
                ["0.001", "1e36", "1e35", "1e-20000", "1e20000", '""', "-0.10"]
            )
        if drawn < 0.3:
            return f"{self.random.randrange(-(10**6), 10**6)}.{self.random.randrange(100):02}"
        size = self.random.choice([1, 2, 8, 15, 16, 17])
        return self._base64(self.random.randbytes(size if self.random.random() < 0.1 else 2))

    def _any(self):
        usual = self.random.random() < 0.95
        scale = self.random.randrange(-5, 40)
        scale = scale if usual else self.random.choice([16_383, 16_384, -16_384, '"1"', "null"])
        value = self._base64(self.random.randbytes(self.random.randrange(usual, 20)))
        return self.random.choice(
            [f'{{"scale": {scale}, "value": {value}}}', f'{{"value": {value}, "scale": {scale}}}']
        )

    def _tags(self):
        return "[" + ", ".join(self.random.choices(["1", "-7", "null"], k=3)) + "]"

    def _counts(self):
        return json.dumps(
            {key: self.random.randrange(9) for key in self.random.choices("abc", k=2)}
        )
