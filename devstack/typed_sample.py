"""Records that no schema allows, and typed tables held against what was produced."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from devstack.sample import Coordinate, ProducerLog, value_hash

_FIELDS = ("number", "seed", "amount")
_LATER = "coupon"
BAD = (
    json.dumps({"number": 0, "seed": 0, "amount": 12, _LATER: "SPRING"}).encode(),
    b'{"number": 1, "seed": 0',
    b"\xff\xfe",
)
"""A field that the schema forbids until it is corrected, half a document, and no text at all."""
CORRECTED = 1
"""How many of them can be decoded with the corrected schema."""


def json_schema(*, corrected: bool) -> str:
    """The JSON Schema of the sample's events.

    Args:
        corrected: Whether it knows the field that one of the bad records has.
    """
    fields = {name: {"type": "integer"} for name in _FIELDS}
    later = {_LATER: {"type": "string"}} if corrected else {}
    schema = {"type": "object", "properties": {**fields, **later}, "additionalProperties": False}
    return json.dumps(schema, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class TypedComparison:
    """Producer's log against typed table and quarantine.

    Args:
        typed: Typed rows with the values that were produced.
        tombstones: Typed rows of tombstones.
        quarantined: Quarantined rows with the bytes that were produced.
        wrong: Coordinates that are in neither table, in both, twice, or with other values.
    """

    typed: int
    tombstones: int
    quarantined: int
    wrong: int

    @property
    def exact(self) -> bool:
        """Whether each record that was produced stands in one of the tables, once, as it was."""
        return self.wrong == 0


def compare_typed(log: ProducerLog, table: Path, quarantine: Path) -> TypedComparison:
    """Compare every typed and every quarantined row with the producer's log."""
    typed = [(_coordinate(row), _document(row)) for row in _rows(table)]
    bad = [(_coordinate(row), row["value"]) for row in _rows(quarantine)]
    copies = Counter(at for at, _ in (*typed, *bad))
    equal = _equal(log, typed), _equal(log, bad)
    right = {at for found in equal for at, _ in found if copies[at] == 1}
    tombstones = sum(1 for _, value in equal[0] if value is None)
    return TypedComparison(
        typed=len(equal[0]) - tombstones,
        tombstones=tombstones,
        quarantined=len(equal[1]),
        wrong=len((log.written.keys() | copies.keys()) - right),
    )


def _rows(table: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return rows


def _coordinate(row: dict[str, Any]) -> Coordinate:
    return row["topic_id"], row["partition"], row["offset"]


def _document(row: dict[str, Any]) -> bytes | None:
    """The event as it was produced, out of its columns."""
    if row["is_tombstone"]:
        return None
    later = {_LATER: row[_LATER]} if row.get(_LATER) is not None else {}
    return json.dumps({**{name: row[name] for name in _FIELDS}, **later}).encode()


def _equal(
    log: ProducerLog, found: Iterable[tuple[Coordinate, bytes | None]]
) -> list[tuple[Coordinate, bytes | None]]:
    return [(at, value) for at, value in found if log.written.get(at) == value_hash(value)]
