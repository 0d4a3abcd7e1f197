"""A file has the table's types, or is not committed."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tideline.errors import VerificationFailed
from tideline.table.schema import TableChange, delta_field
from tideline.table.written_files import read_footer
from tideline.table.written_types import refuse_other_types

CHANGE = TableChange("l", "plan", "run", 1, ())
ROW = {"type": "struct", "fields": [delta_field("a", "long"), delta_field("b", "string")]}
TAGS = {"type": "array", "elementType": "string", "containsNull": True}
PAIRS = {"type": "map", "keyType": "string", "valueType": ROW, "valueContainsNull": True}
UTC_MICROS = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("kind", "written", "is_alike"),
    [
        ("string", pa.string(), True),
        ("string", pa.bool_(), False),
        ("string", pa.int64(), False),
        ("long", pa.int64(), True),
        ("long", pa.int32(), False),
        ("double", pa.float32(), False),
        ("date", pa.date32(), True),
        ("timestamp", UTC_MICROS, True),
        ("timestamp", pa.timestamp("us"), False),
        ("timestamp_ntz", UTC_MICROS, False),
        ("decimal(38,2)", pa.decimal128(38, 2), True),
        ("decimal(38,2)", pa.decimal128(38, 3), False),
        ("binary", pa.string(), False),
        (TAGS, pa.list_(pa.string()), True),
        (TAGS, pa.list_(pa.int64()), False),
        (TAGS, pa.string(), False),
        (ROW, pa.struct([("a", pa.int64()), ("b", pa.string())]), True),
        (ROW, pa.struct([("a", pa.int64())]), True),
        (ROW, pa.struct([("a", pa.string())]), False),
        (PAIRS, pa.map_(pa.string(), pa.struct([("b", pa.string())])), True),
        (PAIRS, pa.map_(pa.string(), pa.struct([("b", pa.bool_())])), False),
        ("variant", pa.struct([("metadata", pa.binary()), ("value", pa.binary())]), True),
    ],
)
def test_a_column_of_another_type_is_refused(tmp_path, kind, written, is_alike):
    """Whoever casts would hide it; Spark fails at such a file for good."""
    pq.write_table(pa.table({"c": pa.nulls(1, written)}), tmp_path / "f.parquet")
    store = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    file = read_footer(store, "f.parquet")
    columns = [delta_field("c", kind), delta_field("later", "string")]
    if is_alike:
        refuse_other_types(CHANGE, columns, [file])
        return
    with pytest.raises(VerificationFailed, match="has other types") as refused:
        refuse_other_types(CHANGE, columns, [file])
    assert "data file f.parquet" in str(refused.value)
