"""Whether both tables of a decoding are those that the ledger knows. Pure.

Coverage says what is decoded, and not where. So it holds for two tables only, by their ids. Rows
can be decoded again: two tables without rows are a new beginning. One of them alone is a
mistake, since a record may be in either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tideline.model.observation import TableObservation


@dataclass(frozen=True, slots=True)
class TypedTable:
    """One of both tables, as it is now.

    Args:
        key: Key of the stream file that names it.
        uri: Its address there.
        seen: The table.
    """

    key: str
    uri: str
    seen: TableObservation

    def __str__(self) -> str:
        return f"{self.key}: table {self.uri}"

    @property
    def is_empty(self) -> bool:
        """Whether the ledger has never put rows there."""
        return not self.seen.exists or self.seen.token is None


def refusals(tables: Sequence[TypedTable], stream: str, ledger_id: str) -> Iterator[str]:
    """Every reason not to touch a table, whatever was decoded before.

    Args:
        tables: Both.
        stream: Name of this stream, expected in the tables' properties.
        ledger_id: Id of this ledger, expected there as well.
    """
    for table in tables:
        seen = table.seen
        if not seen.exists:
            continue
        if seen.unreadable is not None:
            yield f"{table} cannot be read: {seen.unreadable}"
        elif seen.stream is None:
            yield f"{table} was not created by Tideline; give an address of its own"
        elif seen.stream != stream:
            yield f"{table} belongs to stream {seen.stream}; give an address of its own"
        elif seen.ledger_id != ledger_id:
            yield (
                f"{table} belongs to ledger {seen.ledger_id}, this one is {ledger_id};"
                " give an address of its own"
            )


def begins_anew(tables: Sequence[TypedTable], known_ids: Sequence[str]) -> bool:
    """Whether what was decoded is in other tables than these, which have no rows yet.

    Args:
        tables: Both.
        known_ids: Delta's ids of the tables that hold what is decoded, in the same order; none
            before the first decoding.
    """
    return bool(known_ids) and all(
        table.is_empty and table.seen.table_id != known
        for table, known in zip(tables, known_ids, strict=True)
    )


def strangers(tables: Sequence[TypedTable], known_ids: Sequence[str]) -> Iterator[str]:
    """Tables that do not hold what is decoded, in words; nothing where decoding begins anew.

    Args:
        tables: Both.
        known_ids: As in `begins_anew`.
    """
    if begins_anew(tables, known_ids):
        return
    for table, known in zip_longest(tables, known_ids):
        seen = table.seen
        if known is None:
            if not table.is_empty:
                yield f"{table} (id {seen.table_id}) holds rows that this ledger does not know"
        elif not seen.exists:
            yield f"{table} is gone, and the ledger knows table {known}"
        elif seen.table_id != known:
            yield f"{table} is another one: its id is {seen.table_id}, the ledger knows {known}"
