"""The columns that `current` names, held against those that `decode` makes.

Only what can never work is refused. Without a list of fields the schemas say which columns there
are, and a transform may make any: whether these fit is checked when a run has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tideline.model.current import taken_by_table
from tideline.model.decoding import INVALID, OF_ENVELOPE, OWN_COLUMNS, UNAVAILABLE, without_case
from tideline.model.wording import first_few
from tideline.stream.current_section import Current
from tideline.stream.decode_section import Decode, ListedField, Part

_ALWAYS = ("topic_id", "generation", "partition", "offset", "decode_plan_id")
_OF_UNWRAPPED = "__deleted"
"""What Debezium's ExtractNewRecordState adds to a row; no envelope has it."""
_LENIENT = (
    "a null there would be another row, another order or no delete, since {key} names the column;"
    " allowed: quarantine"
)
_KEY = "key_"
"""How the names begin of a decoded key's columns that got no other one."""


@dataclass(frozen=True, slots=True)
class RefusedColumn:
    """A column that cannot be what the stream file has it for.

    Args:
        key: Where it stands, with dots between levels.
        why: What is wrong, what is allowed, and what to do.
    """

    key: str
    why: str


def refused_column(current: Current, decode: Decode) -> RefusedColumn | None:
    """The first column that cannot be part of a key, or cannot be there; None for none."""
    for key, name in _of_key(current, decode):
        sequence = current.sequence_by or ()
        if why := _names_no_row(decode, name) or taken_by_table([name], sequence):
            return RefusedColumn(key, why)
    lenient = {without_case(name): name for name in decode.lenient}
    for key, name in _named(current, decode):
        if (given := lenient.get(without_case(name))) is not None:
            return RefusedColumn(f"decode.on_value.{given}", _LENIENT.format(key=key))
        if not _can_be_made(decode, name):
            return RefusedColumn(key, _not_made(decode, name))
    return None


def _of_key(current: Current, decode: Decode) -> Iterator[tuple[str, str]]:
    """The key's columns as far as the file says their names, and where they stand."""
    if current.key is not None:
        yield from ((f"current.key.{n}", name) for n, name in enumerate(current.key))
        return
    for n, field in enumerate(decode.key.listed):
        if field.column is not None:
            yield f"decode.key.fields.{n}.as", field.column


def _named(current: Current, decode: Decode) -> Iterator[tuple[str, str]]:
    """The columns that the section names, or means where it names none, and where they stand."""
    yield from ((f"current.key.{n}", name) for n, name in enumerate(current.key or ()))
    if current.deletes.when is not None:
        yield "current.deletes.when.column", current.deletes.when.column
    elif decode.value.envelope is None and _OF_UNWRAPPED in decode.lenient:
        yield "current.deletes.when", _OF_UNWRAPPED  # its default, where there is such a column
    yield from ((f"current.sequence_by.{n}", c) for n, c in enumerate(current.sequence_by or ()))


def _names_no_row(decode: Decode, name: str) -> str | None:
    """Why the typed table's own columns are no key, in words; None for another column."""
    own = without_case(name)
    if own not in _reserved(decode) or (own == "event_date" and decode.event_time is not None):
        return None
    return (
        f"the typed table's own column {own} is about a change, and names no row at the source;"
        " allowed: columns of the records, those that are the key there. A field of the records"
        f" that is called so has the column value_{own}"
    )


def _reserved(decode: Decode) -> tuple[str, ...]:
    """Names of the typed table's own columns, whether it has them or not."""
    of_envelope = OF_ENVELOPE if decode.value.envelope is not None else ()
    unavailable = [UNAVAILABLE] if decode.value.unavailable else []
    return (*OWN_COLUMNS, *of_envelope, *unavailable, *([INVALID] if decode.lenient else []))


def _can_be_made(decode: Decode, name: str) -> bool:
    """Whether the typed table may have a column of that name."""
    name = without_case(name)
    if name in _reserved(decode):
        is_dated = name == "event_date" and decode.event_time is not None
        return is_dated or name in (*_ALWAYS, *decode.own_columns, UNAVAILABLE, INVALID)
    if decode.transform is not None:
        return True
    return _can_have(decode.value, name, "") or _can_have(decode.key, name, _KEY)


def _can_have(part: Part, name: str, prefix: str) -> bool:
    """Whether a field of keys, or of values, may have a column of that name."""
    if part.format == "none" or part.listed:
        return any(_may_be_called(field, name, prefix) for field in part.listed)
    if part.envelope is not None and name == _OF_UNWRAPPED:
        return False
    return part.is_schemaless or name.startswith(prefix)


def _may_be_called(field: ListedField, name: str, prefix: str) -> bool:
    """Whether a listed field's column is called so: a name that was taken got a number, say."""
    if field.column is not None:
        return without_case(field.column) == name
    return (
        re.fullmatch(rf"(value_)?{_plain(prefix + field.field)}(_\d+)?", _plain(name)) is not None
    )


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", without_case(name))


def _not_made(decode: Decode, name: str) -> str:
    """What is said of a column that is not there."""
    if name == _OF_UNWRAPPED and decode.value.envelope is not None:
        return (
            f"records with an envelope have no {name}, which unwrapped ones have; allowed: op,"
            " which says d. Leave deletes.when out: with an envelope op is asked by itself"
        )
    named = ((decode.value, ""), (decode.key, _KEY))
    made = [f.column or prefix + f.field.replace(".", "_") for p, prefix in named for f in p.listed]
    if decode.key.format != "none" and not decode.key.listed:
        made.append(f"{_KEY}...")
    return (
        f"decode makes no column {name}; allowed: {first_few(made, 20)}. List its field in"
        f" decode.value.fields, or give one the name: {{field: ..., as: {name}}}"
    )
