"""The ledger as rows in a database, usually Airflow's own: PostgreSQL, or SQLite on one machine.

A ledger is one row with a version, its documents, and an append-only history. A commit is one
transaction that begins with `UPDATE ... WHERE version = base`: the row's lock makes the second of
two such commits wait, and then it finds another version. That is the compare-and-swap. Reading is
one statement, so documents and version are of one moment at every isolation level.

The migrations use these definitions of the tables. Names of columns are stored and stay: `slot` is
what the code calls a document key.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Row,
    Select,
    String,
    Table,
    Text,
    create_engine,
    event,
    func,
    select,
    tuple_,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import (
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
)
from sqlalchemy.pool import NullPool

from tideline.errors import BadInput, CommitConflict, ServiceAway, TidelineError
from tideline.ledger.ledger_port import HistoryEntry, Snapshot
from tideline.secrecy import redacted_line

_BUSY_SECONDS = 30
_LARGEST_STEP = 2**20
"""Of one version to the next; eight thousand million commits stay exact in any reader of JSON."""
_PORTION = 200
"""Entries of one statement, where who reads may stop early."""
# a lost server is noticed within half a minute, whatever the network does
_POSTGRES = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_TRANSIENT = (OperationalError, InterfaceError, InternalError)
_NO_SUCH_TABLE = ("42P01", "42703")  # undefined_table, undefined_column
_NO_RIGHT = "42501"  # insufficient_privilege
_NO_SUCH_IN_SQLITE = ("no such table", "no such column", "unable to open database file")

METADATA = MetaData()
VERSION_TABLE = "tideline_alembic_version"
MANAGER = "tideline.airflow.db_manager.TidelineDBManager"
"""Airflow's external database manager; it creates the tables."""

# SQLite only counts up an INTEGER by itself
_Counter = BigInteger().with_variant(Integer(), "sqlite")

LEDGERS = Table(
    "tideline_ledger",
    METADATA,
    Column("name", String(250), primary_key=True),
    Column("version", BigInteger, nullable=False),
)
DOCUMENTS = Table(
    "tideline_document",
    METADATA,
    Column("ledger", String(250), ForeignKey(LEDGERS.c.name), primary_key=True),
    Column("slot", String(1000), primary_key=True),
    Column("body", Text, nullable=False),
)
HISTORY = Table(
    "tideline_history",
    METADATA,
    Column("id", _Counter, primary_key=True),
    Column("ledger", String(250), ForeignKey(LEDGERS.c.name), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("kind", String(100), nullable=False),
    Column("key", String(1000), nullable=False),
    Column("recorded_at", DateTime(timezone=True), nullable=False),
    Column("body", Text, nullable=False),
)
Index("tideline_history_by_key", HISTORY.c.ledger, HISTORY.c.kind, HISTORY.c.key, HISTORY.c.version)


class SqlLedgerStore:
    """Documents and history in these tables.

    Args:
        url: The database; its password appears in no message.
        name: The ledger's name there: the stream's name.
        location: Connection and stream, for messages.
    """

    def __init__(self, url: URL, name: str, location: str) -> None:
        self._url = url
        self._name = name
        self._location = location
        self._engine = _build_engine(url)

    @property
    def location(self) -> str:
        """Connection and stream."""
        return self._location

    def read(self) -> Snapshot:
        """All documents and the version they belong to."""
        statement = (
            select(LEDGERS.c.version, DOCUMENTS.c.slot, DOCUMENTS.c.body)
            .select_from(LEDGERS.outerjoin(DOCUMENTS))
            .where(LEDGERS.c.name == self._name)
        )
        with self._transaction() as connection:
            rows = connection.execute(statement).all()
        if not rows:
            return Snapshot(-1, {})
        return Snapshot(rows[0].version, {r.slot: r.body for r in rows if r.slot is not None})

    def commit(
        self,
        base: Snapshot,
        *,
        put: Mapping[str, str],
        drop: Iterable[str] = (),
        history: Iterable[HistoryEntry] = (),
    ) -> Snapshot:
        """One transaction of the database; `base` is its version."""
        history, dropped = list(history), {*drop}
        # by chance: a backup that was put back does not come to the same versions again
        version = base.version + 1 + secrets.randbelow(_LARGEST_STEP)
        version = max(version, *(e.version for e in history), 0)
        of_ledger = DOCUMENTS.c.ledger == self._name
        documents = [{"ledger": self._name, "slot": k, "body": v} for k, v in put.items()]
        now = datetime.now(UTC)
        entries = [
            {
                "ledger": self._name,
                "version": e.version if e.version >= 0 else version,
                "kind": e.kind,
                "key": e.key,
                "recorded_at": e.recorded_at or now,
                "body": e.body,
            }
            for e in history
        ]
        with self._transaction() as connection:
            _limit_waiting(connection)
            self._take_turn(connection, base.version, version)
            if replaced := {*put, *dropped}:
                connection.execute(
                    DOCUMENTS.delete().where(of_ledger, DOCUMENTS.c.slot.in_(replaced))
                )
            if documents:
                connection.execute(DOCUMENTS.insert(), documents)
            if entries:
                connection.execute(HISTORY.insert(), entries)
        left = {k: v for k, v in base.documents.items() if k not in dropped}
        return Snapshot(version, {**left, **put})

    def _take_turn(self, connection: Connection, base: int, version: int) -> None:
        """The compare-and-swap; has to be the transaction's first write."""
        if base < 0:
            try:
                connection.execute(LEDGERS.insert().values(name=self._name, version=version))
            except IntegrityError as error:
                raise CommitConflict(f"{self._location}: another writer created it") from error
            return
        swap = (
            LEDGERS.update()
            .where(LEDGERS.c.name == self._name, LEDGERS.c.version == base)
            .values(version=version)
        )
        if connection.execute(swap).rowcount != 1:
            raise CommitConflict(f"{self._location}: the ledger is no longer at version {base}")

    def history(
        self, kind: str, key: str | None = None, at: Snapshot | None = None
    ) -> Iterator[HistoryEntry]:
        """Closed records of a kind, oldest version first."""
        h = HISTORY.c
        wanted = self._of_kind(kind)
        if key is not None:
            wanted = wanted.where(h.key == key)
        with self._transaction() as connection:
            rows = connection.execute(wanted.order_by(h.version, h.id)).all()
        yield from map(_entry, rows)

    def names(self) -> list[str]:
        """The names of all ledgers of this database."""
        with self._transaction() as connection:
            return [*connection.execute(select(LEDGERS.c.name)).scalars()]

    def recent(self, kind: str) -> Iterator[HistoryEntry]:
        """Closed records of a kind, the newest first, in portions."""
        h = HISTORY.c
        place = tuple_(h.version, h.id)
        rows: Sequence[Row[Any]] = ()
        while True:
            wanted = self._of_kind(kind).order_by(h.version.desc(), h.id.desc()).limit(_PORTION)
            if rows:
                wanted = wanted.where(place < (rows[-1].version, rows[-1].id))
            with self._transaction() as connection:
                rows = connection.execute(wanted).all()
            yield from map(_entry, rows)
            if len(rows) < _PORTION:
                return

    def _of_kind(self, kind: str) -> Select[Any]:
        h = HISTORY.c
        wanted = select(h.id, h.kind, h.key, h.body, h.version, h.recorded_at)
        return wanted.where(h.ledger == self._name, h.kind == kind)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise self._explain(error) from None  # the original shows statement and values

    def _explain(self, error: DBAPIError) -> TidelineError:
        password = self._url.password and str(self._url.password)
        reason = redacted_line(str(error.orig).strip().partition("\n")[0], [password])
        code = getattr(error.orig, "pgcode", None)
        if code in _NO_SUCH_TABLE or any(words in reason for words in _NO_SUCH_IN_SQLITE):
            return BadInput(
                f"ledger {self._location}: its tables are missing: {reason}. Name {MANAGER} in"
                " [database] external_db_managers of Airflow's configuration, then run"
                f" `airflow db migrate`, or `airflow db-manager migrate {MANAGER}`",
                ledger=self._location,
            )
        if code == _NO_RIGHT:
            return BadInput(
                f"ledger {self._location}: {reason}; give the connection's user SELECT, INSERT,"
                " UPDATE and DELETE on the tables tideline_*",
                ledger=self._location,
            )
        what = f"ledger {self._location} cannot be used: {type(error.orig).__name__}: {reason}"
        if not isinstance(error, _TRANSIENT):
            return TidelineError(what, ledger=self._location)
        return ServiceAway(
            f"{what}; try again when the database is back: every step may be repeated",
            ledger=self._location,
        )


def _build_engine(url: URL) -> Engine:
    """An engine without a pool: forks share no connection, and none stays open.

    Raises:
        BadInput: PostgreSQL's driver is not installed.
    """
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url, poolclass=NullPool, hide_parameters=True, connect_args={"timeout": _BUSY_SECONDS}
        )
        event.listen(engine, "connect", _check_foreign_keys)
        return engine
    try:
        return create_engine(
            url,
            poolclass=NullPool,
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            connect_args={k: v for k, v in _POSTGRES.items() if k not in url.query},
        )
    except ModuleNotFoundError as error:
        raise BadInput(
            f"a ledger in PostgreSQL needs the module {error.name}: run"
            " `pip install 'tideline[postgres]'`"
        ) from error


def _check_foreign_keys(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA foreign_keys=ON")


def _limit_waiting(connection: Connection) -> None:
    """Bound lock waits, and end the transaction of a writer that stopped in the middle."""
    if connection.dialect.name == "postgresql":
        milliseconds = f"{_BUSY_SECONDS * 1000}"
        names = ("lock_timeout", "idle_in_transaction_session_timeout")
        connection.execute(select(*(func.set_config(n, milliseconds, True) for n in names)))


def _entry(row: Row[Any]) -> HistoryEntry:
    at = row.recorded_at.replace(tzinfo=row.recorded_at.tzinfo or UTC)  # SQLite drops it
    return HistoryEntry(row.kind, row.key, row.body, row.version, at)
