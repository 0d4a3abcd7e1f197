"""Run the suite as pytest processes, three at once (`make test`).

Each has its own broker and its own Spark. Tests wait half of their time, for a broker's answer or
a JVM's start, so three keep two cores busy; whichever is done first takes the next part. Every
line of output carries its part's name. The last lines: one for each test that failed, one for each
part, the total. Each part names its slowest tests, and keeps what each test took in
`.test-results/PART.xml` (JUnit's format).

Usage: python -m tests [PYTEST_OPTION ...]
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COMMANDS = ("tests/e2e/test_command_line.py", "tests/e2e/test_decisions_from_a_shell.py")
"""The end-to-end tests that need no Airflow: there they would make the longest part longer."""
FOLDS = tuple(
    f"tests/spark/test_{name}.py"
    for name in (
        *("current", "current_damage", "current_order", "current_views"),
        *("fuzz", "hashes", "sweeping"),
    )
)
"""Half of the Spark suite."""
AT_ONCE = 3
"""Two leave a third of two cores idle; with more, time-outs would be met."""
PARTS = {
    "spark": ("tests/spark", *(f"--ignore={file}" for file in FOLDS)),
    "ledger": ("tests/integration", "tests/page"),
    "airflow": ("tests/e2e", *(f"--ignore={file}" for file in COMMANDS)),
    "faults": ("tests/faults", *COMMANDS),
    "folds": FOLDS,
    "histories": (
        *("tests/property", "tests/dags", "tests/simulation"),
        *("tests/steps", "tests/canary"),
    ),
    "rules": ("tests/unit",),
}
"""The longest first, so that all end together."""
PURPOSES = {
    "airflow": "Dag runs, approvals, backfills and redrives under a real Airflow",
    "spark": "what only Spark can answer: a landing, a replay, a decoding, drivers, connections",
    "folds": "the current table: folds in any portions, views, sweeps, random histories",
    "faults": "each fault of the catalogue, and crashes; commands as a shell sees them",
    "ledger": "Kafka, registry, both ledgers, migrations; who may read which route of the page",
    "rules": "rules and values; secrets; the house itself",
    "histories": "Dags as parsed; folds, runs' steps and histories over memory",
}
"""What each part is for."""
RESULTS = ".test-results"
_ALWAYS = ("--durations=15",)
_SUMMARY = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+) in [\d.:]+s")
_FAILED = ("failed", "error", "errors")


def main(options: list[str], parts: Mapping[str, Sequence[str]] | None = None) -> int:
    """Run all parts.

    Args:
        options: Given to pytest in every part.
        parts: What to run, by name; the whole suite if None.

    Returns:
        0 if every part passed, else 1.
    """
    parts = parts or PARTS
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda name: run_part(name, options, parts[name]), parts))
    for line in (line for result in results for line in result.failures):
        print(line)
    for name, result in zip(parts, results, strict=True):
        print(f"{name}: {result.summary}")
    status, total = combine(results)
    print(total)
    return status


class PartResult(NamedTuple):
    """How one part ended: pytest's exit status, its last line, its lines on tests that failed."""

    status: int
    summary: str
    failures: tuple[str, ...] = ()


def run_part(name: str, options: list[str], part: Sequence[str]) -> PartResult:
    """Run one part: options of pytest's, and files and folders of those that are there."""
    chosen = [a for a in part if not a.startswith("tests/") or (ROOT / a).exists()]
    cache = f"cache_dir=.pytest_cache/{name}"
    junit = f"--junitxml={RESULTS}/{name}.xml"
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-o", cache, *_ALWAYS, junit, *options, *chosen],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    last = "pytest said nothing"
    failures: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        print(f"[{name}] {line}", end="", flush=True)
        last = line.strip() or last
        failures += [last] if line.startswith(("FAILED ", "ERROR ")) else []
    return PartResult(process.wait(), last, tuple(failures))


def combine(results: list[PartResult]) -> tuple[int, str]:
    """One exit status and one line for several parts.

    A part that ended without a summary, or badly in spite of it, counts as one failure.
    """
    counts: Counter[str] = Counter()
    for status, line, _ in results:
        summary = _SUMMARY.match(line)
        found = read_counts(summary[1]) if summary else Counter()
        if status and not any(found[word] for word in _FAILED):
            found["failed"] += 1
        counts += found
    failed = sum(counts[word] for word in _FAILED)
    is_well = failed == 0 and all(result.status == 0 for result in results)
    return int(not is_well), f"total: {counts['passed']} passed, {failed} failed"


def read_counts(summary: str) -> Counter[str]:
    """`3 failed, 12 passed` as numbers by word."""
    parts = (part.split() for part in summary.split(", "))
    return Counter({word: int(number) for number, word in parts})


def described() -> str:
    """What this is, and what each part is for."""
    width = max(map(len, PURPOSES))
    lines = (f"  {name:{width}}  {purpose}" for name, purpose in PURPOSES.items())
    return "\n".join([(__doc__ or "").strip(), "", "Parts:", *lines])


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv[1:]}:
        print(described())
    else:
        sys.exit(main(sys.argv[1:]))
