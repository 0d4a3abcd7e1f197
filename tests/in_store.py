"""Run the Spark and fault suites with their tables in an object store (`make test-store`).

A pytest process for each file, two at a time, each with its own broker, Spark and store: what
takes one of them away spoils one line of the result. The faults are the whole catalogue, as in
`make test-faults`, but for ledgers in a database, which are in no store.

What stands in for Azure's and Google's stores keeps no objects as files: tests that look at such,
or damage them, are skipped there, and say so.

Usage: python -m tests.in_store [s3|azure|google] [FILE ...] [PYTEST_OPTION ...]
"""

from __future__ import annotations

import os
import sys

from tests.__main__ import ROOT, main

STORES = ("s3", "azure", "google")
FAULTS = ("-m", "", "-k", "not airflow")
"""Options for tests/faults."""


def files() -> list[str]:
    """All test files of both suites, by their paths in the repository."""
    found = (path for suite in ("spark", "faults") for path in (ROOT / "tests" / suite).glob("*"))
    return sorted(str(p.relative_to(ROOT)) for p in found if p.name.startswith("test_"))


def parts(chosen: list[str]) -> dict[str, tuple[str, ...]]:
    """Each file with its options, by its name."""
    return {
        file.removeprefix("tests/").removesuffix(".py"): (
            *(FAULTS if file.startswith("tests/faults/") else ()),
            file,
        )
        for file in chosen
    }


if __name__ == "__main__":
    given = sys.argv[1:]
    store = given.pop(0) if given and given[0] in STORES else "s3"
    os.environ["TIDELINE_TEST_STORE"] = store
    chosen = [argument for argument in given if argument.startswith("tests/")]
    options = [argument for argument in given if argument not in chosen]
    sys.exit(main(options, parts(chosen or files())))
