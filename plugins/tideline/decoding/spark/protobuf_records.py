"""Protobuf's records, batch by batch: which are good, which are not and why, and their columns.

Runs in Spark's Python workers, to which it is sent by value: it imports nothing else of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from tideline.decoding.spark.protobuf_columns import Column, Unfit, arrow_type, record_builder

Fields = Sequence[tuple[int, str, Column]]
Paths = Mapping[str, tuple[int, ...]]
_MOST_INDEXES = 100


def work(
    fields: Fields,
    writers: Mapping[int, tuple[bytes, str, Paths]],
    payload: str,
    schema_id: str,
    *,
    is_framed: bool,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker does: batches in, the same with fields, error class and error behind them.

    Args:
        fields: The table's.
        writers: By id: protoc's set of files, the message's full name, and the indexes of all
            messages in the schema's own file.
        payload: Name of the column with the bytes.
        schema_id: Name of the column with the ids.
        is_framed: Whether message indexes come first.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = {n: Writer(*told, fields, is_framed=is_framed) for n, told in writers.items()}
        for batch in batches:
            data = batch.column(batch.schema.get_field_index(payload)).to_pylist()
            ids = batch.column(batch.schema.get_field_index(schema_id)).to_pylist()
            added = read_records(fields, known, data, ids)
            names = [*batch.schema.names, "fields", "error_class", "error"]
            yield pa.RecordBatch.from_arrays([*batch.columns, *added], names)

    return read


def read_records(
    fields: Fields,
    writers: Mapping[int, Writer],
    payloads: Sequence[bytes | None],
    ids: Sequence[int | None],
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Fields, error classes and errors of records; all are null where there is no payload."""
    bad: dict[int, Unfit] = {}
    rows: dict[int, list[int]] = {}
    if None not in payloads and len(set(ids)) == 1:
        rows[ids[0]] = list(range(len(payloads)))  # type: ignore[index]
    else:
        for row, (data, number) in enumerate(zip(payloads, ids, strict=True)):
            if data is not None and number is not None:
                rows.setdefault(number, []).append(row)
    pieces = []
    for number, chosen in rows.items():
        writer = writers[number]
        good, messages = writer.parsed(chosen, payloads, bad)
        pieces += _built(writer, good, messages, bad)
    type_ = arrow_type(("record", fields))
    return _in_order(pieces, len(payloads), type_), *_told(bad, len(payloads))


def _built(
    writer: Writer, rows: Sequence[int], messages: Sequence[Any], bad: dict[int, Unfit]
) -> list[tuple[Sequence[int], pa.Array]]:
    """Rows and their fields; those with a value that does not fit are found by halving."""
    if not rows:
        return []
    try:
        return [(rows, writer.build(messages))]
    except Unfit as found:
        if len(rows) == 1:
            bad[rows[0]] = found
            return []
        half = len(rows) // 2
        first = _built(writer, rows[:half], messages[:half], bad)
        return first + _built(writer, rows[half:], messages[half:], bad)


def _in_order(
    pieces: Sequence[tuple[Sequence[int], pa.Array]], count: int, type_: pa.DataType
) -> pa.Array:
    """The pieces' rows in their places; null elsewhere."""
    if not pieces:
        return pa.nulls(count, type_)
    if len(pieces) == 1 and len(pieces[0][0]) == count:
        return pieces[0][1]
    places: list[int | None] = [None] * count
    place = 0
    for rows, _ in pieces:
        for row in rows:
            places[row] = place
            place += 1
    return pa.concat_arrays([array for _, array in pieces]).take(pa.array(places, pa.int64()))


def _told(bad: Mapping[int, Unfit], count: int) -> tuple[pa.Array, pa.Array]:
    if not bad:
        return pa.nulls(count, pa.string()), pa.nulls(count, pa.string())
    found = [bad.get(row) for row in range(count)]
    classes = [None if f is None else f.error_class for f in found]
    errors = [None if f is None else f.error for f in found]
    return pa.array(classes, pa.string()), pa.array(errors, pa.string())


class Writer:
    """Records of one writer schema.

    Args:
        files: Protoc's set of files.
        message: The full name of the message that they have to be.
        paths: Indexes of all messages in the schema's own file.
        fields: The table's.
        is_framed: Whether message indexes come first.
    """

    def __init__(
        self, files: bytes, message: str, paths: Paths, fields: Fields, *, is_framed: bool
    ) -> None:
        pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(files).file:
            pool.Add(file)
        self._pool = pool  # descriptors do not keep it alive everywhere
        descriptor = pool.FindMessageTypeByName(message)
        self.build = record_builder(fields, descriptor)
        self._parse = GetMessageClass(descriptor).FromString
        self._message = message
        self._names = {path: name for name, path in paths.items()}
        self._head = _encoded(paths[message]) if is_framed else b""
        self._is_framed = is_framed
        # A number that a closed enum has not is kept like an unknown field, and so is its map.
        self._plain = {f.number for f in descriptor.fields if not _holds_enum(f)}
        self._asks = _has_required(descriptor, set())

    def parsed(
        self, rows: Sequence[int], payloads: Sequence[bytes | None], bad: dict[int, Unfit]
    ) -> tuple[list[int], list[Any]]:
        """Rows that can be read, and their messages; the others are noted as bad."""
        head, size, parse, asks = self._head, len(self._head), self._parse, self._asks
        good, messages = [], []
        for row in rows:
            data = payloads[row]
            assert data is not None
            try:
                body = data[size:] if data.startswith(head) else self._behind_indexes(data)
                message = parse(body)
                if unknown := UnknownFieldSet(message):
                    self._refuse_other_types(unknown)
                if asks and not message.IsInitialized():
                    raise Unfit("malformed", "a required field is missing")
            except DecodeError as error:
                bad[row] = _refused(error, self._message)
            except Unfit as found:
                bad[row] = found
            else:
                good.append(row)
                messages.append(message)
        return good, messages

    def _behind_indexes(self, data: bytes) -> bytes:
        """The message's bytes, whatever way its indexes are written.

        Raises:
            Unfit: There are no indexes, or they lead to no message or to another one.
        """
        path, end = _indexes(data)
        name = self._names.get(path)
        if name is None:
            raise Unfit("framing", "message indexes that the schema does not have")
        if name != self._message:
            raise Unfit("type_mismatch", f"the message is a {name}, and no {self._message}")
        return data[end:]

    def _refuse_other_types(self, unknown: Iterable[Any]) -> None:
        """Refuse known numbers that come in another encoding: it is another message.

        Raises:
            Unfit: There is one.
        """
        if any(field.field_number in self._plain for field in unknown):
            raise Unfit("type_mismatch", f"a field is not of its type in {self._message}")


def _refused(error: DecodeError, message: str) -> Unfit:
    if "UTF-8" in str(error):
        return Unfit("invalid_utf8", f"invalid UTF-8 in a string of {message}")
    return Unfit("malformed", f"not a {message}")


def _holds_enum(field: Any) -> bool:
    entry = field.message_type
    return field.enum_type is not None or (entry is not None and entry.GetOptions().map_entry)


def _has_required(message: Any, seen: set[str]) -> bool:
    if message.full_name in seen:
        return False
    seen.add(message.full_name)
    inner = [f.message_type for f in message.fields if f.message_type is not None]
    return any(f.is_required for f in message.fields) or any(_has_required(m, seen) for m in inner)


def _encoded(path: Sequence[int]) -> bytes:
    """Message indexes as Confluent's serializers write them; the first message has a short form."""
    if tuple(path) == (0,):
        return b"\0"
    return b"".join(_varint(2 * number) for number in (len(path), *path))  # zigzag


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Message indexes, and where they end.

    Raises:
        Unfit: There are none.
    """
    count, end = _zigzag(data, 0)
    if count == 0:
        return (0,), end
    if not 0 < count <= _MOST_INDEXES:
        raise Unfit("framing", "the message indexes are wrong")
    path = []
    for _ in range(count):
        number, end = _zigzag(data, end)
        path.append(number)
    return tuple(path), end


def _zigzag(data: bytes, start: int) -> tuple[int, int]:
    number = 0
    for place in range(start, min(len(data), start + 5)):
        number |= (data[place] & 0x7F) << 7 * (place - start)
        if data[place] < 0x80:
            return (number >> 1) ^ -(number & 1), place + 1
    raise Unfit("framing", "the message indexes are cut off, or too long")
