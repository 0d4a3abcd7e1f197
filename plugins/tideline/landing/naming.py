"""Keep a stream's tables known by name in a catalog, once their first commit is verified.

It is best effort: whatever goes wrong is a finding in the ledger, and the run goes on. A catalog
that hangs costs a run no more than `_MOST_SECONDS`; then it is left alone for some minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from threading import Thread
from time import monotonic

from tideline.catalog.catalog_port import CatalogPort, SchemaMissing, client_message
from tideline.errors import TidelineError
from tideline.landing.context import RunContext, log, now
from tideline.model.catalog import CatalogFinding, NamedTable, TableName
from tideline.model.maintenance import TableRole
from tideline.rules.catalog_names import due_names, merge_names, misnamed
from tideline.stream.sections import Catalog
from tideline.stream.stream import tables_of
from tideline.texts import one_line

_MOST_SECONDS = 4.5
_SILENT_SECONDS = 600.0
_silent: dict[str, float] = {}
"""By connection, when it has hung last: a process that lands many streams waits for it once."""
WantedNames = dict[TableRole, tuple[str, str]]


def name_tables(run: RunContext, *verified: TableRole) -> None:
    """See to the names of tables that are verified; asks nobody where the ledger knows.

    Args:
        verified: Those that this step has seen to be there; of others none is named that is not.
    """
    if run.stream.catalog is None or run.connect_catalog is None:
        return
    try:
        _name_tables(run, run.stream.catalog, run.connect_catalog, verified)
    except TidelineError as error:  # of the ledger
        log.warning("names are not noted: %s", error.message)


def _name_tables(
    run: RunContext,
    section: Catalog,
    connect: Callable[[], CatalogPort],
    verified: Iterable[TableRole],
) -> None:
    places = tables_of(run.stream)
    wanted = {role: (section.name_of(role), uri) for role, uri in places.items()}
    known = run.ledger.read().head.names
    there = {*verified, *(table.role for table in known)}
    asked = due_names(known, {r: facts for r, facts in wanted.items() if r in there}, now())
    if not asked:
        return
    # one may be gone since it was named, or its address is new: it is named when it is verified
    gone = {r for r in asked if r not in verified and not run.tables[r].observe().exists}
    stream, facts = run.stream.stream, {role: wanted[role] for role in asked if role not in gone}
    found = _looked(section.connection, connect, stream, facts) if facts else ()
    for table in found:
        if table.finding is not None:
            log.warning("%s: %s: %s", stream, table.finding, table.text)
    named = {role: facts for role, facts in wanted.items() if role not in gone}
    run.ledger.update(
        lambda s: s.with_head(replace(s.head, names=merge_names(s.head.names, found, named)))
    )


def _looked(
    connection: str, connect: Callable[[], CatalogPort], stream: str, wanted: WantedNames
) -> tuple[NamedTable, ...]:
    """What became of each name, within some seconds: a client may hang where no limit helps."""
    found: dict[TableRole, NamedTable] = {}
    missed = [f"the catalog has not answered within {_MOST_SECONDS} s"]
    try:
        catalog = connect()  # Airflow is asked for the connection by this thread alone
    except TidelineError as error:
        return _away(wanted, found, error.message)
    if monotonic() - _silent.get(connection, -_SILENT_SECONDS) < _SILENT_SECONDS:
        return _away(wanted, found, missed[0])

    def look() -> None:
        try:
            for role, (name, uri) in wanted.items():
                found[role] = _named(catalog, role, name, uri, stream)
        except Exception as error:  # whatever it is: a name never ends a run
            missed[0] = client_message(error, catalog)

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(_MOST_SECONDS)
    if thread.is_alive():
        _silent[connection] = monotonic()
    return _away(wanted, dict(found), missed[0])


def _away(
    wanted: WantedNames, found: Mapping[TableRole, NamedTable], text: str
) -> tuple[NamedTable, ...]:
    """What was found, and of the rest that nobody could be asked."""
    rest = (role for role in wanted if role not in found)
    return (*found.values(), *(_found(r, *wanted[r], "catalog_away", text) for r in rest))


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
        return _found(role, name, uri, "catalog_away", f"{name} was created, and cannot be found")
    if (wrong := misnamed(name, uri, entry)) is not None:
        return _found(role, name, uri, *wrong)
    table_id = None if entry.table_id is None else one_line(entry.table_id, 200)
    return NamedTable(role, name, uri, table_id, now())


def _found(role: TableRole, name: str, uri: str, finding: CatalogFinding, text: str) -> NamedTable:
    return NamedTable(role, name, uri, None, now(), finding, text)
