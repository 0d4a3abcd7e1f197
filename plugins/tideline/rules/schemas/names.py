"""Names of columns: what a field of a record is called in the table.

The rule, in this order:

1. A field that has a column keeps it. No later schema renames a column.
2. Space , ; { } ( ) = . ` and control characters become `_`; an empty name becomes `_`. Delta and
   Spark refuse most of these, a dot and a backtick need quoting everywhere. Everything else stays:
   leading digits, hyphens, letters of any language.
3. A key's fields get the prefix `key_`.
4. A name that is reserved for one of the table's own columns gets the prefix `value_`
   (`value_timestamp`).
5. A name that is taken still gets `_2`, `_3` and so on. Upper and lower case count as the same,
   since Spark and most readers of tables do not tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tideline.model.typed_columns import OWN_COLUMNS

_REFUSED = re.compile(r"[ ,;{}()=.`\x00-\x1f\x7f]")


def column_name(field: str, taken: Collection[str], *, key: bool = False) -> str:
    """The name of a field's new column.

    Args:
        field: The field's name in the record.
        taken: Names that are taken, in lower case.
        key: Whether the field is the key's.
    """
    name = ("key_" if key else "") + safe_name(field)
    if name.lower() in OWN_COLUMNS:
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
        taken.add(names[-1].lower())
    return names


def safe_name(field: str) -> str:
    """A name without the characters that tables refuse; see the rule's second point."""
    return _REFUSED.sub("_", field) or "_"


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it if it is among those taken, which are in lower case."""
    candidate, number = name, 2
    while candidate.lower() in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate
