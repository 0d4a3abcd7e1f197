"""What Google's own parser makes of a Protobuf record, as rows; and records of all kinds.

It shares nothing with the decoder but the rules on docs/decoding.md.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH = 2
"""The wire format's encoding of messages."""
_TIME = "google.protobuf.Timestamp"


def judge(make: Any, data: bytes) -> tuple[str | None, dict[str, Any] | None]:
    """The error's class, or None and the fields; a number that was cut off is not seen.

    The fields are None where a map's entry has a field that entries have not: this parser leaves
    the whole entry out, against the others and the documentation.

    Args:
        make: The message's class, of proto3.
        data: A record without framing.
    """
    try:
        message = make.FromString(data)
    except DecodeError as error:
        return "invalid_utf8" if "UTF-8" in str(error) else "malformed", {}
    lost: list[Any] = []
    if _has_other_types(message, lost):
        return "type_mismatch", {}
    if lost:
        return None, None
    try:
        return None, _record(message)
    except OverflowError:
        return "out_of_range", {}


def _has_other_types(message: Any, lost: list[Any]) -> bool:
    """Whether a known number came in another encoding, at any depth; notes what was left out."""
    known = message.DESCRIPTOR.fields_by_number
    for unknown in UnknownFieldSet(message):
        field = known.get(unknown.field_number)
        if field is None:
            continue
        if not _is_map(field) or unknown.wire_type != _LENGTH:
            return True
        lost.append(unknown)
    inner: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if _is_map(field):
            is_message = field.message_type.fields_by_number[2].message_type is not None
            inner += value.values() if is_message else ()
        else:
            inner += value if field.is_repeated else (value,)
    return any(_has_other_types(one, lost) for one in inner)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _record(message: Any) -> dict[str, Any]:
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            part = field.message_type.fields_by_number[2]
            pairs = sorted(value.items(), key=lambda pair: pair[0])
            found[field.name] = [(str(k), _single(part, v)) for k, v in pairs]
        elif field.is_repeated:
            found[field.name] = [_single(field, item) for item in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _single(field, value)
    return found


def _single(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is None:
        return value
    if field.message_type.full_name == _TIME:
        is_time = -62_135_596_800 <= value.seconds <= 253_402_300_799
        if not is_time or not 0 <= value.nanos < 10**9:
            raise OverflowError(value)
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if field.message_type.full_name.endswith("Value"):
        return value.value
    return _record(value)


_LINE = {"sku": "x", "sizes": [1, -2, 300], "color": 1}
_VALUES: dict[str, list[Any]] = {
    "u32": [0, 1, 2**32 - 1],
    "u64": [0, 2**63, 2**64 - 1],
    "f64": [0, 7, 2**64 - 1],
    "s64": [0, -1, -(2**63), 2**63 - 1],
    "f": [0.5, -1.0],
    "b": [True, False],
    "raw": [b"", b"\xff\x00"],
    "color": [0, 1, 7, -1],
    "colors": [[], [0, 1, 9, -5]],
    "lines": [{}, {3: _LINE, -1: {}, 20: {"sku": "\u00e9"}}],
    "texts": [{}, {"b": "2", "a": "1", "": "\U0001f600"}],
    "line": [{}, _LINE],
    "more": [[], [_LINE, {}]],
    "left": ["", "left"],
    "right": [{}, _LINE],
    "at": [{}, {"seconds": 5, "nanos": 999}, {"seconds": 253_402_300_800}, {"nanos": -1}],
    "took": [{}, {"seconds": -1, "nanos": 4}],
    "count": [{}, {"value": 2**40}],
    "text": [{}, {"value": "t"}],
    "times": [[], [{"seconds": -1, "nanos": 1}, {}]],
}


class Records:
    """Records: whole ones, joined ones, and damaged ones.

    Args:
        make: Class of the message `All`.
        seed: The same seed makes the same records.
    """

    def __init__(self, make: Any, seed: int) -> None:
        self._make = make
        self._random = random.Random(seed)

    def next(self) -> bytes:
        """One more."""
        r = self._random
        data = b"".join(self._whole() for _ in range(r.choice((1, 1, 1, 2, 3))))
        for _ in range(r.choice((0, 0, 0, 1, 1, 2, 4))):
            at = r.randrange(len(data) + 1)
            to = min(len(data), at + r.choice((0, 0, 1, 1, 2, 8)))
            some = r.choice((b"", bytes([r.randrange(256)]), r.randbytes(3), data[at : at + 9]))
            data = data[:at] + some + data[to:]
        return data

    def _whole(self) -> bytes:
        r = self._random
        names = r.sample(list(_VALUES), r.randrange(6))
        made: bytes = self._make(**{n: r.choice(_VALUES[n]) for n in names}).SerializeToString()
        return made
