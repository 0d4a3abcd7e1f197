"""Rows of the raw table made by hand, and data files as Spark leaves them."""

from datetime import UTC, datetime
from posixpath import relpath

import pyarrow as pa
import pyarrow.parquet as pq

from tests.worlds.build import ID
from tideline.documents import dump
from tideline.table.written_files import Manifest

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
LOG = [
    ("topic_id", pa.string()),
    ("generation", pa.int32()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", "UTC")),
]
"""Columns that raw rows and typed ones have."""
SCHEMA = pa.schema(
    [
        *LOG,
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("plan_id", pa.string()),
    ]
)


def raw_row(offset, value=b"x", **others):
    """A row as a run lands it; other columns than those given and these are null."""
    row = {"topic_id": ID, "generation": 0, "topic": "orders", "partition": 0, "offset": offset}
    return {**row, "timestamp": AT, "timestamp_type": 0, "value": value, "plan_id": "p", **others}


def raw_rows(offsets, **others):
    """Rows at several offsets."""
    return pa.Table.from_pylist([raw_row(offset, **others) for offset in offsets], SCHEMA)


def write_files(root, folder, rows, partition_by=("topic_id",), schema=SCHEMA):
    """Write rows, a file for each value of the partition columns; the paths below the table."""
    groups: dict[tuple, list] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in partition_by), []).append(row)
    kept = pa.schema([field for field in schema if field.name not in partition_by])
    files = []
    for number, (values, group) in enumerate(groups.items()):
        parts = [f"{name}={value}" for name, value in zip(partition_by, values, strict=True)]
        files.append("/".join([folder, *parts, f"part-{number}.parquet"]))
        (root / files[-1]).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(group, kept), root / files[-1])
    return files


def name_files(root, folder, files):
    """The manifest of an attempt names these files."""
    (root / folder).mkdir(parents=True, exist_ok=True)
    named = Manifest(tuple(relpath(file, folder) for file in files))
    (root / folder / "_files.json").write_text(dump(named))
