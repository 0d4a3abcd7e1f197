"""Which rows a table holds: by coordinates, in quarantine by plan, class and time, without a value.

Rows are counted from statistics where these prove it. Otherwise only the columns that are asked for
are read, a file at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tideline.delta.delta_io import Addressed, for_python, plain_schema, read_parquet
from tideline.errors import BadInput
from tideline.model.maintenance import PlannedRows
from tideline.model.offsets import (
    OffsetRange,
    PartitionIdentity,
    union,
)
from tideline.model.plan import LandedRange
from tideline.model.wording import shown
from tideline.table.arrays import IDENTITY, by_identity, integers, places_in, runs, topics_in
from tideline.table.opened import Opened, active_files
from tideline.table.schema import COORDINATES
from tideline.table.statistics import Coordinates, DataFile

Grouped = Iterator[tuple[PartitionIdentity, np.ndarray]]
Reader = Callable[[DataFile], Grouped]
_PLANNED = (*COORDINATES, "decode_plan_id")


class RowsReader(Protocol):
    """Reads one data file of a table, and tells one that is damaged from a store that is away."""

    def __call__(
        self, path: str, columns: Sequence[str], holding: Mapping[str, Sequence[Any]] | None = None
    ) -> pa.Table:
        """Some columns of a file, as `delta_io.read_parquet` gives them."""


def read_coordinates(
    table: Addressed | str,
    file: DataFile,
    options: Mapping[str, str],
    data: bytes | None = None,
) -> Grouped:
    """The offsets in one file, by identity, in the order of the file; reads coordinates only.

    Args:
        data: The file, where it was read already.

    Raises:
        ArrowInvalid: It is no Parquet file, or it has rows without coordinates, as no run writes.
    """
    columns = [n for n in (*IDENTITY, "offset") if n not in file.constants]
    rows = read_parquet(table, file.path, columns, options, data=data)
    if wrong := [n for n in columns if not _names_all(rows, n)]:
        raise pa.ArrowInvalid(
            f"another program's rows: they lack {', '.join(wrong)} as Tideline writes it"
        )
    offsets = integers(rows.column("offset"))
    for identity, mask in by_identity(rows, file.constants):
        yield identity, offsets if mask is None else offsets[mask]


def _names_all(data: pa.Table, name: str) -> bool:
    """Whether a coordinate of each row is there, and of the type that Tideline writes."""
    if name not in data.column_names:
        return False
    kind = data.schema.field(name).type
    is_right = pa.types.is_string(kind) if name == "topic_id" else pa.types.is_integer(kind)
    return bool(is_right and not data.column(name).null_count)


def count_rows(
    files: Iterable[DataFile], wanted: Coordinates, read: Reader, *, trusting: bool
) -> tuple[dict[PartitionIdentity, LandedRange], int]:
    """Rows and distinct offsets at coordinates, and how many rows of these files are elsewhere.

    Files whose statistics exclude the coordinates are not read.

    Args:
        read: Reads the coordinates of a file.
        trusting: Whether as many rows as a file's offsets span are taken for one row per offset.
            That is so if the rows were read once, before they were committed.
    """
    rows: dict[PartitionIdentity, int] = defaultdict(int)
    intervals: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
    elsewhere = 0
    for file in files:
        if not wanted.may_be_in(file):
            elsewhere += file.rows or 0  # asked of written files only: footers say it
            continue
        sole, span = file.identity, wanted.proven(file) if trusting else None
        if sole is not None and span is not None:
            rows[sole] += len(span)
            intervals[sole].append(span)
            continue
        for identity, offsets in read(file):
            inside = offsets[wanted.mask(identity, offsets)]
            elsewhere += len(offsets) - len(inside)
            rows[identity] += len(inside)
            intervals[identity] += runs(inside)
    found = {i: LandedRange(i, rows[i], union(intervals[i])) for i in rows if rows[i]}
    return found, elsewhere


def rows_of_plans(table: Opened, read: RowsReader, plans: Collection[str]) -> PlannedRows:
    """Where the rows of some plans are, and where all others; reads neither keys nor values.

    Args:
        table: The quarantine.
    """
    import pyarrow.compute as pc

    parts: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    topics: dict[str, str] = {}
    size = 0
    for file in active_files(table):
        data = read(file.path, _PLANNED)
        is_chosen = pc.is_in(data["decode_plan_id"], pa.array([*plans], pa.string()))
        parts[0].append(data.filter(is_chosen))
        parts[1].append(data.filter(pc.invert(is_chosen)))
        topics |= topics_in(data)
        size += (file.size or 0) * len(parts[0][-1]) // max(1, len(data))
    found, others = map(places_in, parts)
    return PlannedRows(found, others, topics, size)


def spelled(table: Opened, keys: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """As of `TablePort`."""
    types = {f.name: f.type for f in plain_schema(pa.schema(table.schema().to_arrow()))}

    def text(name: str, given: str) -> str:
        value = _value(types[name], name, given)
        is_bytes = pa.types.is_binary(types[name])
        return str(value.as_py().hex() if is_bytes else value.cast(pa.string()).as_py())

    return [{name: text(name, key[name]) for name in sorted(key)} for key in keys]


def rows_with(
    table: Opened,
    read: RowsReader,
    keys: Sequence[Mapping[str, str | None]],
    columns: Sequence[str],
) -> list[dict[str, Any]]:
    """Rows by the values of some columns; of each file, only these are read where none has them.

    Row groups whose statistics exclude all of the keys are not read.

    Args:
        keys: Values by column, as texts, None for null; all have the same columns.

    Raises:
        BadInput: A text is no value of its column's type.
    """
    import pyarrow.compute as pc

    found: list[dict[str, Any]] = []
    types = {f.name: f.type for f in plain_schema(pa.schema(table.schema().to_arrow()))}
    names = [*keys[0]] if keys else []
    if not {*names} <= {*types}:
        return found
    values = [tuple(_value(types[n], n, key[n]) for n in names) for key in keys]
    wanted = {
        names[n]: pa.array({v[n] for v in values}, types[names[n]]) for n in range(len(names))
    }
    given = {name: of.to_pylist() for name, of in wanted.items()}
    # statistics tell no null
    sorted_values = {name: sorted(of) for name, of in given.items() if None not in of}
    every = {tuple(v.as_py() for v in key) for key in values}
    for file in active_files(table) if keys else ():
        its = {
            name: None if text is None else _value(types[name], name, text).as_py()
            for name, text in (file.partition or {}).items()
            if name in names
        }
        if any(value not in given[name] for name, value in its.items()):
            continue
        inside = [n for n in names if n not in its]
        holding = {n: sorted_values[n] for n in inside if n in sorted_values}
        data = read(file.path, inside, holding)
        there = [n for n in inside if n in data.column_names]
        if any(None not in given[n] for n in inside if n not in there):
            continue  # it is older than a column, which is null in its rows
        masks = [pc.is_in(data[n].cast(types[n]), wanted[n]) for n in there]
        mask = reduce(pc.and_, masks) if masks else None
        if mask is not None and not pc.any(mask).as_py():
            continue
        chosen = read(file.path, [*dict.fromkeys((*inside, *columns))], holding)
        others = dict.fromkeys((*names, *columns)) | dict(file.by_its_rows.constants) | its
        for row in for_python(chosen if mask is None else chosen.filter(mask)).to_pylist():
            whole = others | row
            if len(names) == 1 or tuple(whole[n] for n in names) in every:
                found.append({n: whole[n] for n in columns})
    return found


def scan(
    table: Opened,
    read: RowsReader,
    columns: Sequence[str],
    wanted: Coordinates | None,
) -> Iterator[pa.Table]:
    """As of `TablePort`; what is not in a file is a value of its partition, or null."""
    types = {f.name: f.type for f in plain_schema(pa.schema(table.schema().to_arrow()))}
    for file in active_files(table):
        if wanted is not None and not wanted.may_be_in(file):
            continue
        its = file.by_its_rows
        asked = columns if wanted is None else (*IDENTITY, "offset", *columns)
        names = [n for n in dict.fromkeys(asked) if n not in its.constants]
        data = read(file.path, names)
        if wanted is not None:
            offsets = integers(data.column("offset"))
            chosen = np.zeros(len(data), dtype=bool)
            for identity, mask in by_identity(data, its.constants):
                at = wanted.mask(identity, offsets)
                chosen |= at if mask is None else at & mask
            if not chosen.all():  # else all values would be copied
                data = data.filter(pa.array(chosen))
        for name in columns:
            if name not in data.column_names:
                value = pa.scalar(its.constants.get(name), types.get(name, pa.null()))
                data = data.append_column(name, pa.repeat(value, len(data)))
        yield for_python(data.select([*columns]))


def _value(kind: pa.DataType, name: str, text: str | None) -> pa.Scalar:
    if text is None:
        return pa.scalar(None, kind)
    try:
        if pa.types.is_binary(kind):
            return pa.scalar(bytes.fromhex(text), kind)
        return pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise BadInput(f"{name}: got {shown(text)}; allowed: {_as_written(kind)}") from error


def _as_written(kind: pa.DataType) -> str:
    """How a value of a type is written, for messages."""
    if pa.types.is_integer(kind):
        return f"a whole number in digits, of {kind}"
    if pa.types.is_timestamp(kind):
        zone = "Z, with its offset from UTC" if kind.tz else ""
        return f"a time, as 2026-01-31T00:00:00{zone}"
    if pa.types.is_date(kind):
        return "a day, as 2026-01-31"
    return "hexadecimal digits" if pa.types.is_binary(kind) else f"a value of type {kind}"
