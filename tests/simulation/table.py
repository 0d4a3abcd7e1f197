"""A Delta table in memory: versions with rows by coordinate; and `TablePort` on it.

Data files have names and rows, and no bytes. A version's rows are kept by identity; which file
holds which row does not matter to anybody here, only to the rewriting that the real port does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from tideline.errors import CommitConflict, ServiceAway, VerificationFailed
from tideline.model.head import KnownCommit
from tideline.model.maintenance import FileCount, FileMerge, PlannedRows, TableFile, TableSize
from tideline.model.observation import LoggedCommit, TableObservation
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity, ReadRange, union
from tideline.model.places import Places
from tideline.model.plan import LandedRange, Stored, WrittenRows
from tideline.model.run import TableCommit
from tideline.rules.foreign_changes import refuse_other_ledger
from tideline.table.schema import LAYOUT_PROPERTY, Field, PartitionFiles, app_id


class Row(NamedTuple):
    """One row: where it says it comes from, and the record that it is."""

    identity: PartitionIdentity
    offset: int
    serial: int


Rows = Mapping[PartitionIdentity, tuple[Row, ...]]
_TYPES = {
    "generation": pa.int32(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
    "is_tombstone": pa.bool_(),
    "unavailable_columns": pa.list_(pa.string()),
}
"""Of columns that are no text."""


@dataclass(frozen=True)
class Version:
    """One version of the table.

    Args:
        rows: All rows, by identity.
        operation: Delta's name of what made it.
        removes_rows: Whether another program's commit took rows away.
        ledger_id, plan_id, run_id, token: What the commit says about itself; None for others'.
        ranges: The coordinates whose rows it replaced or removed.
        epochs: The leader epochs that it tells.
        erasure, fold: What it tells of an erasure, or of a fold.
        written: Rows that it wrote.
        tokens: The newest token by application, up to here.
    """

    rows: Rows
    operation: str
    removes_rows: bool = False
    ledger_id: str | None = None
    plan_id: str | None = None
    run_id: str | None = None
    token: int | None = None
    ranges: tuple[CoordinateRange, ...] = ()
    epochs: Mapping[PartitionIdentity, int | None] = field(default_factory=dict)
    written: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    erasure: str = ""
    fold: str = ""


@dataclass
class TableState:
    """What stands at the table's address.

    Args:
        table_id: None where there is no table.
        layout: Of a current table: what is fixed since it was created.
        files: Rows of the data files that attempts have written, by file name.
        manifests: Names of an attempt's data files, by its folder.
        lost_answers: How many of the next commits happen, and nobody hears of it.
        created: How many tables there ever were.
        log_start: The oldest version whose commit the log still has.
        files_from: The oldest version whose data files are all there.
        tells_epochs: Whether new commits tell the leader epochs of what they landed.
        logs: Whose rows were ever committed, in the order in which they were the first time.
    """

    table_id: str | None = None
    stream: str = ""
    ledger_id: str = ""
    layout: str | None = None
    versions: list[Version] = field(default_factory=list)
    files: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    manifests: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lost_answers: int = 0
    created: int = 0
    log_start: int = 0
    files_from: int = 0
    tells_epochs: bool = True
    logs: dict[PartitionIdentity, None] = field(default_factory=dict)

    @property
    def newest(self) -> Version | None:
        """The newest version."""
        return self.versions[-1] if self.versions else None

    def rows(self) -> list[Row]:
        """All rows of the newest version."""
        return [] if not self.versions else [r for g in self.versions[-1].rows.values() for r in g]

    def add_foreign(self, rows: Iterable[Row], operation: str, removes_rows: bool) -> None:
        """A commit of another program."""
        assert self.newest is not None
        self.versions.append(
            Version(grouped(rows), operation, removes_rows, tokens=self.newest.tokens)
        )


class SimulatedTable:
    """`TablePort`, and what maintains a table, on a table in memory.

    The rows of an identity stand in two files, which are named by what they hold: whoever changes
    one of the rows has replaced a file.

    Args:
        state: The table.
        tick: Called before and after each access, with a label.
        name: What its id begins with.
        uri: Its address.
        says: What a row says beside its coordinates, by column.
    """

    fields: tuple[Field, ...] = ()

    def __init__(
        self,
        state: TableState,
        tick: Callable[[str], None] = lambda label: None,
        name: str = "table",
        uri: str = "/lake/s",
        says: Callable[[Any], Mapping[str, Any]] = lambda row: {},
    ) -> None:
        self.uri = uri
        self._says = says
        self._state = state
        self._name = name
        self._tick = tick

    def observe(self, known_version: int | None = None, at: int | None = None) -> TableObservation:
        """The newest version and the commits up to it."""
        self._tick("table.observe")
        state = self._state
        if state.table_id is None:
            return TableObservation(exists=False)
        if at is not None and at >= len(state.versions):
            raise ServiceAway(f"no version {at} in the table's log")
        versions = state.versions if at is None else state.versions[: at + 1]
        newer = ()
        if known_version is not None:
            newer = tuple(
                LoggedCommit(
                    number,
                    v.operation,
                    v.removes_rows,
                    v.ledger_id,
                    "",
                    v.plan_id,
                    v.token,
                )
                for number, v in enumerate(versions)
                if number > known_version and number >= state.log_start
            )
        return TableObservation(
            exists=True,
            table_id=state.table_id,
            version=len(versions) - 1,
            stream=state.stream,
            ledger_id=state.ledger_id,
            newer=newer,
            partition_by=("topic_id",),
            token=versions[-1].tokens.get(app_id(state.ledger_id)),
            layout=state.layout,
        )

    def newest_record(self, identity: PartitionIdentity) -> datetime | None:
        """Unknown: there are no statistics."""
        return None

    def find_commit(
        self, plan_id: str, after_version: int | None, at: int | None = None
    ) -> TableCommit | None:
        """The newest commit that carries a plan's id."""
        self._tick("table.find_commit")
        state = self._state
        if state.table_id is None:
            return None
        first = max(-1 if after_version is None else after_version, state.log_start - 1)
        last = len(state.versions) - 1 if at is None else min(at, len(state.versions) - 1)
        for number in range(last, first, -1):
            made = state.versions[number]
            if made.plan_id == plan_id and made.token is not None:
                return TableCommit(
                    state.table_id, number, made.token, made.written, 10 * made.written
                )
        return None

    def commits_above(self, token: int) -> tuple[KnownCommit, ...]:
        """The commits of the table's ledger with a larger token, newest first."""
        self._tick("table.commits_above")
        return tuple(
            KnownCommit(
                number,
                made.token,
                str(made.plan_id),
                str(made.run_id),
                tuple(
                    ReadRange(*r.coordinates[:1], *r.coordinates, made.epochs.get(r.identity))
                    for r in made.ranges
                ),
                erasure=made.erasure,
                fold=made.fold,
            )
            for number, made in reversed([*enumerate(self._state.versions)])
            if number >= self._state.log_start
            and made.ledger_id == self._state.ledger_id
            and made.token is not None
            and made.token > token
        )

    def newest_token(self, app_id: str, at: int | None = None) -> int | None:
        """The newest token of an application."""
        versions = self._state.versions
        if at is not None and at >= len(versions):
            raise ServiceAway(f"no version {at} in the table's log")
        newest = self._state.newest if at is None else versions[at]
        return None if newest is None else newest.tokens.get(app_id)

    def landed(
        self, ranges: Iterable[CoordinateRange], version: int
    ) -> dict[PartitionIdentity, LandedRange]:
        """Rows and distinct offsets inside ranges."""
        self._tick("table.landed")
        if self._state.table_id is None:
            return {}
        if not self._state.log_start <= version < len(self._state.versions):
            raise ServiceAway(f"no version {version} in the table's log")
        rows = self._state.versions[version].rows
        found = {}
        for identity, wanted in Places.of(ranges).items():
            inside = [
                r.offset
                for r in rows.get(identity, ())
                if any(w.start_offset <= r.offset < w.end_offset for w in wanted)
            ]
            if inside:
                found[identity] = LandedRange(identity, len(inside), intervals(inside))
        return found

    def files_by(self, column: str, version: int) -> dict[str | None, PartitionFiles]:
        """All of it as one file: it is not asked for by any column."""
        if self._state.table_id is None:
            return {}
        if version >= len(self._state.versions):
            raise ServiceAway(f"no version {version} in the table's log")
        rows = self._state.versions[version].rows.values()
        return {None: PartitionFiles((), sum(map(len, rows)))}

    def stored(self, version: int | None = None) -> Iterator[Stored]:
        """What one version holds."""
        self._tick("table.stored")
        versions = self._state.versions
        if version is not None and not self._state.log_start <= version < len(versions):
            raise ServiceAway(f"no version {version} in the table's log")
        held = versions[-1 if version is None else version].rows if versions else {}
        for identity, rows in held.items():
            counts = Counter(r.offset for r in rows)
            copies = tuple(
                (OffsetRange(o, o + 1), n - 1) for o, n in sorted(counts.items()) if n > 1
            )
            yield Stored(identity, len(rows), intervals(counts), copies)

    def files_at(self, ranges: Iterable[CoordinateRange], version: int) -> tuple[str, ...]:
        """A name that stands for the files of a version."""
        self._tick("table.files_at")
        return (str(version),)

    def scan(
        self,
        columns: Sequence[str],
        ranges: Iterable[CoordinateRange] | None = None,
        version: int | None = None,
    ) -> Iterator[pa.Table]:
        """One file with all rows; those of a quarantine are of no class, and of no age."""
        wanted = None if ranges is None else Places.of(ranges)
        found = [
            {name: row[name] for name in columns}
            for row in self._described(columns, version)
            if wanted is None or _is_at(wanted, row)
        ]
        fields = [(name, _TYPES.get(name, pa.string())) for name in columns]
        yield pa.Table.from_pylist(found, pa.schema(fields))

    def add_columns(self, columns: Sequence[Field]) -> tuple[Field, ...]:
        """Rows have no columns here."""
        return tuple(columns)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """What stands in them, nobody here asks."""

    def columns(self) -> tuple[Field, ...]:
        """Those that a fold asks for."""
        return () if self._state.table_id is None else self.fields

    def create(
        self,
        stream: str,
        ledger_id: str,
        partition_by: Sequence[str],
        columns: Sequence[Field] | None = None,
        properties: Mapping[str, str] = {},
    ) -> None:
        """An empty table, unless there is one."""
        self._tick("table.create<")
        state = self._state
        if state.table_id is None:
            state.created += 1
            state.table_id, state.stream = f"{self._name}-{state.created}", stream
            state.ledger_id, state.layout = ledger_id, properties.get(LAYOUT_PROPERTY)
            state.versions, state.log_start, state.files_from = [Version({}, "CREATE TABLE")], 0, 0
        self._tick("table.create>")

    def written(self, change: Any, result: Any) -> WrittenRows:
        """An attempt's files and what they hold, held against Spark's report."""
        self._tick("table.written")
        files = self._state.manifests.get(change.folder)
        if files is None:
            if result.rows:
                raise VerificationFailed(f"manifest {change.folder} is missing")
            files = ()
        rows = self._rows_of(change, files)
        if len(rows) != result.rows:
            raise VerificationFailed(
                f"Spark counted {result.rows} rows while writing, its files hold {len(rows)}"
            )
        if outside := [r for r in rows if not is_inside(change.ranges, r)]:
            raise VerificationFailed(f"{outside[0]} is not at planned coordinates")
        landed = {
            identity: LandedRange(identity, len(part), intervals(r.offset for r in part))
            for identity, part in grouped(rows).items()
        }
        return WrittenRows(files, landed)

    def commit(self, change: Any, files: Sequence[str], based_on: int) -> None:
        """Replace the rows at coordinates: one transaction, valid for one version."""
        self._tick("table.commit<")
        if len(self._state.versions) - 1 != based_on:
            raise CommitConflict(f"the table is no longer at version {based_on}")
        refuse_other_ledger(self.uri, self._state.ledger_id, change.ledger_id)
        if (self.newest_token(change.app_id) or 0) >= change.token:
            raise CommitConflict(f"token {change.token} is not the newest")
        rows = self._rows_of(change, files)
        self._append(change, rows)
        if self._state.lost_answers:
            self._state.lost_answers -= 1
            raise ServiceAway("the table's store did not answer")
        self._tick("table.commit>")

    def discard(self, change: Any) -> None:
        """Delete an attempt's files."""
        for name in [n for n in self._state.files if n.startswith(f"{change.folder}/")]:
            del self._state.files[name]
        self._state.manifests.pop(change.folder, None)
        self._tick("table.discarded")

    def files(self, version: int | None = None) -> tuple[TableFile, ...]:
        """The data files of one version."""
        self._tick("table.files")
        versions = self._state.versions
        if version is not None and not 0 <= version < len(versions):
            raise ServiceAway(f"no version {version} in the table's log")
        held = versions[-1 if version is None else version].rows if versions else {}
        return tuple(
            TableFile(f"{identity}/{[row.serial for row in rows]}", len(rows), len(rows))
            for identity, group in held.items()
            for rows in (group[: len(group) // 2], group[len(group) // 2 :])
            if rows
        )

    def size(self) -> TableSize | None:
        """The newest version, and what attempts have left."""
        if self._state.table_id is None:
            return None
        active = [file.bytes for file in self.files()]
        left = [len(rows) for rows in self._state.files.values()]
        newest = len(self._state.versions) - 1
        return TableSize(newest, FileCount.of(active), FileCount.of([*active, *left]))

    def spelled(self, keys: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Texts are spelled as they are."""
        return [*keys]

    def rows_with(
        self, keys: Sequence[Mapping[str, str | None]], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The rows with these values: of the raw key, or of what a typed row says."""
        wanted = [
            {n: bytes.fromhex(v) if n == "key" and v is not None else v for n, v in k.items()}
            for k in keys
        ]
        return [r for r in self._described(columns) if any(k.items() <= r.items() for k in wanted)]

    def _described(
        self, columns: Sequence[str] = (), version: int | None = None
    ) -> list[dict[str, Any]]:
        self._tick("table.rows")
        rows = self._state.rows()
        if version is not None:
            if not self._state.log_start <= version < len(self._state.versions):
                raise ServiceAway(f"no version {version} in the table's log")
            rows = [*chain.from_iterable(self._state.versions[version].rows.values())]
        return [
            {
                **dict.fromkeys(columns),
                "topic_id": row.identity.topic_id,
                "topic": row.identity.topic_id,
                "generation": row.identity.generation,
                "partition": row.identity.partition,
                "offset": row.offset,
                "key": key_of(row.serial),
                "value": value_of(row.serial),
                "is_tombstone": False,
                **self._says(row),
            }
            for row in rows
        ]

    def kept_hours(self, hours: int) -> int:
        """As long as it is asked for."""
        return hours

    def keep_for(self, hours: int) -> None:
        """It has no properties."""

    def cut_log(self) -> int:
        """Only the newest commit is left."""
        self._tick("table.cut")
        before, newest = self._state.log_start, len(self._state.versions) - 1
        self._state.log_start = max(before, newest)
        return self._state.log_start - before

    def rows_of_plans(self, plans: Collection[str]) -> PlannedRows:
        """This is no quarantine."""
        raise NotImplementedError

    def merge(self, change: Any, groups: Sequence[Sequence[TableFile]]) -> tuple[FileMerge, ...]:
        """A file for each group; rows know nothing of files."""
        self._tick("table.merge")
        return tuple(
            FileMerge(
                tuple(file.path for file in group),
                f"{change.folder}/{number}.parquet",
                sum(file.bytes for file in group),
            )
            for number, group in enumerate(groups)
        )

    def vacuum(self, hours: int, *, delete: bool, at_once: bool = False) -> FileCount:
        """Delete what attempts have left, however young it is; delta-rs makes two commits of it."""
        self._tick("table.vacuum")
        state, left = self._state, FileCount.of(len(rows) for rows in self._state.files.values())
        if delete and left.files and state.versions:
            state.files.clear()
            for said in ("VACUUM START", "VACUUM END"):
                newest = state.versions[-1]
                state.versions.append(Version(newest.rows, said, tokens=newest.tokens))
        return left

    def _rows_of(self, change: Any, files: Sequence[str]) -> list[Row]:
        for name in files:
            if _is_hidden(change, name):
                raise VerificationFailed(f"{name} is no data file by its name")
            if name not in self._state.files:
                raise VerificationFailed(f"{name} is missing")
        return [row for name in files for row in self._state.files[name]]

    def _append(self, change: Any, rows: Sequence[Row]) -> None:
        newest = self._state.newest
        assert newest is not None
        kept = [
            r for group in newest.rows.values() for r in group if not is_inside(change.ranges, r)
        ]
        self._state.logs |= dict.fromkeys(row.identity for row in rows)
        self._state.versions.append(
            Version(
                grouped([*kept, *rows]),
                "WRITE",
                ledger_id=change.ledger_id,
                plan_id=change.commit_id,
                run_id=change.run_id,
                token=change.token,
                ranges=change.ranges,
                epochs=change.epochs if self._state.tells_epochs else {},
                written=len(rows),
                tokens={**newest.tokens, change.app_id: change.token},
                erasure=change.erasure,
                fold=change.fold,
            )
        )


def key_of(serial: int) -> bytes:
    """The key of a record, as Kafka has it."""
    return b"key-%d" % (serial % 3)


def is_valueless(serial: int) -> bool:
    """Whether a record has no value, where the stream drops such records."""
    return serial % 7 == 0


def value_of(serial: int) -> bytes:
    """The value of a record, as Kafka has it."""
    return b"value-%d" % serial


def _is_at(wanted: Places, row: Mapping[str, Any]) -> bool:
    log = PartitionIdentity(row["topic_id"], row["generation"], row["partition"])
    return any(r.start_offset <= row["offset"] < r.end_offset for r in wanted[log])


def grouped(rows: Iterable[Row]) -> dict[PartitionIdentity, tuple[Row, ...]]:
    """Rows by identity, in their order."""
    found: dict[PartitionIdentity, list[Row]] = {}
    for row in rows:
        found.setdefault(row.identity, []).append(row)
    return {identity: tuple(group) for identity, group in found.items()}


def is_inside(ranges: Iterable[CoordinateRange], row: Row) -> bool:
    """Whether a row is at one of the coordinates."""
    return any(
        r.identity == row.identity and r.start_offset <= row.offset < r.end_offset for r in ranges
    )


def intervals(offsets: Iterable[int]) -> tuple[OffsetRange, ...]:
    """Offsets as normalized ranges."""
    return union(OffsetRange(o, o + 1) for o in set(offsets))


def _is_hidden(change: Any, name: str) -> bool:
    """Whether a path is outside of the attempt's folder, or its readers would skip it."""
    inside, _, rest = name.partition(f"{change.folder}/")
    return (
        inside != "" or not name.endswith(".parquet") or any(p[:1] in "_." for p in rest.split("/"))
    )
