"""The slow tests as pytest processes, three at once, a file each (`make test-faults`).

Every test of the fault catalogue and every crash, then the slow tests of other suites: some four
hours on two cores. Options as of `python -m tests`. The variable PARTS names files, as the first
column of the output has them: what was cut off goes on with the rest.

Usage: [PARTS="crash_spark crash_ways"] python -m tests.slow [PYTEST_OPTION ...]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from tests.__main__ import ROOT, main

_MARK = "mark.slow"
_SUITES = ("unit", "property", "dags", "integration", "page", "spark", "e2e")
_HISTORIES = ("tests/simulation/test_rules_out.py", "tests/simulation/test_ways_out.py")


def parts() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each file's name, and what pytest is given for it."""
    for path in sorted((ROOT / "tests" / "faults").glob("test_*.py")):
        yield path.stem.removeprefix("test_"), (f"tests/faults/{path.name}", "-m", "")
    others = [path for suite in _SUITES for path in (ROOT / "tests" / suite).glob("test_*.py")]
    others += [ROOT / name for name in _HISTORIES]
    for path in sorted(path for path in others if _MARK in path.read_text()):
        name = f"{path.parent.name}-{path.stem.removeprefix('test_')}"
        yield name, (str(path.relative_to(ROOT)), "-m", "slow")


def chosen(names: str) -> dict[str, tuple[str, ...]]:
    """The parts of those names, with spaces between them; all without any.

    Raises:
        SystemExit: There is no such part.
    """
    there = dict(parts())
    if unknown := sorted({*names.split()} - {*there}):
        sys.exit(f"PARTS: got {unknown[0]!r}; allowed: {', '.join(there)}")
    return {name: there[name] for name in names.split()} or there


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], chosen(os.environ.get("PARTS", ""))))
