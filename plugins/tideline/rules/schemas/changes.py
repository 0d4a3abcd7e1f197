"""What merging schemas finds. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.model.decoding import ReaderSchema, WriterSchema


class SchemaUnusable(ValueError):
    """A schema that no column can be made of; becomes a finding, never leaves this package.

    Args:
        field: Dotted path of the field; empty for the schema itself.
        reason: Why.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NewField:
    """A schema has a field that the table has not. A table's first columns are none of these.

    Args:
        schema: The schema, as `SUBJECT:VERSION` or a file's name.
        field: Dotted path in the record.
        column: The top column that it is, or is in.
        type: The field's type as Delta and Spark write it in JSON.
    """

    schema: str
    field: str
    column: str
    type: object

    def __str__(self) -> str:
        return f"{self.schema} brings the field {self.field} ({_short(self.type)})"


@dataclass(frozen=True, slots=True)
class Incompatible:
    """A schema's field does not fit the column that is there.

    Args:
        schema: The schema, as `SUBJECT:VERSION` or a file's name.
        schema_id: Its id.
        field: Dotted path in the record.
        reason: In one sentence.
        known, found: What the field is in the table and in the schema, for people.
        since: The schema that brought the column.
        known_text, found_text: Both schemas. For one that is not among the writers given, the
            previous reader stands for it.
    """

    schema: str
    schema_id: int
    field: str
    reason: str
    known: str
    found: str
    since: str
    known_text: str
    found_text: str

    def __str__(self) -> str:
        where = f"field {self.field}" if self.field else "the schema"
        since = f" (there since {self.since})" if self.since else ""
        return f"{self.schema} does not fit: {where}: {self.reason}{since}"


@dataclass(frozen=True, slots=True)
class Unusable:
    """A schema that no columns can be made of, whatever the table has.

    Args:
        schema: The schema, as `SUBJECT:VERSION` or a file's name.
        schema_id: Its id.
        field: Dotted path in the record; empty for the schema itself.
        reason: In one sentence.
        text: The schema.
    """

    schema: str
    schema_id: int
    field: str
    reason: str
    text: str

    def __str__(self) -> str:
        where = f" in field {self.field}" if self.field else ""
        return f"{self.schema} cannot be used{where}: {self.reason}"


Change = NewField | Incompatible | Unusable


@dataclass(frozen=True, slots=True)
class Merged:
    """What the records are read as, and what is new about it.

    Args:
        reader: The previous reader with what the schemas add. Without any usable schema and
            previous reader, it has no columns.
        writers: The schemas that fit, by id, with the text that the decoder has to be given: the
            same bytes, named as in the reader. `PartPlan.writers` are these.
        changes: In the order of the schemas' ids.
        refused: Names of columns that listed fields cannot have, in words.
    """

    reader: ReaderSchema
    writers: tuple[WriterSchema, ...]
    changes: tuple[Change, ...]
    refused: tuple[str, ...] = ()

    @property
    def misfits(self) -> tuple[Incompatible | Unusable, ...]:
        """Schemas that are left out of reader and writers, and why."""
        return tuple(c for c in self.changes if not isinstance(c, NewField))


def _short(type_: object) -> str:
    """A column's type in a word."""
    return str(type_["type"] if isinstance(type_, dict) else type_)
