"""docs/benchmarks.md out of the timings: generated, never typed."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from bench.comparisons import A_A_TRIES, COMPARISONS, Comparison
from bench.pairs import estimate
from bench.results import Results
from bench.shapes import SHAPES
from bench.tables import Table

_PACKAGES = ("pyspark", "deltalake", "pyarrow", "confluent-kafka", "kafka-python")
_FIRST = (
    *("Typed tables", "Typed tables, land and decode"),
    *("Cold, by the size of the batch", "A run of 10,000 records", "The share of each lever"),
    *("A run in Airflow", "An idle run in Airflow"),
)
"""Titles of what people meet: they stand first."""
_HEAD = """# Benchmarks

Written by `make bench`; what was not measured again stays, with its date. First what typed tables
cost, which is what people query; then what a run costs as it comes, with no setting and no server
started by hand; then one warm engine against another. [Earlier figures](history/benchmarks.md).

"""
_AGAINST = """
## Against others

Ratios are `time(other) / time(ours)`, so above 1 ours is faster. Each is
the median over pairs that ran right after each other in random ABBA order, with a 95 % bootstrap
interval. *Noise* is our side timed against itself on that shape: outside of 0.95 to 1.05 the line
is not conclusive. All sides are warm and land in a new table each time. Ours goes to the warm
driver that every run has, AvailableNow to a session that is kept open, both with a heap of 1 GiB;
those without Spark have a process of their own, timed from when it is loaded.

"""


def write_report(results: Results, target: Path) -> None:
    """Write every table that was made and every comparison that was timed; the others stay."""
    sections = _sections(target.read_text()) if target.exists() else {}
    for date, table in results.tables().values():
        sections |= _sections("".join(_shown_table(date, table)))
    if timed := [c for c in COMPARISONS.values() if results.pairs(c.name)]:
        lines = ["| work | shape | ours | ratio, interval | noise | pass | aim | verdict |\n"]
        lines += ["|---|---|---|---|---|---|---|---|\n", *(_line(c, results) for c in timed)]
        sections |= _sections(_AGAINST + "".join(lines))
    titles = [t for t in _FIRST if t in sections]
    titles += [t for t in sections if t not in titles]
    head = f"{_HEAD}{datetime.now(UTC):%Y-%m-%d}; {_machine()}.\n"
    target.write_text(head + "".join(sections[title] for title in titles))


def _sections(text: str) -> dict[str, str]:
    """The text of each section, heading included, by its title."""
    parts = text.split("\n## ")[1:]
    return {part.partition("\n")[0]: f"\n## {part.rstrip()}\n" for part in parts}


def _shown_table(date: str, table: Table) -> list[str]:
    return [f"\n## {table.title}\n\n{table.note} {date}.\n\n", *table_lines(table)]


def table_lines(table: Table) -> list[str]:
    """The lines of a table, head first."""
    head = f"| {' | '.join(table.head)} |\n|{'---|' * len(table.head)}\n"
    return [head, *(f"| {' | '.join(row)} |\n" for row in table.rows)]


def _line(comparison: Comparison, results: Results) -> str:
    ours, others = results.seconds(comparison.name)
    found = estimate(ours, others)
    shape = SHAPES[comparison.shape]
    noise = [
        estimate(*results.seconds(name))
        for name in map(comparison.noise, range(A_A_TRIES))
        if results.pairs(name)
    ]
    seconds = median(ours)
    speed = f"{seconds:.2f} s, {shape.records / seconds / 1000:.0f} k/s"
    cells = [
        comparison.title,
        f"{shape.name} ({shape.records:,} x {shape.value_bytes} B)",
        speed,
        str(found),
        ", ".join(f"{n.ratio:.2f}" for n in noise) or "not timed",
        _shown(comparison.passes),
        _shown(comparison.aim),
        _verdict(comparison, found.ratio, bool(noise) and noise[-1].is_even),
    ]
    return f"| {' | '.join(cells)} |\n"


def _verdict(comparison: Comparison, ratio: float, is_even: bool) -> str:
    if not is_even:
        return "inconclusive"
    if comparison.passes is None or comparison.aim is None:
        return "published"
    if ratio >= comparison.aim:
        return "aim"
    return "pass" if ratio >= comparison.passes else "miss"


def _shown(target: float | None) -> str:
    return "" if target is None else f"{target:.2f}"


def _machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()},"
        f" Python {platform.python_version()}; {packages}"
    )


def write_between(page: Path, module: str, table: Table) -> None:
    """Write a table into a page, between the two comments that name a module."""
    begin, end = (f"<!-- {module}: {word} -->" for word in ("begin", "end"))
    head, rest = page.read_text().split(begin)
    tail = rest.split(end)[1]
    lines = "".join([f"{table.note}\n\n", *table_lines(table)])
    page.write_text(f"{head}{begin}\n{lines}{end}{tail}")
