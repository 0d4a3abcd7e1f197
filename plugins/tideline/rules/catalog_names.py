"""Whether a name in a catalog stands for a stream's table, and when to ask again. Pure.

Nothing is repaired: a name that stands for something else is somebody's, whoever was first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tideline.model.catalog import EXTERNAL, CatalogEntry, CatalogFinding, NamedTable
from tideline.model.maintenance import TableRole
from tideline.texts import one_line

_KNOWN_FOR = timedelta(hours=1)
_DOUBTED_FOR = timedelta(minutes=10)
"""So long nobody asks again where a name does not stand for the table, or nobody has answered."""
_SCHEMES = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}


def normalized(location: str) -> str:
    """A location such that two are equal if they are one folder.

    `file:/x`, `file:///x` and `/x` are one; so are `s3://`, `s3n://` and `s3a://`.
    """
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        scheme, rest = "file", location
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
    path = re.sub("/+", "/", rest).rstrip("/")
    return f"{scheme}:{path}"


def misnamed(name: str, uri: str, entry: CatalogEntry) -> tuple[CatalogFinding, str] | None:
    """Why a name does not stand for a table; None if it does.

    Args:
        uri: Where the table is.
        entry: What the catalog says of the name.
    """
    if entry.kind != EXTERNAL or entry.format != "delta":
        what = f"{one_line(entry.kind, 50)} of format {one_line(entry.format, 50) or 'none'}"
        return "catalog_not_ours", (
            f"{name} is a {what}; expected: an external Delta table. Nothing was changed. Next:"
            " drop that name, or give catalog.name another one"
        )
    if entry.location is None or normalized(entry.location) != normalized(uri):
        place = "nothing" if entry.location is None else one_line(entry.location, 200)
        return "catalog_elsewhere", (
            f"{name} points to {place}; the table is {uri}. Nothing was changed. Next:"
            " drop that name if nobody needs it, or give catalog.name another one"
        )
    return None


def due_names(
    known: Iterable[NamedTable], wanted: Mapping[TableRole, tuple[str, str]], now: datetime
) -> tuple[TableRole, ...]:
    """The tables whose names are to be looked at; none while the catalog was away just now.

    Args:
        known: What the ledger remembers.
        wanted: Name and address of each table.
        now: UTC-aware.
    """
    of_role = {table.role: table for table in known}
    if any(
        t.finding == "catalog_away" and now - t.looked_at < _DOUBTED_FOR for t in of_role.values()
    ):
        return ()
    return tuple(role for role, facts in wanted.items() if _is_due(of_role.get(role), facts, now))


def _is_due(known: NamedTable | None, facts: tuple[str, str], now: datetime) -> bool:
    if known is None or (known.name, known.uri) != facts:
        return True
    return now - known.looked_at >= (_KNOWN_FOR if known.finding is None else _DOUBTED_FOR)


def merge_names(
    known: Iterable[NamedTable],
    found: Iterable[NamedTable],
    wanted: Mapping[TableRole, tuple[str, str]],
) -> tuple[NamedTable, ...]:
    """What the ledger knows with what was found; tables that have no name any more are left out."""
    newest = {t.role: t for t in (*known, *found) if t.role in wanted}
    return tuple(newest[role] for role in wanted if role in newest)
