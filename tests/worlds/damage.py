"""Data files that something has spoiled."""

import pyarrow.parquet as pq


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
