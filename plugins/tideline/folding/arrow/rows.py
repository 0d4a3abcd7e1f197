"""Columns of typed rows and of the current table's: their types, files and hashes."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tideline.delta_io import is_damaged, whole_if_small
from tideline.errors import VerificationFailed
from tideline.folding.arrow import NotCovered
from tideline.folding.arrow.hashing import SEED, SLICE, Hashes, add_column, add_longs, is_valid
from tideline.model.current import COORDINATES, IS_DELETED, OLD_SUMS, FoldPlan
from tideline.model.decoding import UNAVAILABLE
from tideline.table.schema import TYPED_COLUMNS, current_columns, delta_fields, partition_in
from tideline.table.written_types import ARROW_TYPES
from tideline.texts import told

TOPIC_ID = "topic_id"
_LOG = ("generation", "partition")
_NEVER_NULL = (*COORDINATES[:-1], IS_DELETED)
_BITS = 60
"""Columns whose nulls one number tells."""
_MOST_ROWS, _BATCH_BYTES, _READ_BYTES = 65_536, 16 * 1024 * 1024, 1024 * 1024
"""Of a batch that is read; and how much of a column is fetched at a time."""
_FEW_ROWS = 1024
"""So many are read at a time where a file's size does not tell how large they are."""


def arrow_type(kind: object) -> pa.DataType:
    """Arrow's type of a column.

    Args:
        kind: The column's type, as Delta and Spark write it in JSON.

    Raises:
        NotCovered: The fold over Arrow does not know it.
    """
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
    raise NotCovered(f"a column of type {kind}")


@dataclass(frozen=True)
class Shape:
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

    @property
    def is_hashed_alike(self) -> bool:
        """Whether the sums of the plan are of the hash that is made here."""
        nested = (k for n, k in self.kinds.items() if n != UNAVAILABLE)
        return self.plan.sums != OLD_SUMS or not any(isinstance(k, Mapping) for k in nested)


def hashes_of(shape: Shape, rows: pa.RecordBatch) -> Hashes:
    """A hash of all that each row holds: that of `folding.spark.sums`."""
    parts = [_hashed(shape, rows.slice(n, SLICE)) for n in range(0, len(rows), SLICE)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _hashed(shape: Shape, rows: pa.RecordBatch) -> Hashes:
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


def _begun(shape: Shape, rows: pa.RecordBatch, first: Sequence[np.ndarray]) -> Hashes:
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
    shape: Shape, rows: pa.RecordBatch, first: Sequence[np.ndarray], which: np.ndarray
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
    store: FileSystem, path: str, schema: pa.Schema, topics: pa.Array, *, has_others: bool = False
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a data file in their order, in batches that memory bears.

    Args:
        store: Opens it.
        path: Relative to the table, not URL-encoded; folders may name a partition's values.
        schema: Which columns, with their types; one that the file does not have is null.
        topics: The dictionary of topic ids.
        has_others: Whether rows with other topic ids may be there; they are left out.

    Raises:
        VerificationFailed: The file is gone, or damaged.
        NotCovered: A column has another type there, or a topic id is unknown.
    """
    try:
        with store.open_input_file(path) as source:
            parquet = pq.ParquetFile(
                whole_if_small(source),
                pre_buffer=False,
                buffer_size=_READ_BYTES,
                coerce_int96_timestamp_unit="us",
                read_dictionary=[TOPIC_ID],
            )
            named = _named(path, schema.names)
            stored = [n for n in schema.names if n not in named]
            _refuse_other_cases(path, stored, parquet.schema_arrow.names)
            for number in range(parquet.num_row_groups):
                group = parquet.metadata.row_group(number)
                each = max(1, group.total_byte_size // max(1, group.num_rows))
                size = max(1, min(_MOST_ROWS, _BATCH_BYTES // each))
                there = [n for n in stored if n in parquet.schema_arrow.names]
                few = min(size, _FEW_ROWS) if _may_repeat(group, there) else size
                batches = parquet.iter_batches(
                    few, row_groups=[number], columns=there, use_threads=False
                )
                for batch in _gathered(batches, size):
                    found = _with_named(batch, named, schema)
                    found = _known(found, topics) if has_others else found
                    yield _shaped(found, path, schema, topics)
    except KeyError as error:  # a name that is not there, or there twice
        raise NotCovered(f"columns of {path}: {error}") from error
    except FileNotFoundError as error:
        raise _damaged(path, "it is gone") from error
    except pa.ArrowInvalid as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        if is_damaged(store, path):
            raise _damaged(path, str(error)) from error
        raise


def _refuse_other_cases(path: str, names: Sequence[str], there: Sequence[str]) -> None:
    """Make sure that a column which is not there does not stand there in another case.

    Spark finds it then: to Spark, cases of names are alike.
    """
    lower = {name.lower() for name in there}
    for name in {*names} - {*there}:
        if name.lower() in lower:
            raise NotCovered(f"column {name} of {path} is written in another case")


def _may_repeat(group: pq.RowGroupMetaData, names: Sequence[str]) -> bool:
    """Whether values of any length stand once in a file, and in memory once for each row."""
    columns = (group.column(n) for n in range(group.num_columns))
    return any(
        c.physical_type == "BYTE_ARRAY" and c.has_dictionary_page
        for c in columns
        if (name := c.path_in_schema.split(".")[0]) in names and name != TOPIC_ID
    )


def _gathered(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Small batches as larger ones, up to some rows that memory bears."""
    held, count, taken = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        held.append(batch)
        count, taken = count + len(batch), taken + batch.nbytes
        if count >= size or taken >= _BATCH_BYTES:
            yield _one_of(held)
            held, count, taken = [], 0, 0
    if held:
        yield _one_of(held)


def _one_of(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _damaged(path: str, why: str) -> VerificationFailed:
    why = told(why, 200)
    return VerificationFailed(
        f"data file {path} cannot be folded: {why}; nothing was committed. tideline audit FILE"
        " names every damaged file, the runbook says what to do",
        path=path,
        why=why,
    )


def _named(path: str, columns: Sequence[str]) -> dict[str, str | None]:
    """The partition columns of a file, by the names of its folders."""
    return {name: value for name, value in partition_in(path).items() if name in columns}


def _with_named(
    batch: pa.RecordBatch, named: Mapping[str, str | None], schema: pa.Schema
) -> pa.RecordBatch:
    """A batch with what the names of its file's folders say."""
    for name, value in named.items():
        texts = pa.repeat(pa.scalar(value, pa.string()), len(batch))
        is_topic = name == TOPIC_ID
        batch = batch.append_column(
            name, texts if is_topic else texts.cast(schema.field(name).type)
        )
    return batch


def _known(batch: pa.RecordBatch, topics: pa.Array) -> pa.RecordBatch:
    """The rows of topic ids that are known."""
    column = batch.column(TOPIC_ID)
    if column.null_count:
        raise NotCovered("a row without a topic id")
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    is_known = np.asarray(pc.is_in(column.dictionary.cast(pa.string()), value_set=topics))
    if is_known.all():
        return batch
    return batch.filter(pa.array(is_known[np.asarray(column.indices)]))


def _shaped(
    batch: pa.RecordBatch, path: str, schema: pa.Schema, topics: pa.Array
) -> pa.RecordBatch:
    """A batch in the columns of a schema."""
    columns = []
    for field in schema:
        is_topic = field.name == TOPIC_ID
        column = pa.nulls(len(batch), pa.string() if is_topic else field.type)
        if field.name in batch.schema.names:
            column = batch.column(field.name)
        try:
            made = _coded(column, topics) if is_topic else conformed(column, field.type)
        except NotCovered as error:
            raise NotCovered(f"column {field.name} of {path}: {error}") from error
        if made.null_count and field.name in _NEVER_NULL:
            raise NotCovered(f"column {field.name} of {path} has a null")
        columns.append(made)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def conformed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in its table's type, where the file's tells the same values.

    Raises:
        NotCovered: It may tell others.
    """
    found = column.type
    if found == kind:
        return column
    if pa.types.is_dictionary(found):
        return conformed(column.dictionary_decode(), kind)
    if pa.types.is_struct(found) and pa.types.is_struct(kind):
        parts = dict(zip((f.name for f in found), column.flatten(), strict=True))
        made = [
            conformed(parts[f.name], f.type) if f.name in parts else pa.nulls(len(column), f.type)
            for f in kind
        ]
        return pa.StructArray.from_arrays(made, fields=list(kind), mask=pc.is_null(column))
    is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
    if is_list and pa.types.is_list(kind):
        column = column.cast(pa.list_(pa.field("element", found.value_type)))
        values = conformed(column.values, kind.value_type)
        mask = pc.is_null(column) if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=mask)
    if pa.types.is_map(found) and pa.types.is_map(kind):
        keys, items = conformed(column.keys, kind.key_type), conformed(column.items, kind.item_type)
        mask = pc.is_null(column) if column.null_count else None
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=kind, mask=mask)
    if _is_alike(found, kind):
        return column.cast(kind)
    raise NotCovered(f"{found} in place of {kind}")


def without(column: pa.Array, gone: np.ndarray) -> pa.Array:
    """A column of any type with nulls in some rows."""
    return column.take(pa.array(np.arange(len(column)), mask=gone)) if gone.any() else column


def _is_alike(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether every value of a file's type is one of the table's."""
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(kind):
        return (found.tz is None) == (kind.tz is None)
    if pa.types.is_integer(found) and pa.types.is_integer(kind):
        return bool(found.bit_width <= kind.bit_width)
    texts = (pa.types.is_large_string, pa.types.is_string_view)
    data = (pa.types.is_large_binary, pa.types.is_binary_view)
    return any(t(found) for t in (texts if pa.types.is_string(kind) else ())) or any(
        t(found) for t in (data if pa.types.is_binary(kind) else ())
    )


def _coded(column: pa.Array, topics: pa.Array) -> pa.DictionaryArray:
    """Topic ids by their numbers in one dictionary, the same in all batches."""
    if not len(column):
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), topics)
    if not pa.types.is_dictionary(column.type):
        column = conformed(column, pa.string()).dictionary_encode()
    numbers = pc.index_in(column.dictionary.cast(pa.string()), value_set=topics)
    if column.null_count or numbers.null_count:
        raise NotCovered("a topic id that the plan does not know")
    codes = np.asarray(numbers)[np.asarray(column.indices)]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), topics)
