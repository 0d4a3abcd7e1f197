"""A stream's own change of the typed rows, before they are written."""

from __future__ import annotations

from importlib import import_module

from pyspark.sql import DataFrame

from tideline.errors import BadInput, VerificationFailed
from tideline.spark.transforms import Transform


def own_transform(name: str) -> Transform:
    """Run a function over typed rows; it may change values, and neither columns nor rows.

    Args:
        name: `module:function`, importable where Spark's driver runs.

    Raises:
        BadInput: It cannot be imported, or returns other columns.
    """
    module, _, function = name.partition(":")
    try:
        change = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise BadInput(
            f"decode.transform: {name} cannot be imported by Spark's driver: {error}; install its"
            " module there, or put its folder on PYTHONPATH"
        ) from error

    def transform(rows: DataFrame) -> DataFrame:
        changed: DataFrame = change(rows)
        expected = [(f.name, f.dataType.simpleString()) for f in rows.schema.fields]
        actual = {f.name: f.dataType.simpleString() for f in changed.schema.fields}
        wrong = [f"{n} {kind}" for n, kind in expected if actual.pop(n, None) != kind]
        if wrong or actual:
            raise BadInput(
                f"decode.transform: {name} has to return the columns that it is given:"
                f" {', '.join(wrong) or 'none'} missing or of another type,"
                f" {', '.join(actual) or 'none'} too many"
            )
        return changed.select(*rows.columns)

    return transform


def refuse_other_rows(name: str | None, given: int, written: int) -> None:
    """Hold the rows that were written against those that were decoded.

    Raises:
        VerificationFailed: The function has dropped rows, or added some.
    """
    if given != written:
        raise VerificationFailed(
            f"decode.transform: {name} has made {written} rows of {given}; it has to keep each row"
            " and its coordinates; nothing was committed"
        )
