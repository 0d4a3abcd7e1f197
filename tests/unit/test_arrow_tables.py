"""Arrow columns as numpy arrays, without pandas."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tideline.table.arrays import booleans, integers

LONG = pa.array([1, -2, 2**62, 4], pa.int64())


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([LONG]),
        pa.chunked_array([LONG.slice(1, 2)]),
        pa.chunked_array([LONG.slice(3), LONG.slice(0, 0), LONG]),
        pa.chunked_array([LONG.slice(0, 0)]),
        pa.chunked_array([], pa.int64()),
        pa.chunked_array([pa.array([1, None], pa.int64())]),
        pa.chunked_array([pa.array([1, 2], pa.int32())]),
    ],
)
def test_integers_are_those_of_pyarrow(column):
    found, expected = integers(column), column.to_numpy()
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=True)


def test_booleans_are_a_mask():
    mask = booleans(pa.chunked_array([[True, False], [True]]))
    assert mask.dtype == bool
    assert mask.tolist() == [True, False, True]


def test_neither_imports_pandas():
    """That would take longer than all that is done with the numbers."""
    program = """
import sys
import pyarrow as pa
from tideline.delta.delta_io import from_columns
from tideline.table.arrays import booleans, integers
schema = pa.schema([("offset", pa.int64()), ("is_in", pa.bool_())])
table = from_columns({"offset": [4, 5], "is_in": [True, False]}, schema)
assert integers(table.column("offset")).tolist() == [4, 5]
assert booleans(table.column("is_in")).tolist() == [True, False]
assert "pandas" not in sys.modules
"""
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "plugins")}
    subprocess.run([sys.executable, "-c", program], env=path, check=True)
