"""A table whose small files are merged, and whose old ones are deleted.

Merging writes one file with the same rows, a part of a file at a time, on the calling thread
(`delta_io`). It commits nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import exceptions as delta_errors
from pyarrow.fs import FileSelector, PyFileSystem

from tideline.delta_io import plain_schema
from tideline.errors import BadInput, ServiceAway, VerificationFailed
from tideline.model.maintenance import FileCount, FileMerge, PlannedRows, TableFile, TableSize
from tideline.table.commit import refuse_unwritable
from tideline.table.delta_table import TargetTable
from tideline.table.log import active_files
from tideline.table.rewriting import open_parquet, read_batches, write_batches
from tideline.table.rows import rows_of_plans
from tideline.table.schema import TableChange


def merge_files(
    store: PyFileSystem, table: DeltaTable, files: Sequence[TableFile], folder: str
) -> FileMerge | None:
    """Write the rows of several files into a new one, in the order of the files and of their rows.

    Columns that only some of the files have are null in the others' rows. Columns that the table
    does not know stay, too.

    Args:
        store: The table's.
        table: Says which columns have which type.
        files: At least two, with the same partition values; they stay as they are.
        folder: Where to write, relative to the table; partition folders are repeated below it.

    Returns:
        What to commit; None where a column has types in these files that do not fit together.

    Raises:
        VerificationFailed: A file is damaged, or holds another number of rows than the log says.
        OSError: A file cannot be read or written.
    """
    schema = _common_schema(_declared(table), [_schema_of(store, table, f) for f in files])
    if schema is None:
        return None
    folders = [part for part in unquote(files[0].path).split("/")[:-1] if "=" in part]
    path = "/".join([folder, *folders, f"merged-{uuid.uuid4().hex}.parquet"])
    try:
        write_batches(store, path, schema, _rows(store, table, files, schema))
    except _Unlike:
        return None
    size = int(store.get_file_info(path).size)
    return FileMerge(tuple(f.path for f in files), path, size, files[0].partition)


_PARTS_OF_VARIANT = {pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")}


class _Unlike(Exception):
    """A value that its column's type in the table cannot hold."""


def _rows(
    store: PyFileSystem, table: DeltaTable, files: Iterable[TableFile], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for file in files:
        rows = 0
        try:
            with store.open_input_file(unquote(file.path)) as source:
                for batch in read_batches(open_parquet(source)):
                    rows += len(batch)
                    yield _shaped(batch, schema)
        except pa.ArrowInvalid as error:
            raise _damaged(table, file, str(error)) from error
        if file.rows and rows != file.rows:  # 0: the log does not say
            raise _damaged(table, file, f"it holds {rows} rows, the log says {file.rows}")


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the columns of a schema."""
    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.nulls(len(batch), field.type))
            continue
        column = batch.column(at)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _Unlike from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _schema_of(store: PyFileSystem, table: DeltaTable, file: TableFile) -> pa.Schema:
    try:
        with store.open_input_file(unquote(file.path)) as source:
            return plain_schema(open_parquet(source).schema_arrow)
    except FileNotFoundError as error:
        raise _damaged(table, file, "it is gone") from error
    except pa.ArrowInvalid as error:
        raise _damaged(table, file, str(error)) from error


def _declared(table: DeltaTable) -> pa.Schema:
    """The table's columns in plain Arrow types."""
    return plain_schema(pa.schema(table.schema().to_arrow()))


def _common_schema(declared: pa.Schema, found: Iterable[pa.Schema]) -> pa.Schema | None:
    """Every column that one of the files has: the table's in its order and types, then others."""
    others: dict[str, pa.DataType] = {}
    present = set()
    for schema in found:
        for field in schema:
            present.add(field.name)
            if field.name in declared.names:
                continue
            if others.setdefault(field.name, field.type) != field.type:
                return None
    known = {f.name: f.type for f in declared if f.name in present}
    return pa.schema(pa.field(name, _nullable(kind)) for name, kind in {**known, **others}.items())


def _nullable(kind: pa.DataType) -> pa.DataType:
    """A type whose parts may all be null: writers differ in what they promise.

    But for a VARIANT, which Spark reads only where its two parts are never null.
    """
    if pa.types.is_struct(kind) and {*kind} != _PARTS_OF_VARIANT:
        return pa.struct([pa.field(f.name, _nullable(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return kind


def _damaged(table: DeltaTable, file: TableFile, why: str) -> VerificationFailed:
    why = " ".join(why.split())[:200]
    return VerificationFailed(
        f"table {table.table_uri}: data file {file.path} cannot be merged: {why}; nothing was"
        " committed. tideline audit FILE names every damaged file, the runbook says what to do",
        path=file.path,
        why=why,
    )


_RETENTION = "delta.deletedFileRetentionDuration"
_TOO_SHORT = "Invalid retention period"
"""In delta-rs' message where that property asks for more."""
_LOG = "_delta_log/"


class MaintainedTable(TargetTable):
    """One Delta table: implements `MaintainedTablePort`, which documents the methods."""

    def files(self, version: int | None = None) -> tuple[TableFile, ...]:
        """The data files of one version."""
        table = self._open(version)
        if table is None:
            return ()
        return tuple(
            TableFile(
                path=file.path,
                bytes=file.size or 0,
                rows=file.rows,
                partition=tuple((file.partition or {}).items()),
                holds=tuple(sorted(file.constants.items())),
                low=file.low,
            )
            for file in active_files(table)
        )

    def size(self) -> TableSize | None:
        """The table now, and what lies in its folder."""
        table = self._open(None)
        if table is None:
            return None
        active = FileCount.of(file.size or 0 for file in active_files(table))
        return TableSize(table.version(), active, FileCount.of(self._stored(table).values()))

    def rows_of_plans(self, plans: Collection[str]) -> PlannedRows:
        """Where a quarantine's rows are, by the plan that has put them there."""
        table = self._existing()
        with self._reachable():
            return rows_of_plans(table, self._options, plans)

    def merge(
        self, change: TableChange, groups: Sequence[Sequence[TableFile]]
    ) -> tuple[FileMerge, ...]:
        """Write one file for each group."""
        table = self._existing()
        refuse_unwritable(table, self._columns)
        store = self._store(table)
        with self._reachable():
            merges = [merge_files(store, table, group, change.folder) for group in groups]
        return tuple(merge for merge in merges if merge is not None)

    def vacuum(self, hours: int, *, delete: bool) -> FileCount:
        """Delete files that the newest version does not need."""
        table = self._existing()
        with self._reachable():
            sizes = self._stored(table)
            self._refuse_tables_inside(sizes)
            found = self._vacuum(table, hours, delete=False)
            if found and delete:  # else there would be two empty commits
                found = self._vacuum(table, hours, delete=True)
        return FileCount.of(sizes.get(path, 0) for path in found)

    def _refuse_tables_inside(self, stored: Iterable[str]) -> None:
        """No file of another table is needed by this one: all of them would go."""
        logs = sorted(path for path in stored if f"/{_LOG}" in path)
        if logs:
            inside = logs[0].rpartition(f"/{_LOG}")[0]
            raise BadInput(
                f"table {self.uri}: another Delta table lies inside of its folder, in {inside}:"
                " deleting files that this table does not need would delete that table's. Nothing"
                " was deleted; give one of the two another folder"
            )

    def _vacuum(self, table: DeltaTable, hours: int, *, delete: bool) -> list[str]:
        """`full` finds what attempts have left, too; without it only what a commit has removed."""
        asked_for = _RETENTION in table.metadata().configuration

        def vacuum(retention_hours: int | None) -> list[str]:
            return table.vacuum(
                retention_hours,
                dry_run=not delete,
                enforce_retention_duration=asked_for,
                full=True,
            )

        try:
            return vacuum(hours)
        except delta_errors.DeltaError as error:
            if not asked_for or _TOO_SHORT not in str(error):
                raise
            return vacuum(None)

    def _stored(self, table: DeltaTable) -> dict[str, int]:
        """Size of each file in the folder, but for the log's."""
        with self._reachable():
            listed = self._store(table).get_file_info(FileSelector("", recursive=True))
        return {f.path: int(f.size) for f in listed if f.is_file and not f.path.startswith(_LOG)}

    def _existing(self) -> DeltaTable:
        table = self._open(None)
        if table is None:
            raise ServiceAway(f"table {self.uri} is gone; run again when it is back")
        return table
