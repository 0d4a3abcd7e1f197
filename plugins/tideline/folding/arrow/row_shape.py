"""Columns of typed rows and of the current table's: their types, files and hashes."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import NativeFile
from pyarrow.fs import FileSystem

from tideline.delta.delta_io import is_damaged, whole, whole_if_small
from tideline.errors import BadInput, VerificationFailed
from tideline.folding.arrow.hashing import SEED, SLICE, Hashes, add_column, add_longs, is_valid
from tideline.folding.arrow.keys import is_keyless
from tideline.model.current import COORDINATES, IS_DELETED, FoldPlan
from tideline.model.decoding import UNAVAILABLE
from tideline.table.schema import TYPED_COLUMNS, current_columns, delta_fields, partition_in
from tideline.table.written_types import ARROW_TYPES
from tideline.texts import one_line

TOPIC_ID = "topic_id"
_LOG = ("generation", "partition")
VARIANT = pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("value", "metadata")])
"""As Spark writes it, and reads it: its two parts are never null. No other type has such parts."""
_BITS = 60
"""Columns whose nulls one number tells."""
_MOST_ROWS, _BATCH_BYTES, _READ_BYTES = 65_536, 16 * 1024 * 1024, 1024 * 1024
"""Of a batch that is read; and how much of a column is fetched at a time."""
_FEW_ROWS = 1024
"""So many are read at a time where a file's size does not tell how large they are."""
_GONE = "it is gone; run again, in case a maintenance or a VACUUM has removed it meanwhile"


def arrow_type(kind: object) -> pa.DataType:
    """Arrow's type of a column.

    Args:
        kind: The column's type, as Delta and Spark write it in JSON.

    Raises:
        BadInput: It is none of Delta's types that Tideline knows.
    """
    if kind == "variant":
        return VARIANT
    if isinstance(kind, Mapping) and kind["type"] == "struct":
        return pa.struct([(f["name"], arrow_type(f["type"])) for f in kind["fields"]])
    if isinstance(kind, Mapping) and kind["type"] == "array":
        return pa.list_(pa.field("element", arrow_type(kind["elementType"])))
    if isinstance(kind, Mapping) and kind["type"] == "map":
        return pa.map_(arrow_type(kind["keyType"]), arrow_type(kind["valueType"]))
    if isinstance(kind, str) and kind.startswith("decimal("):
        precision, scale = kind[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if isinstance(kind, str) and kind in ARROW_TYPES:
        return ARROW_TYPES[kind][0]
    raise BadInput(
        f"a column of type {kind} cannot be folded: this version of Tideline does not know that"
        " type. Next: drop the column from the typed table, or upgrade"
    )


@dataclass(frozen=True)
class RowShape:
    """The columns of a plan's rows.

    Args:
        plan: Says which columns there are.
    """

    plan: FoldPlan

    @cached_property
    def kinds(self) -> dict[str, object]:
        """The current table's columns but for the bucket, in order, with their types."""
        return {str(f["name"]): f["type"] for f in current_columns(self.plan)[:-1]}

    @cached_property
    def topics(self) -> pa.Array:
        """Every topic id that a row may have: the dictionary of all batches."""
        return pa.array([*dict.fromkeys(self.plan.eras)], pa.string())

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the rows of the current table in memory."""
        types = {n: arrow_type(kind) for n, kind in self.kinds.items()}
        types[TOPIC_ID] = pa.dictionary(pa.int32(), pa.string())
        return pa.schema(types.items())

    @cached_property
    def none(self) -> pa.RecordBatch:
        """No rows."""
        columns = [pa.nulls(0, f.type) for f in self.schema]
        columns[self.schema.get_field_index(TOPIC_ID)] = _coded(columns[0], self.topics)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @cached_property
    def typed_kinds(self) -> dict[str, object]:
        """The columns of the typed table that are read, with their types."""
        plan = self.plan
        own = {*COORDINATES, *(name for name, _ in plan.marks)}
        own |= {"is_tombstone"} if plan.deletes.tombstones or plan.deletes.passes else set()
        own |= {UNAVAILABLE} if plan.has_unavailable else set()
        kinds = {str(f["name"]): f["type"] for f in delta_fields(TYPED_COLUMNS) if f["name"] in own}
        return kinds | {c.source: c.type for c in (*plan.columns, *plan.sequence)}

    @cached_property
    def typed(self) -> pa.Schema:
        """Of the typed table's rows in memory."""
        types = {n: arrow_type(kind) for n, kind in self.typed_kinds.items()}
        types[TOPIC_ID] = pa.dictionary(pa.int32(), pa.string())
        return pa.schema(types.items())

    @cached_property
    def hashed(self) -> tuple[tuple[str, int], ...]:
        """What a row's hash is made of, in order; each with the number of its bit."""
        ordering = tuple(c.name for c in self.plan.sequence)
        own = (*COORDINATES, IS_DELETED, UNAVAILABLE, *ordering)
        names = (*own, *(c.name for c in self.plan.columns))
        return tuple((name, n) for n, name in enumerate(names) if name in self.kinds)

    @cached_property
    def words(self) -> int:
        """How many numbers tell which columns of a row are null."""
        return (7 + len(self.plan.sequence) + len(self.plan.columns)) // _BITS + 1


def hashes_of(shape: RowShape, rows: pa.RecordBatch) -> Hashes:
    """A hash of all that each row holds: its name is `model.current.SUMS`."""
    parts = [_hashed(shape, rows.slice(n, SLICE)) for n in range(0, len(rows), SLICE)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _hashed(shape: RowShape, rows: pa.RecordBatch) -> Hashes:
    first = [np.zeros(1, np.uint64) for _ in range(shape.words)]
    for name, bit in shape.hashed:
        column, value = rows.column(name), np.uint64(1 << bit % _BITS)
        if column.null_count < len(column):
            there = value if not column.null_count else is_valid(column) * value
            first[bit // _BITS] = first[bit // _BITS] | there
    hashes = _begun(shape, rows, first)
    for name, _ in shape.hashed[3:]:
        add_column(hashes, rows.column(name), shape.kinds[name], is_plain=name == UNAVAILABLE)
    return hashes


def _begun(shape: RowShape, rows: pa.RecordBatch, first: Sequence[np.ndarray]) -> Hashes:
    """Hashes of what few rows differ in: their nulls, topic id, generation and partition.

    Each combination is hashed once.
    """
    columns = [rows.column(TOPIC_ID).indices, *(rows.column(n) for n in _LOG)]
    codes = [np.unique(word, return_inverse=True)[1] for word in first if len(word) > 1]
    codes += [np.asarray(column).astype(np.int64) for column in columns]
    codes = [code.reshape(-1) - int(code.min()) for code in codes]
    sizes = [int(code.max()) + 1 for code in codes]
    if (total := math.prod(sizes)) > len(rows):  # hardly any two rows are alike
        return _began(shape, rows, first, np.arange(len(rows)))
    combined = np.zeros(len(rows), np.int64)
    for code, size in zip(codes, sizes, strict=True):
        combined = combined * size + code
    one_of = np.zeros(total, np.int64)
    one_of[combined] = np.arange(len(rows))
    return _began(shape, rows, first, one_of)[combined]


def _began(
    shape: RowShape, rows: pa.RecordBatch, first: Sequence[np.ndarray], which: np.ndarray
) -> Hashes:
    hashes = np.full(len(which), SEED, np.uint64)
    for word in first:
        value = word[which] if len(word) > 1 else np.repeat(word, len(which))
        there = np.flatnonzero(value)
        some = hashes[there]
        add_longs(some, value[there])
        hashes[there] = some
    chosen = rows.select([TOPIC_ID, *_LOG]).take(pa.array(which))
    topics = chosen.column(TOPIC_ID).dictionary_decode()
    for name, column in zip((TOPIC_ID, *_LOG), (topics, *chosen.columns[1:]), strict=True):
        add_column(hashes, column, shape.kinds[name])
    return hashes


def read_rows(
    store: FileSystem,
    path: str,
    schema: pa.Schema,
    topics: pa.Array,
    *,
    key: Sequence[str] = (),
    foreign: Callable[[int], None] | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a data file in their order, in batches that memory bears.

    A row that no fold has written is left out: one without a topic id, or with another one than
    `topics` has; without another coordinate; where there is a key, without that or `is_deleted`.

    Args:
        store: Opens it.
        path: Relative to the table, not URL-encoded; folders may name a partition's values.
        schema: Which columns, with their types; one that the file does not have is null.
        topics: The dictionary of topic ids.
        key: The columns of the current table's key; none for typed rows, which may lack it.
        foreign: Is told how many rows were left out, batch by batch.

    Raises:
        VerificationFailed: The file is gone, or damaged, or a column stands there twice; or the
            topic id of typed rows stands nowhere in it.
    """
    try:
        with store.open_input_file(path) as source:
            parquet = _opened(whole_if_small(source))
            named = _named(path, schema.names)
            stored = _stored(path, [n for n in schema.names if n not in named], parquet)
            if not (key or TOPIC_ID in (*named, *stored.values())):
                # the log alone knows it then: left out, each of its rows would be lost
                raise _damaged(path, "neither a column nor its folder's name tells the topic id")
            for number in range(parquet.num_row_groups):
                group = parquet.metadata.row_group(number)
                each = max(1, group.total_byte_size // max(1, group.num_rows))
                size = max(1, min(_MOST_ROWS, _BATCH_BYTES // each))
                few = min(size, _FEW_ROWS) if _may_repeat(group, [*stored]) else size
                batches = whole(group, _batches(parquet, number, [*stored], few))
                for batch in map(_one_of, in_groups(batches, size, _BATCH_BYTES)):
                    columns = {stored[n]: batch.column(n) for n in stored}
                    columns |= _named_columns(named, schema, len(batch))
                    rows = _shaped(columns, path, schema, topics, len(batch))
                    if not (ours := _is_ours(rows, key)).all():
                        rows = rows.filter(pa.array(ours))
                        if foreign is not None:
                            foreign(len(ours) - len(rows))
                    yield rows
    except FileNotFoundError as error:
        raise _damaged(path, _GONE) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        if is_damaged(store, path):
            raise _damaged(path, str(error)) from error
        raise


def _opened(source: NativeFile) -> pq.ParquetFile:
    def opened(*dictionaries: str) -> pq.ParquetFile:
        return pq.ParquetFile(
            source,
            pre_buffer=False,
            buffer_size=_READ_BYTES,
            coerce_int96_timestamp_unit="us",
            read_dictionary=[*dictionaries],
        )

    try:
        return opened(TOPIC_ID)
    except KeyError:  # there is no such column
        return opened()


def _stored(path: str, names: Sequence[str], parquet: pq.ParquetFile) -> dict[str, str]:
    """The columns that a file has, by their names there: cases of names are alike, as to Spark.

    Raises:
        VerificationFailed: A column stands there twice.
    """
    there: dict[str, list[str]] = {}
    for name in parquet.schema_arrow.names:
        there.setdefault(name.lower(), []).append(name)
    found: dict[str, str] = {}
    for name in names:
        same = there.get(name.lower(), [])
        if len(same) > 1:
            raise _damaged(path, f"column {name} stands there twice: {', '.join(same)}")
        found |= dict.fromkeys(same, name)
    return found


def _may_repeat(group: pq.RowGroupMetaData, names: Sequence[str]) -> bool:
    """Whether values of any length stand once in a file, and in memory once for each row."""
    columns = (group.column(n) for n in range(group.num_columns))
    return any(
        c.physical_type == "BYTE_ARRAY" and c.has_dictionary_page
        for c in columns
        if (name := c.path_in_schema.split(".")[0]) in names and name != TOPIC_ID
    )


def _batches(
    parquet: pq.ParquetFile, number: int, columns: Sequence[str], size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a row group, as many at a time; fewer where Arrow has no array for so many.

    Items of lists have 2 GiB at most, which a file does not tell that has equal ones once.
    """
    given = 0
    while True:
        at = 0
        try:
            for batch in parquet.iter_batches(
                size, row_groups=[number], columns=[*columns], use_threads=False
            ):
                at += len(batch)
                if at > given:
                    yield batch.slice(max(0, len(batch) - (at - given)))
                    given = at
        except pa.ArrowNotImplementedError:
            if size == 1:
                raise
            size = max(1, size // 32)
        else:
            return


def in_groups(
    batches: Iterable[pa.RecordBatch], rows: int, size: int
) -> Iterator[list[pa.RecordBatch]]:
    """Batches, as many at a time as have so many rows, or are so large; none where there are none.

    Args:
        rows, size: How many rows, and bytes, are enough.
    """
    held, count, taken = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        held.append(batch)
        count, taken = count + len(batch), taken + batch.nbytes
        if count >= rows or taken >= size:
            yield held
            held, count, taken = [], 0, 0
    if held:
        yield held


def _one_of(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _damaged(path: str, why: str) -> VerificationFailed:
    why = one_line(why, 200)
    return VerificationFailed(
        f"data file {path} cannot be folded: {why}; nothing was committed. tideline audit FILE"
        " names every damaged file, the runbook says what to do",
        path=path,
        why=why,
    )


def _named(path: str, columns: Sequence[str]) -> dict[str, str | None]:
    """The partition columns of a file, by the names of its folders."""
    return {name: value for name, value in partition_in(path).items() if name in columns}


def _named_columns(
    named: Mapping[str, str | None], schema: pa.Schema, count: int
) -> dict[str, pa.Array]:
    """What the names of a file's folders say, as columns."""
    found = {}
    for name, value in named.items():
        texts = pa.repeat(pa.scalar(value, pa.string()), count)
        found[name] = texts if name == TOPIC_ID else texts.cast(schema.field(name).type)
    return found


def _shaped(
    columns: Mapping[str, pa.Array], path: str, schema: pa.Schema, topics: pa.Array, count: int
) -> pa.RecordBatch:
    """Columns of a file as those of a schema; what the file does not have is null."""
    made = []
    for field in schema:
        is_topic = field.name == TOPIC_ID
        kind = pa.string() if is_topic else field.type
        column = columns.get(field.name)
        if column is None:
            column = pa.nulls(count, kind)
        try:
            made.append(_coded(column, topics) if is_topic else conformed(column, kind))
        except Unlike as error:
            raise _changed(path, field.name, str(error)) from error
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _is_ours(rows: pa.RecordBatch, key: Sequence[str]) -> np.ndarray:
    """Which rows a fold may have written."""
    found = np.ones(len(rows), bool)
    for name in (*COORDINATES[:-1], *([IS_DELETED] if key else ())):
        if name in rows.schema.names and rows.column(name).null_count:
            found &= is_valid(rows.column(name))
    return found & ~is_keyless([rows.column(n) for n in key]) if key else found


def _changed(path: str, name: str, what: str) -> VerificationFailed:
    what = one_line(what, 200)
    return VerificationFailed(
        f"data file {path} cannot be folded: column {name} has {what}: others have changed the"
        " table; nothing was committed. Next: take their change back, or, where it is the current"
        " table's file, tideline fold FILE --anew",
        path=path,
        why=f"column {name} has {what}",
    )


class Unlike(Exception):
    """Values that are none of a column's type; says which type is in whose place."""


def conformed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in its table's type, where the file's tells the same values.

    Raises:
        Unlike: It does not.
    """
    found = column.type
    if found == kind:
        return column
    if isinstance(found, pa.BaseExtensionType):
        return conformed(column.storage, kind)
    if pa.types.is_dictionary(found):
        return conformed(column.dictionary_decode(), kind)
    try:
        made = _cast_nested(column, kind)
        made = _cast(column, kind) if made is None else made
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Unlike(f"{found} in place of {kind}, with other values: {error}") from error
    if made is None:
        raise Unlike(f"{found} in place of {kind}")
    return made


def _cast_nested(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Values of several parts in a type of such; None for other types."""
    found, mask = column.type, pc.is_null(column) if column.null_count else None
    if pa.types.is_struct(found) and pa.types.is_struct(kind):
        made = [*_parts(column, kind)]
        if kind == VARIANT and any(part.null_count > column.null_count for part in made):
            raise Unlike("a null in a part of a VARIANT")
        return pa.StructArray.from_arrays(made, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) and any(is_it(found) for is_it in _LISTS):
        column = column.cast(pa.list_(pa.field("element", found.value_type)))
        offsets, start, end = _offsets(column)
        values = conformed(column.values.slice(start, end - start), kind.value_type)
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=mask)
    if pa.types.is_map(found) and pa.types.is_map(kind):
        offsets, start, end = _offsets(column)
        keys, items = (part.slice(start, end - start) for part in (column.keys, column.items))
        keys, items = conformed(keys, kind.key_type), conformed(items, kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    return None


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def _parts(column: pa.StructArray, kind: pa.StructType) -> Iterator[pa.Array]:
    """The fields of a type; cases of their names are alike, as to Spark."""
    there: dict[str, list[pa.Array]] = {}
    for field, part in zip(column.type, column.flatten(), strict=True):
        there.setdefault(field.name.lower(), []).append(part)
    for field in kind:
        same = there.get(field.name.lower(), [])
        if len(same) > 1:
            raise Unlike(f"the field {field.name} twice")
        yield conformed(same[0], field.type) if same else pa.nulls(len(column), field.type)


def _offsets(column: pa.Array) -> tuple[pa.Array, int, int]:
    """Where each list or map begins among those of this array; and where these begin and end."""
    offsets = np.asarray(column.offsets)
    start, end = int(offsets[0]), int(offsets[-1])
    return pa.array(offsets - start, pa.int32()), start, end


def written(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as a file has them: a VARIANT that is null has empty parts, as none may be null."""
    if not any(_has_variant(kind) for kind in rows.schema.types):
        return rows
    columns = [_without_nulls(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _has_variant(kind: pa.DataType) -> bool:
    parts = (kind.field(n).type for n in range(kind.num_fields)) if pa.types.is_nested(kind) else ()
    return kind == VARIANT or any(map(_has_variant, parts))


def _without_nulls(column: pa.Array) -> pa.Array:
    kind, mask = column.type, pc.is_null(column) if column.null_count else None
    if not _has_variant(kind):
        return column
    if pa.types.is_struct(kind):
        is_it, parts = kind == VARIANT, column.flatten()
        parts = [pc.fill_null(part, b"") if is_it else _without_nulls(part) for part in parts]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    offsets, start, end = _offsets(column)
    if pa.types.is_list(kind):
        values = _without_nulls(column.values.slice(start, end - start))
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=mask)
    items = _without_nulls(column.items.slice(start, end - start))
    keys = column.keys.slice(start, end - start)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)


def nulled(column: pa.Array, gone: np.ndarray) -> pa.Array:
    """A column of any type with nulls in some rows."""
    return column.take(pa.array(np.arange(len(column)), mask=gone)) if gone.any() else column


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Values of a type that may tell those of another one, in that; None for other types.

    Raises:
        pa.ArrowInvalid: One is none of that type.
    """
    found, is_it = column.type, pa.types
    if is_it.is_timestamp(found) and is_it.is_timestamp(kind):  # to Spark, zones are alike
        return column.cast(pa.timestamp("us", found.tz)).view(pa.int64()).view(kind)
    if (is_it.is_string(kind) or is_it.is_binary(kind)) and any(is_a(found) for is_a in _BYTES):
        is_text = is_it.is_string_view(found) or is_it.is_large_string(found)
        if not (is_it.is_string(found) or is_it.is_binary(found)):
            column = column.cast(pa.string() if is_text else pa.binary())
        return column.view(kind)  # a text may be no UTF-8
    pairs = ((is_a(found), into(kind)) for is_a, into in _CAST)
    return column.cast(kind) if any(map(all, pairs)) else None


_BYTES = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    pa.types.is_fixed_size_binary,
)
_CAST: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (pa.types.is_null, lambda kind: True),
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_integer, pa.types.is_float64),
    (pa.types.is_floating, pa.types.is_float64),
    (pa.types.is_float16, pa.types.is_float32),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_date, pa.types.is_date),
    (pa.types.is_date, pa.timestamp("us").__eq__),
)
"""Types of files and of tables: a value that the table's does not have is refused by the cast."""


def _coded(column: pa.Array, topics: pa.Array) -> pa.DictionaryArray:
    """Topic ids by their numbers in one dictionary, the same in all batches; null for others."""
    if not len(column):
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), topics)
    if not pa.types.is_dictionary(column.type):
        column = conformed(column, pa.string()).dictionary_encode()
    numbers = pc.index_in(conformed(column.dictionary, pa.string()), value_set=topics)
    codes = numbers.take(column.indices)
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), topics)
