"""Data files that something has spoiled."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.delta.delta_io import files_of

_FOOTER_BYTES = 64 * 1024


def spoil_page(file):
    """Other bytes in a page of the first column: the footer still tells of all rows."""
    data, column = (
        bytearray(file.read_bytes()),
        pq.ParquetFile(file).metadata.row_group(0).column(0),
    )
    end = column.data_page_offset + column.total_compressed_size
    if column.dictionary_page_offset is not None:
        end = column.dictionary_page_offset + column.total_compressed_size
    data[end - 12 : end] = bytes(12)
    file.write_bytes(data)


class Breaking:
    """A folder's files whose columns end before their first byte, as often as it is said.

    Args:
        times: How many opened files; their footers come.
    """

    def __init__(self, folder, times):
        self._folder, self._times = folder, times

    def open_input_file(self, path):
        """As Arrow's file systems do."""
        self._times -= 1
        return pa.PythonFile(_Cut(self._folder / path, self._times >= 0), mode="r")

    def __getattr__(self, name):
        return getattr(files_of(str(self._folder), {}), name)


class _Cut(io.RawIOBase):
    def __init__(self, path, is_cut):
        super().__init__()
        self._file, self._size = path.open("rb"), path.stat().st_size
        self._cut = self._size - _FOOTER_BYTES if is_cut else 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        return self._file.seek(offset, whence)

    def tell(self):
        return self._file.tell()

    def size(self):
        return self._size

    def read(self, size=-1):
        return b"" if self.tell() < self._cut else self._file.read(size)

    def close(self):
        self._file.close()
        super().close()
