"""What Debezium writes in place of a value that a change did not bring, by the column's type. Pure.

Its PostgreSQL connector: `UnchangedToastedPlaceholder`, `UnchangedToastedReplicationMessageColumn`
and the converters in `PostgresValueConverter`; the connectors for Oracle and MySQL convert the
placeholder's bytes as `binary.handling.mode` says. What is not here comes as null, and cannot be
told from a null of the row (docs/current.md, "What no fold can see").
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from hashlib import md5

NOT_TOLD: Mapping[str, tuple[object, ...]] = {
    "string": ("{}", "1970-01-01T00:00:00Z", "00:00:00Z", "P0Y0M0DT0H0M0S"),
    "boolean": (False,),
    # the last two are well-known bytes of an empty collection, and of a point at 0 0
    "binary": (b"", b"\0", bytes.fromhex("010700000000000000"), bytes.fromhex("0101" + 38 * "0")),
}
"""Of a deleted row's column that is never null: what stands for no value, by the column's type."""
NO_TEXT = r"^(0(\.0+)?)?\z"
"""The same: an empty text, or a number's zero where `decimal.handling.mode` makes texts of them."""
_HEX = "hex:"
_NULL_INSTEAD = ("boolean", "double", "decimal", "timestamp")


def placeholders(configured: str, kind: object) -> tuple[object, ...]:
    """All values that stand for none in a column; empty for a type that has none.

    Args:
        configured: The connector's `unavailable.value.placeholder`: a text; or `hex:` and bytes.
        kind: The column's type, as Delta and Spark write it in JSON.
    """
    raw = configured.encode()
    if configured.startswith(_HEX):
        with suppress(ValueError):
            raw = bytes.fromhex(configured.removeprefix(_HEX))
    text = raw.decode(errors="replace")  # as Java does
    if isinstance(kind, Mapping):
        return _nested(raw, text, kind)
    of_map = json.dumps({text: text}, ensure_ascii=False, separators=(",", ":"))  # hstore as JSON
    flat = {"binary": (raw,), "string": (*_texts(raw, text), of_map)}
    return flat.get(str(kind), ())


def is_null_instead(kind: object) -> bool:
    """Whether Debezium writes null for a long value of such a column that did not come.

    Lists of floats, booleans, exact numbers and times. A list of whole numbers may be of a type
    that has a placeholder (`int[]`) or of one that has none (`smallint[]`): no column tells.

    Args:
        kind: As of `placeholders`.
    """
    item = kind["elementType"] if isinstance(kind, Mapping) and kind["type"] == "array" else None
    return isinstance(item, str) and item.startswith(_NULL_INSTEAD)


def _nested(raw: bytes, text: str, kind: Mapping[str, object]) -> tuple[object, ...]:
    """Lists of one item, or of a number for each byte; and a map of one pair."""
    if kind["type"] == "map":
        return ({text: text},) if kind["keyType"] == kind["valueType"] == "string" else ()
    numbers = [byte - 256 if byte > 127 else byte for byte in raw]  # a byte of Java's has a sign
    lists: dict[object, tuple[object, ...]] = {
        "string": tuple([item] for item in (*_texts(raw, text), _uuid_of(raw))),
        "binary": ([raw],),
        "integer": (numbers,),
        "long": (numbers,),
        "double": ([float(number) for number in numbers],),  # numbers of a JSON Schema
        "date": ([date(1970, 1, 1) + timedelta(days=number) for number in numbers],),
    }
    item = kind["elementType"] if kind["type"] == "array" else None
    return lists.get(item, ()) if isinstance(item, str) else ()


def _texts(raw: bytes, text: str) -> tuple[str, ...]:
    """The placeholder as a text: itself, or what `binary.handling.mode` makes of its bytes."""
    forms = (base64.b64encode(raw), base64.urlsafe_b64encode(raw))
    return tuple(dict.fromkeys((text, raw.hex(), *(form.decode() for form in forms))))


def _uuid_of(raw: bytes) -> str:
    """`java.util.UUID.nameUUIDFromBytes`, which knows of no namespace."""
    return str(uuid.UUID(bytes=md5(raw, usedforsecurity=False).digest(), version=3))
