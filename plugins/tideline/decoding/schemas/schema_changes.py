"""What merging schemas finds, and what a field of a record is called in the table. Pure.

The rule for names, in this order:

1. A field that has a column keeps it. No later schema renames a column.
2. Space , ; { } ( ) = . ` and control characters become `_`; an empty name becomes `_`. Delta and
   Spark refuse most of these, a dot and a backtick need quoting everywhere. Everything else stays:
   leading digits, hyphens, letters of any language.
3. A key's fields get the prefix `key_`.
4. A name that is reserved for one of the table's own columns gets the prefix `value_`
   (`value_timestamp`). Tables of change events have some more of these (`op`).
5. A name that is taken still gets `_2`, `_3` and so on. Upper and lower case count as the same,
   since Spark and most readers of tables do not tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tideline.model.decoding import OWN_COLUMNS, ReaderSchema, WriterSchema, without_case
from tideline.texts import one_line

_REFUSED = re.compile(r"[ ,;{}()=.`\x00-\x1f\x7f]")


def column_name(
    field: str, taken: Collection[str], *, key: bool = False, own: Collection[str] = OWN_COLUMNS
) -> str:
    """The name of a field's new column.

    Args:
        field: The field's name in the record.
        taken: Names that are taken, in lower case.
        key: Whether the field is the key's.
        own: Names of the table's own columns.
    """
    name = ("key_" if key else "") + safe_name(field)
    if without_case(name) in own:
        name = f"value_{name}"
    return free_name(name, taken)


def nested_names(fields: Iterable[str]) -> list[str]:
    """Names of a struct's fields in the table, in order.

    A name depends on the fields before it only, so that fields added at the end rename none.

    Args:
        fields: Names in the record, in the struct's order.
    """
    names: list[str] = []
    taken: set[str] = set()
    for field in fields:
        names.append(free_name(safe_name(field), taken))
        taken.add(without_case(names[-1]))
    return names


def safe_name(field: str) -> str:
    """A name without the characters that tables refuse; see the rule's second point."""
    return _REFUSED.sub("_", field) or "_"


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it if it is among those taken, which are in lower case."""
    candidate, number = name, 2
    while without_case(candidate) in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


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
        return (
            f"{one_line(self.schema)} brings the field {one_line(self.field)} ({_short(self.type)})"
        )


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
        where = f"field {one_line(self.field)}" if self.field else "the schema"
        since = f" (there since {one_line(self.since)})" if self.since else ""
        return f"{one_line(self.schema)} does not fit: {where}: {one_line(self.reason)}{since}"


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
        where = f" in field {one_line(self.field)}" if self.field else ""
        return f"{one_line(self.schema)} cannot be used{where}: {one_line(self.reason)}"


Change = NewField | Incompatible | Unusable


@dataclass(frozen=True, slots=True)
class MergedSchemas:
    """What the records are read as, and what is new about it.

    Args:
        reader: The previous reader with what the schemas add. Without any usable schema and
            previous reader, it has no columns.
        writers: The schemas that fit, by id, with the text that the decoder has to be given: the
            same bytes, named as in the reader. `PartPlan.writers` are these.
        changes: In the order of the schemas' ids.
        refused: Names of columns that listed fields cannot have, in words.
        kept: Fields that keep a column of before their schemas' better type, as far as that is new.
    """

    reader: ReaderSchema
    writers: tuple[WriterSchema, ...]
    changes: tuple[Change, ...]
    refused: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def misfits(self) -> tuple[Incompatible | Unusable, ...]:
        """Schemas that are left out of reader and writers, and why."""
        return tuple(c for c in self.changes if not isinstance(c, NewField))


def _short(type_: object) -> str:
    """A column's type in a word."""
    return str(type_["type"] if isinstance(type_, dict) else type_)
