"""Whether what was written has the table's types: Parquet's files do not ask.

A reader that casts hides a file whose column is of another type; Spark fails at it, long after the
commit. A file may lack columns, and fields inside of them: they are null there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tideline.errors import VerificationFailed
from tideline.model.wording import first_few
from tideline.table.schema import Field, TableChange
from tideline.table.written_files import WrittenFile

ARROW_TYPES: Mapping[str, tuple[pa.DataType, ...]] = {
    "boolean": (pa.bool_(),),
    "byte": (pa.int8(),),
    "short": (pa.int16(),),
    "integer": (pa.int32(),),
    "long": (pa.int64(),),
    "float": (pa.float32(),),
    "double": (pa.float64(),),
    "string": (pa.string(), pa.large_string()),
    "binary": (pa.binary(), pa.large_binary()),
    "date": (pa.date32(),),
    "timestamp": (pa.timestamp("us", "UTC"), pa.timestamp("ns")),
    "timestamp_ntz": (pa.timestamp("us"),),
}
"""Delta's types, as Arrow reads them in a file, Arrow's own first; INT96 has nanoseconds and no
zone."""


def refuse_other_types(
    change: TableChange, columns: Iterable[Field], files: Sequence[WrittenFile]
) -> None:
    """Hold the columns in the footers against those of the table.

    Raises:
        VerificationFailed: One has another type.
    """
    wanted = {column["name"]: column["type"] for column in columns}
    for file in files:
        if other := [*_others(wanted, file.types)]:
            raise VerificationFailed(
                f"{change.commit_id}: data file {file.path} has other types than the table:"
                f" {first_few(other, 3)}; nothing was committed. Report it",
                commit_id=change.commit_id,
            )


def _others(wanted: Mapping[str, Any], found: pa.Schema | pa.StructType) -> Iterator[str]:
    for field in found:
        kind = wanted.get(field.name)
        if kind is not None and not _is_alike(kind, field.type):
            yield f"{field.name} {field.type}"


def _is_alike(kind: Any, found: pa.DataType) -> bool:
    if isinstance(kind, str):
        if kind.startswith("decimal("):
            precision, scale = map(int, kind[8:-1].split(","))
            return bool(found == pa.decimal128(precision, scale))
        return (
            kind not in ARROW_TYPES or found in ARROW_TYPES[kind]
        )  # a VARIANT is a struct of its own
    if kind["type"] == "array":
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
        return is_list and _is_alike(kind["elementType"], found.value_type)
    if kind["type"] == "map":
        keys, values = kind["keyType"], kind["valueType"]
        is_map = pa.types.is_map(found) and _is_alike(keys, found.key_type)
        return is_map and _is_alike(values, found.item_type)
    inner = {field["name"]: field["type"] for field in kind["fields"]}
    return pa.types.is_struct(found) and not any(_others(inner, found))
