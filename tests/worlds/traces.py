"""Whether a text or a number is anywhere in a folder: in names, bytes, and in Parquet's values."""

import gzip
import io
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.worlds.streams import folder_of
from tideline.stream.stream import tables_of


def traces_of(stream, *needles):
    """As `traces_in`, of all tables of a stream and its ledger; in a store, of its objects."""
    places = [*tables_of(stream).values(), stream.ledger_location.address]
    return [path for uri in places for path in traces_in(folder_of(uri), *needles)]


def traces_in(folder, *needles):
    """The files below a folder with one of the needles: texts; whole numbers as Parquet has them.

    A Parquet file is read as bytes, with its statistics, and value by value.
    """
    found = []
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        if has_trace(path.read_bytes(), *needles) or _says(str(path), needles):
            found.append(str(path))
    return found


def has_trace(data, *needles):
    """Whether bytes hold one of the needles, also where they are compressed."""
    forms = [bytes(form) for needle in needles for form in _forms(needle)]
    texts = [str(n).encode() for n in needles]
    if data[:4] == b"PAR1":
        parquet = pq.ParquetFile(io.BytesIO(data))
        if any(form in data for form in forms):
            return True
        return any(
            any(text in repr(value).encode() for text in texts)
            for column in parquet.read().columns
            for value in _values(column)
        )
    for unpack in (gzip.decompress, zlib.decompress):
        try:
            data = unpack(data)
        except (OSError, zlib.error, EOFError):
            continue
    return any(text in data for text in texts)


def _values(column):
    if pa.types.is_list(column.type) or pa.types.is_struct(column.type):
        return column.to_pylist()
    return column.unique().to_pylist()


def _forms(needle):
    yield str(needle).encode()
    if isinstance(needle, int):
        yield struct.pack("<q", needle)


def _says(text, needles):
    return any(str(n) in text for n in needles)
