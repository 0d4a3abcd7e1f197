"""What Debezium writes for a value that it was not told: `spark.unset` over Arrow's columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.folding.arrow.hashing import is_valid
from tideline.model.placeholders import NO_TEXT, NOT_TOLD


def is_unset(column: pa.Array, kind: object) -> np.ndarray:
    """Whether each value is null, or may stand for one that was not told.

    Args:
        column: Of typed rows, or of a struct inside of one.
        kind: The column's type, as Delta and Spark write it in JSON.
    """
    is_null = ~is_valid(column)
    if isinstance(kind, Mapping) and kind["type"] == "struct":
        fields = kind["fields"]
        assert isinstance(fields, list | tuple)
        parts = zip(column.flatten(), fields, strict=True)
        unset = (is_unset(part, field["type"]) for part, field in parts)
        return np.asarray(is_null | reduce(and_, unset, np.ones(len(column), bool)))
    if isinstance(kind, Mapping):
        size = pc.list_value_length(column) if kind["type"] == "array" else _sizes(column)
        return np.asarray(is_null | _is(pc.equal(size, 0)))
    found: np.ndarray = is_null | _is(pc.is_in(column, value_set=_fixed(column.type, str(kind))))
    return found | _is(pc.match_substring_regex(column, NO_TEXT)) if kind == "string" else found


def _fixed(arrow_type: pa.DataType, kind: str) -> pa.Array:
    if kind in NOT_TOLD:
        return pa.array(NOT_TOLD[kind], arrow_type)
    if kind in ("double", "float"):
        return pa.array([0.0, -0.0], arrow_type)
    if kind == "date":
        return pa.array([0], pa.int32()).cast(arrow_type)
    return (
        pa.array([0], pa.int64()).cast(arrow_type)
        if kind.startswith("timestamp")
        else pa.array([0], arrow_type)
    )


def _sizes(column: pa.Array) -> pa.Array:
    """How many pairs each map has."""
    return pa.array(np.diff(np.asarray(column.offsets)))


def _is(found: pa.Array) -> np.ndarray:
    """A mask; null is no."""
    return np.asarray(pc.fill_null(found, False))
