"""The target table through delta-rs: its properties, its coordinates, and its one way to commit.

The statistics of a file are enough if they prove what it holds: one partition, and as many rows as
its offsets span. Otherwise the coordinate columns of the file are read. Keys and values are never
read, but to write a file again that holds other rows, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties
from deltalake import exceptions as delta_errors
from pyarrow.fs import PyFileSystem

from tideline.delta.delta_io import discard_folder, files_of, is_damaged, read_parquet
from tideline.errors import (
    BadInput,
    CommitConflict,
    ServiceAway,
    TidelineError,
    UnreadableTable,
    VerificationFailed,
)
from tideline.model.head import KnownCommit
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.model.plan import DamagedFile, LandedRange, Stored, WrittenRows
from tideline.model.run import TableCommit
from tideline.model.spark_job import SparkResult
from tideline.rules.foreign_changes import refuse_other_ledger
from tideline.store.store_refusals import plain_text, refusal
from tideline.table.arrays import copies, runs
from tideline.table.columns import (
    add_columns,
    asked_of_writers,
    columns_of,
    lacking,
    schema_of,
)
from tideline.table.commit import commit_change, create_table, refuse_unwritable
from tideline.table.log import NewestTable, commits_above, find_commit, newer_commits
from tideline.table.opened import Opened, active_files
from tideline.table.rows import (
    Grouped,
    Reader,
    RowsReader,
    count_rows,
    read_coordinates,
    rows_with,
    scan,
    spelled,
)
from tideline.table.schema import (
    COLUMNS,
    LAYOUT_PROPERTY,
    LEDGER_PROPERTY,
    STREAM_PROPERTY,
    Field,
    PartitionFiles,
    TableChange,
    app_id,
    delta_fields,
)
from tideline.table.statistics import Coordinates, DataFile
from tideline.table.written_files import (
    WrittenFile,
    committed_files,
    in_place,
    read_footer,
    refuse_other_count,
)
from tideline.table.written_types import refuse_other_types
from tideline.texts import one_line

_SAME_NAME = "Duplicate field name"
"""How delta-rs says that a name differs from another one in case alone, also inside of a column."""
_OF_THE_LOG, _OF_A_DISK = "Kernel error: ", "Kernel error: Io error: "
"""How delta-rs begins what it says about a table's log; an object store gives an `OSError`."""

_GONE_MEANWHILE = re.compile(
    r"File not found: |Object at location .* not found|Invalid table location: Path does not exist"
)
"""What it says of a file that was listed and is not there when it is read: that passes."""


class TargetTable:
    """One Delta table: implements `TablePort`, which documents the methods.

    Args:
        uri: Address, as in the stream file.
        storage_options: delta-rs options of the object store.
        columns: Name and SQL type of the columns that it has to have, all of them if it has none
            of a record's.
    """

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        columns: Mapping[str, str] = COLUMNS,
    ) -> None:
        self.uri = uri
        self._columns = schema_of(delta_fields(columns))
        self._options = dict(storage_options or {})
        self._kept = NewestTable(uri, self._options)
        self._read_footers: dict[str, WrittenFile] = {}

    def observe(self, known_version: int | None = None, at: int | None = None) -> TableObservation:
        """The newest version of the table, with the commits after a known version."""
        try:
            table = self._open(at)
        except UnreadableTable as error:
            return TableObservation(exists=True, unreadable=error.why)
        if table is None:
            return TableObservation(exists=False)
        metadata = table.metadata()
        properties = metadata.configuration
        ledger_id = properties.get(LEDGER_PROPERTY)
        with self._reachable():
            newer = newer_commits(self._kept, table, known_version)
        return replace(
            asked_of_writers(table, self._columns),
            table_id=str(metadata.id),
            version=table.version(),
            stream=properties.get(STREAM_PROPERTY),
            ledger_id=ledger_id,
            layout=properties.get(LAYOUT_PROPERTY),
            newer=newer,
            partition_by=tuple(metadata.partition_columns),
            token=None if ledger_id is None else self._token(table, app_id(ledger_id)),
        )

    def newest_record(self, identity: PartitionIdentity) -> datetime | None:
        """The largest timestamp among a partition's rows, from file statistics."""
        table = self._open(None)
        times = [f.newest for f in active_files(table) if f.identity == identity] if table else []
        return max((t for t in times if t is not None), default=None)

    def find_commit(
        self, plan_id: str, after_version: int | None, at: int | None = None
    ) -> TableCommit | None:
        """The newest commit of a plan, among those after a version."""
        table = self._open(at)
        if table is None:
            return None
        with self._reachable():
            return find_commit(self._kept, table, plan_id, after_version)

    def commits_above(self, token: int) -> tuple[KnownCommit, ...]:
        """The commits of the table's ledger with a larger token, newest first."""
        table = self._open(None)
        with self._reachable():
            return () if table is None else commits_above(self._kept, table, token)

    def newest_token(self, app_id: str, at: int | None = None) -> int | None:
        """The newest fencing token that the table has recorded for an application."""
        table = self._open(at)
        return None if table is None else self._token(table, app_id)

    def landed(
        self, ranges: Iterable[CoordinateRange], version: int
    ) -> dict[PartitionIdentity, LandedRange]:
        """Rows and distinct offsets inside the ranges, in one version."""
        table = self._open(version)
        if table is None:
            return {}
        with self._reachable():
            wanted, read = Coordinates(ranges), self._reader(table)
            # What we have committed was read once (`written`); the audit reads all of it again.
            files = [f for f in active_files(table) if wanted.may_be_in(f)]
            sizes = {unquote(f.path): f.size for f in files if wanted.proven(f)}
            there = in_place(self._store(table), sizes) if sizes else ()
            # Of a file that is not there as it was, statistics prove nothing: it is read.
            seen = (f if unquote(f.path) in there else replace(f, low=None) for f in files)
            return count_rows(seen, wanted, read, trusting=True)[0]

    def stored(self, version: int | None = None) -> Iterator[Stored | DamagedFile]:
        """What every data file of one version holds, by coordinates."""
        table = self._open(version)
        if table is None:
            return
        for file in active_files(table):
            try:
                pieces = tuple(self._coordinates(table, file.by_its_rows))
            except VerificationFailed as error:
                yield DamagedFile(file.path, str(error.why))
                continue
            for identity, offsets in pieces:
                yield Stored(identity, len(offsets), runs(offsets), copies(offsets))

    def create(
        self,
        stream: str,
        ledger_id: str,
        partition_by: Sequence[str],
        columns: Sequence[Field] | None = None,
        properties: Mapping[str, str] = {},
    ) -> None:
        """Create the table without rows, with Tideline's properties, unless it exists."""
        schema = self._columns if columns is None else schema_of(columns)
        with self._reachable():
            how = (partition_by, schema, properties)
            create_table(self.uri, self._options, stream, ledger_id, *how)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set those of the table's properties that have another value; one that lacks is empty."""
        table = self._existing()
        known = table.metadata().configuration
        others = {name: value for name, value in properties.items() if known.get(name, "") != value}
        if not others:
            return
        with self._reachable():
            try:
                self._kept.delta_rs().alter.set_table_properties(
                    others,
                    raise_if_not_exists=False,  # Delta does not know Tideline's
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            except delta_errors.CommitFailedError as error:
                raise self._conflict(str(error)) from error

    def columns(self) -> tuple[Field, ...]:
        """All columns of the newest version."""
        table = self._open(None)
        return () if table is None else columns_of(table)

    def add_columns(self, columns: Sequence[Field]) -> tuple[Field, ...]:
        """Add the columns that the table does not have yet."""
        table = self._existing()
        if not lacking(table, columns):
            return columns_of(table)
        with self._reachable():
            try:
                return add_columns(self._kept.delta_rs(), columns)
            except delta_errors.CommitFailedError as error:
                raise self._conflict(str(error)) from error
            except Exception as error:
                is_case = _SAME_NAME in str(error)  # of which delta-rs has no class
                if not (is_case or isinstance(error, delta_errors.SchemaMismatchError)):
                    raise
                why = str(error).splitlines()[0]
                raise BadInput(
                    f"table {self.uri}: columns cannot be added: {why}. A column never changes its"
                    " type, and no two differ in case alone: give another table, or another column"
                    " in decode.value.fields",
                    table=self.uri,
                ) from error

    def files_at(self, ranges: Iterable[CoordinateRange], version: int) -> tuple[str, ...]:
        """The data files that may hold rows at coordinates, by their statistics."""
        table = self._open(version)
        if table is None:
            return ()
        wanted = Coordinates(ranges)
        return tuple(unquote(f.path) for f in active_files(table) if wanted.may_be_in(f))

    def files_by(self, column: str, version: int) -> dict[str | None, PartitionFiles]:
        """The data files of each value of a partition column."""
        table = self._open(version)
        found: dict[str | None, PartitionFiles] = {}
        for file in active_files(table) if table is not None else ():
            value = (file.partition or {}).get(column)
            known = found.get(value, PartitionFiles((), 0))
            no_count = known.rows is None or file.rows is None
            rows = None if no_count else (known.rows or 0) + (file.rows or 0)
            found[value] = PartitionFiles((*known.paths, unquote(file.path)), rows)
        return found

    def spelled(self, keys: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Keys with each value as its column's type spells it."""
        return spelled(self._existing(), keys)

    def rows_with(
        self, keys: Sequence[Mapping[str, str | None]], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The rows whose columns have one of these keys' values."""
        table = self._open(None)
        if table is None:
            return []
        with self._reachable():
            return rows_with(table, self._rows(table), keys, columns)

    def scan(
        self,
        columns: Sequence[str],
        ranges: Iterable[CoordinateRange] | None = None,
        version: int | None = None,
    ) -> Iterator[pa.Table]:
        """Some columns of the rows, a data file at a time."""
        table = self._open(version)
        wanted = None if ranges is None else Coordinates(ranges)
        with self._reachable():
            if table is not None:
                yield from scan(table, self._rows(table), columns, wanted)

    def written(self, change: TableChange, result: SparkResult) -> WrittenRows:
        """An attempt's data files and what they hold, held against Spark's report."""
        store = files_of(self.uri, self._options)
        with self._reachable():
            files = committed_files(store, change, result)
            footers = self._footers(store, change, files)
            refuse_other_count(change, result, footers)
            described = [f.data_file for f in footers if f.rows]
            wanted = Coordinates(change.ranges)
            bodies = {f.data_file.path: f.data for f in footers}
            held, elsewhere = count_rows(
                described,
                wanted,
                lambda file: self._coordinates(self.uri, file, bodies[file.path]),
                trusting=False,
            )
        self._read_footers = {f.path: replace(f, data=None) for f in footers}
        if elsewhere:
            raise VerificationFailed(
                f"{change.commit_id}: {elsewhere} of the {result.rows} rows that Spark wrote into"
                f" {change.folder} are not at planned coordinates; nothing was committed",
                commit_id=change.commit_id,
            )
        return WrittenRows(files, held)

    def rewritten(self, change: TableChange, result: SparkResult) -> tuple[str, ...]:
        """The data files of an attempt that replace whole files, held against Spark's report."""
        store = files_of(self.uri, self._options)
        with self._reachable():
            files = committed_files(store, change, result)
            refuse_other_count(change, result, self._footers(store, change, files))
        return files

    def commit(self, change: TableChange, files: Sequence[str], based_on: int) -> None:
        """Replace the rows at the change's coordinates by those of the files."""
        table = self._kept.looked_at_now(based_on) or self._open(None)
        # Rows of versions that the caller has not looked at could be ours, or stand twice (R2).
        if table is None or table.version() != based_on:
            now = "gone" if table is None else f"at version {table.version()}"
            raise self._conflict(f"it is {now}, not at {based_on}")
        whose = table.metadata().configuration.get(LEDGER_PROPERTY)
        refuse_other_ledger(self.uri, whose, change.ledger_id)
        newest = self._token(table, change.app_id)
        # Fenced (R5): a later attempt has been here, or this very one, whose answer was lost.
        if newest is not None and newest >= change.token:
            raise self._conflict(f"it has token {newest}, ours is {change.token}")
        store = self._store(table)
        with self._reachable():
            added = self._footers(store, change, files)
            active = list(active_files(table))
            refuse_other_types(change, columns_of(table), added)
            try:
                refuse_unwritable(table, self._columns)
                commit_change(self._kept, table, store, change, added, active, self._reader(table))
            except delta_errors.CommitFailedError as error:
                raise self._conflict(str(error)) from error

    def discard(self, change: TableChange) -> None:
        """Delete the attempt's folder."""
        self._read_footers.clear()
        with self._reachable():
            discard_folder(self.uri, self._options, change.folder)

    def _open(self, version: int | None) -> Opened | None:
        read = self._kept.newest if version is None else partial(self._kept.at, version)
        with self._reachable():
            try:
                return read()
            except delta_errors.DeltaError:
                return read()  # the listing of a folder may miss what is just being written

    def _existing(self) -> Opened:
        table = self._open(None)
        if table is None:
            raise ServiceAway(f"table {self.uri} is gone; run again when it is back")
        return table

    def _token(self, table: Opened, app_id: str) -> int | None:
        with self._reachable():
            return table.transaction_version(app_id)

    def _footers(
        self, store: PyFileSystem, change: TableChange, paths: Sequence[str]
    ) -> list[WrittenFile]:
        """Footers of an attempt's files; each is read once, since the files never change."""
        known = self._read_footers
        for path in paths:
            if path not in known:
                try:
                    known[path] = read_footer(store, path)
                except (FileNotFoundError, pa.ArrowInvalid) as error:
                    is_gone = isinstance(error, FileNotFoundError)
                    what = "is missing" if is_gone else f"is no whole Parquet file: {error}"
                    raise VerificationFailed(
                        f"{change.commit_id}: data file {path} {what}; nothing was committed, clear"
                        " the task or run again",
                        commit_id=change.commit_id,
                    ) from error
        return [known[path] for path in paths]

    def _store(self, table: Opened) -> PyFileSystem:
        return files_of(table, self._options)

    def _reader(self, table: Opened | str) -> Reader:
        return lambda file: self._coordinates(table, file)

    def _coordinates(
        self, table: Opened | str, file: DataFile, data: bytes | None = None
    ) -> Grouped:
        """The offsets in one file, by identity, in the order of the file; reads coordinates only.

        Raises:
            VerificationFailed: The file is gone or cannot be read.
        """
        with self._reachable(), self._whole(table, file.path):
            return iter(tuple(read_coordinates(table, file, self._options, data)))

    def _rows(self, table: Opened) -> RowsReader:
        """Reads some columns of one data file; used where the store's errors are told."""

        def read(
            path: str, columns: Sequence[str], holding: Mapping[str, Sequence[Any]] | None = None
        ) -> pa.Table:
            with self._whole(table, path):
                return read_parquet(table, path, columns, self._options, holding=holding)

        return read

    @contextmanager
    def _whole(self, table: Opened | str, path: str) -> Iterator[None]:
        """Tell a data file that is damaged, or gone, from a store that is away.

        Args:
            table: Whose file it is; or the table's address.
            path: As in the table's log.

        Raises:
            VerificationFailed: The file is gone or cannot be read.
            ServiceAway: So is the table, or another one is in its place.
        """
        try:
            yield
            return
        except FileNotFoundError:
            self._refuse_moved(table, path)
            why = "it is gone"
        except pa.ArrowInvalid as error:
            why = str(error)
        except OSError as error:
            if not is_damaged(files_of(table, self._options), unquote(path)):
                raise
            why = str(error)
        why = one_line(why, 200)
        raise VerificationFailed(
            f"table {self.uri}: data file {path} cannot be read: {why}. No position has moved."
            " Restore the file; or take it out of the table (delete it, then DeltaTable.repair() of"
            " deltalake), approve that, and run again the runs that landed its rows",
            path=path,
            why=why,
        )

    def _refuse_moved(self, table: Opened | str, path: str) -> None:
        """Make sure that a file was gone alone: the files of a table that is renamed go with it."""
        known = None if isinstance(table, str) else table.metadata().id
        now = None if known is None else self._open(None)
        if known is not None and now is None:
            what = "is gone since it was opened"
        elif now is not None and now.metadata().id != known:
            what = "has another one in its place since it was opened"
        elif files_of(table, self._options).get_file_info(unquote(path)).is_file:
            what = f"was away while it was read: data file {path} is there"
        else:
            return
        raise ServiceAway(
            f"table {self.uri} {what}; no position has moved, run again", table=self.uri
        )

    def _conflict(self, why: str) -> CommitConflict:
        return CommitConflict(
            f"table {self.uri} was changed since it was looked at: {why}; nothing was committed",
            table=self.uri,
        )

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except (delta_errors.DeltaError, OSError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> TidelineError:
        """What it is, by what delta-rs says: the store's refusal, the table's own fault, or away.

        What the table itself says keeps it from being read however often it is tried.
        """
        if refused := refusal(self.uri, self._options, error):
            return refused
        text = plain_text(error)
        is_of_log = text.startswith(_OF_THE_LOG) and not text.startswith(_OF_A_DISK)
        if is_of_log and not _GONE_MEANWHILE.search(text):
            why = text.removeprefix(_OF_THE_LOG)
            return UnreadableTable(
                f"table {self.uri} cannot be read: {why}; no position has moved. If somebody was"
                " moving or restoring the table, run again. Drop the feature that it names, restore"
                " the table, or give the stream a new one; then run again",
                table=self.uri,
                why=why,
            )
        return ServiceAway(
            f"table {self.uri} cannot be used: {type(error).__name__}: {text}; no position has"
            " moved, run again when its store is back",
            table=self.uri,
        )
