"""Spark's xxhash64 over Arrow's columns, bit for bit, for many rows at once. Pure.

A hash goes from value to value: that of one is the seed of the next, and nulls are passed over.
Every function here takes hashes in and changes them in place. What is hashed at once should stay in
the processor's cache: some thousand rows (`SLICE`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Hashes = np.ndarray
"""Unsigned 64-bit integers, one for each row."""
SEED = 42
SLICE = 16_384
_WIDE_DECIMAL = 18
"""Digits; a decimal with more is hashed as the bytes of a big integer."""
_PARTS_OF_VARIANT = {
    "type": "struct",
    "fields": [{"name": n, "type": "binary"} for n in ("value", "metadata")],
}
"""In the order in which Spark writes them."""
_U64 = np.uint64
_P1, _P2, _P3, _P4, _P5 = (
    _U64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_BLOCK = 32
"""Bytes; what is longer has four lanes."""
_LOW_HALF, _LOW_BYTE = _U64(0xFFFFFFFF), _U64(0xFF)


def add_column(hashes: Hashes, column: pa.Array, kind: object, *, is_plain: bool = False) -> None:
    """Take one more value of each row into its hash; a null changes nothing.

    Args:
        kind: The column's type, as Delta and Spark write it in JSON.
        is_plain: Whether a list's items are hashed alone, without its length and its nulls.
    """
    if column.null_count == len(column):
        return
    if column.null_count == 0:
        _add_values(hashes, column, kind, is_plain=is_plain)
        return
    rows = np.flatnonzero(is_valid(column))
    some = hashes[rows]
    _add_values(some, column.drop_null(), kind, is_plain=is_plain)
    hashes[rows] = some


def is_valid(column: pa.Array) -> np.ndarray:
    """Which values are there, as a mask."""
    return np.asarray(pc.is_valid(column))


def add_longs(hashes: Hashes, values: np.ndarray) -> None:
    """Take a 64-bit value, as unsigned, into each hash."""
    scratch = np.empty_like(hashes)
    word = values * _P2
    _rotate(word, 31, scratch)
    word *= _P1
    hashes += _U64(int(_P5) + 8)
    hashes ^= word
    _rotate(hashes, 27, scratch)
    hashes *= _P1
    hashes += _P4
    _avalanche(hashes, scratch)


def add_ints(hashes: Hashes, values: np.ndarray) -> None:
    """Take a 32-bit value, as unsigned in 64 bits, into each hash."""
    scratch = np.empty_like(hashes)
    hashes += _U64(int(_P5) + 4)
    hashes ^= values * _P1
    _rotate(hashes, 23, scratch)
    hashes *= _P2
    hashes += _P3
    _avalanche(hashes, scratch)


def _add_values(hashes: Hashes, column: pa.Array, kind: object, *, is_plain: bool) -> None:
    """The same of a column without nulls."""
    if kind == "variant":
        kind = _PARTS_OF_VARIANT
    if isinstance(kind, Mapping):
        _add_nested(hashes, column, kind, is_plain=is_plain)
    elif kind in ("string", "binary"):
        _add_bytes(hashes, _bytes_of(column))
    elif kind in ("boolean", "byte", "short", "integer", "date", "float"):
        add_ints(hashes, _unsigned_ints(column, str(kind)))
    elif str(kind).startswith("decimal(") and column.type.precision > _WIDE_DECIMAL:
        _add_bytes(hashes, _big_integers(column))
    else:
        add_longs(hashes, _unsigned_longs(column, str(kind)))


def _add_nested(
    hashes: Hashes, column: pa.Array, kind: Mapping[str, object], *, is_plain: bool
) -> None:
    """A struct's fields with their numbers; a list's length, and its items with their nulls.

    A field that is null is none, so one that a struct gets later changes no hash.
    """
    if kind["type"] == "struct":
        fields = kind["fields"]
        assert isinstance(fields, list | tuple)
        for number, (field, child) in enumerate(zip(fields, column.flatten(), strict=True)):
            rows = np.flatnonzero(is_valid(child))
            some = hashes[rows]
            add_ints(some, np.full(len(rows), number, _U64))
            add_column(some, child.drop_null(), field["type"])
            hashes[rows] = some
        return
    if kind["type"] == "map":
        column, kind = _sorted_pairs(column, kind)
    offsets = np.asarray(column.offsets).astype(np.int64)
    lengths = np.diff(offsets)
    if not is_plain:
        add_ints(hashes, lengths.astype(_U64))
    for n in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > n)
        items = column.values.take(pa.array(offsets[rows] + n))
        some = hashes[rows]
        if not is_plain:
            add_ints(some, is_valid(items).astype(_U64))
        add_column(some, items, kind["elementType"])
        hashes[rows] = some


def _sorted_pairs(
    column: pa.Array, kind: Mapping[str, object]
) -> tuple[pa.Array, Mapping[str, object]]:
    """Maps as lists of pairs, which are in the order of their keys; and the type of these."""
    offsets = np.asarray(column.offsets)
    start, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = column.keys.slice(start, count), column.items.slice(start, count)
    of_row = np.repeat(np.arange(len(column)), np.diff(offsets))
    order = pa.array(np.lexsort((_ranks(keys), of_row)))
    pairs = pa.StructArray.from_arrays([keys.take(order), items.take(order)], ["key", "value"])
    fields = [{"name": n, "type": kind[f"{n}Type"]} for n in ("key", "value")]
    pair = {"type": "struct", "fields": fields}
    lists = pa.ListArray.from_arrays(pa.array(offsets - start, pa.int32()), pairs)
    return lists, {"type": "array", "elementType": pair}


def _ranks(keys: pa.Array) -> np.ndarray:
    """Numbers that have the order of a map's keys, which are of any type but a map."""
    kind = keys.type
    if pa.types.is_floating(kind):
        keys = keys.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # Spark has one zero
        return np.unique(keys, return_inverse=True)[1]
    if not pa.types.is_nested(kind):
        return np.asarray(pc.rank(keys, "ascending", tiebreaker="dense"))
    listed = _sortable(keys)
    numbers = {key: n for n, key in enumerate(sorted({*listed}))}
    return np.array([numbers[key] for key in listed], np.int64)


def _sortable(column: pa.Array) -> list[Any]:
    """Values of any type but a map, as Python sorts them: null before all else."""
    there = is_valid(column).tolist()
    if pa.types.is_struct(column.type):
        parts = [_sortable(child) for child in column.flatten()]
        values: list[Any] = [*zip(*parts, strict=True)] if parts else [()] * len(column)
    elif pa.types.is_list(column.type):
        offsets, items = np.asarray(column.offsets).tolist(), _sortable(column.values)
        values = [(*items[a:b],) for a, b in pairwise(offsets)]
    else:
        values = _ranks(column).tolist()
    return [
        (is_there, value if is_there else ()) for is_there, value in zip(there, values, strict=True)
    ]


def _unsigned_ints(column: pa.Array, kind: str) -> np.ndarray:
    """32-bit values as Spark hashes them: floats by their bits, with one zero and one NaN."""
    if kind == "boolean":
        return np.asarray(column.cast(pa.uint8())).astype(_U64)
    if kind == "float":
        floats = np.asarray(column).astype(np.float32)
        floats[floats == 0] = 0
        floats[np.isnan(floats)] = np.float32("nan")
        return floats.view(np.uint32).astype(_U64)
    whole = column.cast(pa.int32()) if kind in ("byte", "short", "date") else column
    return np.asarray(whole).view(np.uint32).astype(_U64)


def _unsigned_longs(column: pa.Array, kind: str) -> np.ndarray:
    """64-bit values as Spark hashes them: times in microseconds, decimals without their point."""
    if kind == "double":
        doubles = np.array(column, np.float64)
        doubles[doubles == 0] = 0
        doubles[np.isnan(doubles)] = np.float64("nan")
        return doubles.view(_U64)
    if kind.startswith("decimal("):
        return _halves(column)[:, 0].copy()
    return np.frombuffer(column.buffers()[1], _U64, len(column), column.offset * 8)


def _halves(column: pa.Array) -> np.ndarray:
    """Decimals of 128 bits as pairs of unsigned 64-bit integers, the lower half first."""
    data = np.frombuffer(column.buffers()[1], _U64, 2 * len(column), column.offset * 16)
    return data.reshape(-1, 2)


@dataclass(slots=True)
class _Bytes:
    """Values of any length.

    Args:
        words: At each byte's place the 8 bytes from there on, as `_words` has them.
        starts, lengths: Of each value, in bytes.
    """

    words: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def read(self, at: np.ndarray) -> np.ndarray:
        """The 8 bytes at each place."""
        found: np.ndarray = self.words[at]
        return found


def _words(data: np.ndarray) -> np.ndarray:
    """The 8 bytes from each byte on, little-endian, also from the place behind the last byte.

    They overlap, so no memory is taken for them; behind the last byte come zeros.
    """
    padded = np.zeros(len(data) + 8, np.uint8)
    padded[: len(data)] = data
    return np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))


def _bytes_of(column: pa.Array) -> _Bytes:
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(column) + 1, column.offset * 4)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.empty(0, np.uint8)  # where all are empty there may be no buffer
    if last > first:
        data = np.frombuffer(data_buffer, np.uint8, last - first, first)
    starts, lengths = offsets[:-1].astype(np.int64) - first, np.diff(offsets).astype(np.int64)
    return _Bytes(_words(data), starts, lengths)


def _big_integers(column: pa.Array) -> _Bytes:
    """Decimals as Java's `BigInteger.toByteArray`: big-endian, as few bytes as hold the sign."""
    backwards = _halves(column).view(np.uint8)[:, ::-1]
    sign = np.where(backwards[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    is_sign = np.cumprod(backwards == sign, axis=1)  # how many bytes in front say the sign alone
    leading = is_sign.sum(axis=1).astype(np.int64)
    next_byte = backwards[np.arange(len(column)), np.minimum(leading, 15)]
    is_told = (leading < 16) & ((next_byte & 0x80) == (sign[:, 0] & 0x80))
    leading = np.where(is_told, leading, leading - 1)
    starts = np.arange(len(column), dtype=np.int64) * 16 + leading
    return _Bytes(_words(backwards.reshape(-1)), starts, 16 - leading)


def _add_bytes(hashes: Hashes, values: _Bytes) -> None:
    """Values of one length stand together, so each step is one for a run of rows."""
    order = _longest_first(values.lengths)
    lengths, some = values.lengths[order], hashes[order]
    starts = values.starts[order]
    count = int(np.searchsorted(-lengths, -_BLOCK, side="right"))
    if count:
        _add_long(some[:count], values, starts[:count], lengths[:count])
    if count < len(order):
        _add_short(some[count:], values, starts[count:], lengths[count:])
    hashes[order] = some


def _longest_first(lengths: np.ndarray) -> np.ndarray:
    """The order of values by their lengths."""
    less = int(lengths.max(initial=0)) - lengths
    most = int(less.max(initial=0))
    if most < 1 << 16:  # NumPy sorts so small numbers without comparing them
        less = less.astype(np.uint8 if most < 1 << 8 else np.uint16)
    return np.argsort(less, kind="stable")


def _add_short(hashes: Hashes, values: _Bytes, at: np.ndarray, lengths: np.ndarray) -> None:
    """Values below 32 bytes, the longest first."""
    hashes += _P5
    hashes += lengths.view(_U64)
    _add_tails(hashes, values, at, lengths)


def _add_long(hashes: Hashes, values: _Bytes, at: np.ndarray, lengths: np.ndarray) -> None:
    """Values of 32 bytes and more, the longest first: four lanes, then what is left of 32."""
    lanes = [hashes + _P1 + _P2, hashes + _P2, hashes.copy(), hashes - _P1]
    blocks, scratch = lengths >> 5, np.empty_like(hashes)
    for n in range(int(blocks[0])):
        count = int(np.searchsorted(-blocks, -n, side="left"))  # those with more than n
        for number, lane in enumerate(lanes):
            part = lane[:count]
            part += values.read(at[:count] + (32 * n + 8 * number)) * _P2
            _rotate(part, 31, scratch[:count])
            part *= _P1
    hashes[:] = 0
    for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True):
        turned = lane.copy()
        _rotate(turned, bits, scratch)
        hashes += turned
    for lane in lanes:
        lane *= _P2
        _rotate(lane, 31, scratch)
        lane *= _P1
        hashes ^= lane
        hashes *= _P1
        hashes += _P4
    hashes += lengths.view(_U64)
    left = lengths & 31
    order = _longest_first(left)
    some = hashes[order]
    _add_tails(some, values, (at + (blocks << 5))[order], left[order])
    hashes[order] = some


def _add_tails(hashes: Hashes, values: _Bytes, at: np.ndarray, left: np.ndarray) -> None:
    """Less than 32 bytes of each value, the longest first; and the end of its hash."""
    scratch, at = np.empty_like(hashes), at.copy()
    for n in range(int(left[0]) >> 3):
        count = int(np.searchsorted(-(left >> 3), -n, side="left"))
        part = hashes[:count]
        word = values.read(at[:count])
        at[:count] += 8
        word *= _P2
        _rotate(word, 31, scratch[:count])
        word *= _P1
        part ^= word
        _rotate(part, 27, scratch[:count])
        part *= _P1
        part += _P4
    ends = np.append(np.flatnonzero(np.diff(left)) + 1, len(left))
    rest, start = values.read(at), 0
    for end in ends.tolist():
        _add_rest(hashes[start:end], rest[start:end], int(left[start]) & 7, scratch[start:end])
        start = end
    _avalanche(hashes, scratch)


def _add_rest(hashes: Hashes, rest: np.ndarray, count: int, scratch: np.ndarray) -> None:
    """The last bytes of values of one length: four at once, then one by one."""
    if count & 4:
        hashes ^= (rest & _LOW_HALF) * _P1
        _rotate(hashes, 23, scratch)
        hashes *= _P2
        hashes += _P3
        rest >>= _U64(32)
    for _ in range(count & 3):
        hashes ^= (rest & _LOW_BYTE) * _P5
        _rotate(hashes, 11, scratch)
        hashes *= _P1
        rest >>= _U64(8)


def _rotate(words: np.ndarray, bits: int, scratch: np.ndarray) -> None:
    """Rotate words to the left, in place."""
    np.right_shift(words, _U64(64 - bits), out=scratch)
    words <<= _U64(bits)
    words |= scratch


def _avalanche(hashes: Hashes, scratch: np.ndarray) -> None:
    """The end of each hash."""
    for bits, prime in ((33, _P2), (29, _P3), (32, None)):
        np.right_shift(hashes, _U64(bits), out=scratch)
        hashes ^= scratch
        if prime is not None:
            hashes *= prime
