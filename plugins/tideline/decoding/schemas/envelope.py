"""The envelope that Debezium puts around a changed row. Pure.

`{"before": row, "after": row, "op": "u", "ts_ms": ..., "source": {...}, "transaction": {...}}`:
`before` is null but for what a delete tells, `after` is null for a delete (Debezium's connectors,
"Data change events"). A typed table of it has the row's own columns; what the event says of itself
is a column of the table's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tideline.decoding.schemas.joining import described
from tideline.decoding.schemas.selecting import chain_to
from tideline.decoding.schemas.shapes import Enum, Record, Scalar
from tideline.model.decoding import FieldChoice, PartPlan, SchemaUnusable
from tideline.model.placeholders import is_null_instead

ROW, BEFORE = "after", "before"
_LSN = "lsn"
POSITION = (
    _LSN,
    "sequence",
    "txId",
    "gtid",
    "file",
    "pos",
    "row",
    "commit_lsn",
    "change_lsn",
    "event_serial_no",
    "scn",
    "commit_scn",
    "rs_id",
    "ssn",
)
"""Fields of `source` that say where the change stands in the database's own log: PostgreSQL's, then
MySQL's, SQL Server's, Oracle's."""
_TOLD = ("op", "source.ts_ms", "source.snapshot", "transaction.id")
_TEXTS = ("source.snapshot", "transaction.id")
_KINDS = (
    ("op", ("string",), "a text"),
    ("source.ts_ms", ("int", "long", "integer"), "a whole number"),
)
"""What the fields hold that are read as something else than a text."""
CHANGES = ("c", "r", "u", "d", "t")
"""Operations that change rows: created, read by a snapshot, updated, deleted, all truncated."""
MESSAGE = "m"
"""The operation of a message in PostgreSQL's log, which changes none."""


def envelope_paths(choices: Sequence[FieldChoice]) -> list[str]:
    """The paths of everything that is read of an event.

    Args:
        choices: The chosen fields of the row, as `of_row` names them; empty for all.
    """
    rows = [c.path for c in choices] or [ROW]
    return [
        *_TOLD,
        *(f"source.{name}" for name in POSITION),
        *(side + path.removeprefix(ROW) for side in (BEFORE, ROW) for path in rows),
    ]


def as_texts(event: Record, text: Scalar) -> Record:
    """An event whose fields that become texts are read as texts, whatever they are written as.

    Connectors have changed them: `source.snapshot` was a boolean.

    Args:
        text: The kind that the language reads any scalar as.
    """
    for path in _TEXTS:
        event = _with_leaf(event, path.split("."), text)
    return event


def _with_leaf(record: Record, steps: Sequence[str], text: Scalar) -> Record:
    first, *rest = steps
    fields = []
    for field in record.fields:
        if field.name == first and rest and isinstance(field.shape, Record):
            field = replace(field, shape=_with_leaf(field.shape, rest, text))
        elif field.name == first and not rest and isinstance(field.shape, Scalar | Enum):
            field = replace(field, shape=text)
        fields.append(field)
    return replace(record, fields=tuple(fields))


def of_row(field: str) -> str:
    """The path of a field of the row."""
    return f"{ROW}.{field}"


def in_row(path: str) -> str | None:
    """What a path is within the row, as people know it; None for one that is not in there."""
    return path.removeprefix(f"{ROW}.") if path.startswith(f"{ROW}.") else None


def row_choices(event: Record, choices: Sequence[FieldChoice]) -> tuple[FieldChoice, ...]:
    """The fields of the row that become columns: those chosen, or all."""
    chain = chain_to(event, ROW)
    if choices or not chain or not isinstance(chain[-1].shape, Record):
        return tuple(choices)
    return tuple(FieldChoice(of_row(field.name)) for field in chain[-1].shape.fields)


def untold_columns(part: PartPlan) -> tuple[str, ...]:
    """Columns of PostgreSQL's rows in which a null may be a long value that did not come.

    Of all connectors only PostgreSQL's has a `source.lsn`.
    """
    source = next((c.type for c in part.reader.columns if c.field == "source"), None)
    fields = source.get("fields", ()) if isinstance(source, Mapping) else ()
    if part.envelope is None or _LSN not in [field["name"] for field in fields]:
        return ()
    return tuple(c.name for c in part.reader.in_table if is_null_instead(c.type))


def refuse_no_event(shape: Record) -> None:
    """Refuse a schema that is no change event's, and no other record's of Debezium's.

    Raises:
        SchemaUnusable: It is neither.
    """
    if [field.name for field in shape.fields] == ["ts_ms"]:
        return  # a heartbeat
    names = {field.name: field.shape for field in shape.fields}
    if "op" not in names or "source" not in names:
        raise SchemaUnusable("", "it is no envelope of Debezium's: it lacks op or source")
    for path, kinds, wanted in _KINDS:
        found = chain_to(shape, path)
        kind = found[-1].shape if found else None
        if kind is not None and not (isinstance(kind, Scalar) and kind.kind in kinds):
            why = f"it is {described(kind)}, and Debezium writes {wanted} there"
            raise SchemaUnusable(path, f"{why}: undo what a transform of the connector changes")
    if not isinstance(names["source"], Record):
        raise SchemaUnusable("source", "it is no record, as Debezium writes it")
    if ROW in names and not isinstance(names[ROW], Record):
        why = "it is no record, so it has no columns (of MongoDB's connector, it is a text)"
        raise SchemaUnusable(ROW, why)
