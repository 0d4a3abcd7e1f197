"""Prove the wheel: `python -m tests.wheel [--python 3.13] [--airflow 3.3.2]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.wheel.building import ROOT, build_wheel, previous
from tests.wheel.proof import Proof
from tests.wheel.venvs import Venv, constraints

PYTHONS = ("3.11", "3.12", "3.13")
AIRFLOWS = ("3.2.0", "3.3.2")
"""The lowest of the range in pyproject.toml, and the newest there is."""


class Case(NamedTuple):
    """What to install.

    Args:
        python: `3.13`, or the path of an interpreter.
        airflow: Version of Airflow.
        lowest: Whether to take the lowest version of everything that pyproject.toml names.
    """

    python: str
    airflow: str
    lowest: bool = False

    def __str__(self) -> str:
        lowest = ", lowest of everything" if self.lowest else ""
        return f"Python {self.python}, Airflow {self.airflow}{lowest}"


def prove(case: Case) -> None:
    """Install everything afresh, and prove it.

    Raises:
        AssertionError: Something is not as it should be.
    """
    with tempfile.TemporaryDirectory(prefix="tideline-wheel-") as place:
        folder = Path(place)
        wheel, before = build_wheel(folder / "copy"), previous(folder / "previous")
        venv = Venv.fresh(folder / "venv", case.python)
        wanted: Sequence[str | Path] = [wheel, f"apache-airflow=={case.airflow}"]
        chosen = ("--resolution", "lowest-direct") if case.lowest else ()
        if case.lowest:  # what the wheel asks for is direct only if it is named here as well
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            wanted = [*wanted, *project["dependencies"]]
        venv.install(*chosen, "--constraints", constraints(case.airflow, folder), *wanted)
        venv.install("--no-deps", before.wheel)
        proof = Proof(venv, folder)
        try:
            proof.upgrade(wheel, before)
            proof.run_commands()
            proof.parse_dags()
            proof.run_dag()
            proof.serve_page()
        finally:
            proof.close()


def main() -> int:
    """Prove one case, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheel", description=__doc__)
    parser.add_argument("--python", help="3.13, or the path of an interpreter")
    parser.add_argument("--airflow", help="a version")
    parser.add_argument("--lowest", action="store_true", help="the lowest of every range")
    asked = parser.parse_args()
    pythons = (asked.python,) if asked.python else PYTHONS
    airflows = (asked.airflow,) if asked.airflow else AIRFLOWS
    for python, airflow in product(pythons, airflows):
        case, began = Case(python, airflow, asked.lowest), time.monotonic()
        print(f"{case}: installing", file=sys.stderr, flush=True)
        prove(case)
        print(f"{case}: proven in {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
