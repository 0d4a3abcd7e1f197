"""Keep a stream's tables known by name in a catalog, once their first commit is verified.

It is a courtesy: whatever goes wrong is a finding in the ledger, and the run goes on. A catalog
that hangs costs a run no more than `_MOST_SECONDS`; then it is left alone for some minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Thread

from tideline.catalog.port import CatalogPort, SchemaMissing
from tideline.errors import TidelineError
from tideline.landing.context import RunContext, log, now
from tideline.model.catalog import CatalogFinding, NamedTable, TableName
from tideline.model.maintenance import TableRole
from tideline.rules.catalog import due, judged, remembered
from tideline.stream.stream import tables_of

_MOST_SECONDS = 4.5


def name_tables(run: RunContext, *verified: TableRole) -> None:
    """See to the names of tables that are verified; asks nobody where the ledger knows.

    Args:
        verified: Those that this step has seen to be there.
    """
    catalog, connect = run.stream.catalog, run.connect_catalog
    if catalog is None or connect is None:
        return
    places = tables_of(run.stream)
    wanted = {role: (catalog.name_of(role), uri) for role, uri in places.items()}
    state = run.ledger.read()
    there = {*verified, *(table.role for table in state.head.names)}
    asked = due(state.head.names, {r: f for r, f in wanted.items() if r in there}, now())
    if not asked:
        return
    found = _looked(connect, run.stream.stream, {role: wanted[role] for role in asked})
    for table in found:
        if table.finding is not None:
            log.warning("%s: %s: %s", run.stream.stream, table.finding, table.text)
    try:
        run.ledger.update(
            lambda s: replace(
                s, head=replace(s.head, names=remembered(s.head.names, found, wanted))
            )
        )
    except TidelineError as error:
        log.warning("names are not noted: %s", error.message)


def _looked(
    connect: Callable[[], CatalogPort], stream: str, wanted: dict[TableRole, tuple[str, str]]
) -> tuple[NamedTable, ...]:
    """What became of each name, within some seconds: a client may hang where no limit helps."""
    found: dict[TableRole, NamedTable] = {}
    wrong: list[str] = []

    def look() -> None:
        try:
            catalog = connect()
            for role, (name, uri) in wanted.items():
                found[role] = _named(catalog, role, name, uri, stream)
        except Exception as error:  # whatever it is: a name never ends a run
            told = error.message if isinstance(error, TidelineError) else str(error)
            wrong.append(f"{type(error).__name__}: {' '.join(told.split())[:500]}")

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(_MOST_SECONDS)
    missed = wrong[0] if wrong else f"it has not answered within {_MOST_SECONDS} s"
    done = dict(found)
    rest = [
        _found(role, *facts, "catalog_away", missed)
        for role, facts in wanted.items()
        if role not in done
    ]
    return (*done.values(), *rest)


def _named(catalog: CatalogPort, role: TableRole, name: str, uri: str, stream: str) -> NamedTable:
    path = TableName.of(name)
    try:
        entry = catalog.find(path)
        if entry is None:
            catalog.create(path, uri, stream)
            entry = catalog.find(path)  # which may be somebody else's
    except SchemaMissing:
        schema = ".".join(path.path[:-1])
        text = (
            f"there is no schema {schema} for {name}. Next: create it; the next run names the table"
        )
        return _found(role, name, uri, "catalog_missing_schema", text)
    if entry is None:
        return _found(role, name, uri, "catalog_away", f"{name} was made, and is not there")
    if (wrong := judged(name, uri, entry)) is not None:
        return _found(role, name, uri, *wrong)
    return NamedTable(role, name, uri, entry.table_id, now())


def _found(role: TableRole, name: str, uri: str, finding: CatalogFinding, text: str) -> NamedTable:
    return NamedTable(role, name, uri, None, now(), finding, text)
