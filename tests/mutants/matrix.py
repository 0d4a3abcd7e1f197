"""The kill matrix: what the light suites notice of each mutant (`make kill-matrix`).

First the suites run once, unchanged, and each test's lines are recorded. Then each mutant meets
those tests that execute what it changes, in a fork of a process that has collected all of them; a
change of what an import makes is tried in a process of its own. Two mutants at a time.

What was found is kept in `.kill-matrix`, line by line: a run that was cut goes on there. Remove the
folder to begin anew. `tests/mutants/matrix.tsv` is written from it.

Usage: python -m tests.mutants.matrix [--minutes N] [WORD ...]
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import FunctionType

import pytest

from tests.mutants import MUTANTS
from tests.mutants.copies import ROOT, enter, make_copy, start
from tests.mutants.mutant import PACKAGE, Mutant
from tests.mutants.reach import COLLECTING, Reach, Recorder, Sources, tests_for
from tests.mutants.swapping import functions_of, swap

PARTS = (("unit", "property", "steps"), ("simulation", "dags"))
"""The light suites, the cheap ones first; a part is run by one process."""
LEVELS = tuple(level for part in PARTS for level in part)
STATE = ROOT / ".kill-matrix"
TABLE = Path(__file__).with_name("matrix.tsv")
OPTIONS = ("-q", "--tb=line", "--no-header", "-p", "no:cacheprovider", "--timeout=600")
DEAR = PARTS[-1]
"""In these one failure ends the level; in the others every file says for itself what it notices."""
SECONDS = 1500
"""For all tests of one mutant; a mutant that takes longer is told as `time limit`."""
AT_ONCE = 2


class Judge:
    """Runs chosen tests, in each file until one fails.

    Args:
        order: Ids of the tests, in the order in which they run.
        answer: Where the first failure of each file is written, as it comes.
    """

    def __init__(self, order: list[str], answer: Path) -> None:
        self.order = {test: place for place, test in enumerate(order)}
        self.answer = answer
        self.over: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of all tests."""
        chosen = [item for item in session.items if item.nodeid in self.order]
        for item in sorted(chosen, key=lambda item: self.order[item.nodeid]):
            if not {file_of(item.nodeid), level_of(item.nodeid)} & self.over:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A failure, in the test or around it."""
        if report.failed:
            self._note(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot even be imported."""
        if report.failed:
            self._note(report.nodeid)

    def _note(self, test: str) -> None:
        if file_of(test) not in self.over:
            with self.answer.open("a") as answer:
                answer.write(json.dumps(test) + "\n")
        self.over.add(level_of(test) if level_of(test) in DEAR else file_of(test))


class Server:
    """A plugin of pytest that tries mutants in forks of a process that has collected all tests.

    Args:
        mutants: All of them; their numbers come out of `queue`.
        queue: A pipe with four bytes a number, shared by all servers.
        copy: To be changed.
        bench: What a trial needs to know.
        end: When to begin no further one.
    """

    def __init__(
        self, mutants: list[Mutant], queue: int, copy: Path, bench: Bench, end: float
    ) -> None:
        self.mutants = mutants
        self.queue = queue
        self.copy = copy
        self.bench = bench
        self.end = end
        self.parent = os.getpid()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of all tests."""
        functions = functions_of("tideline")
        gc.freeze()  # or each fork would copy what the collector touches
        while time.monotonic() < self.end and os.getppid() == self.parent:
            if not (turn := os.read(self.queue, 4)):
                break
            mutant = self.mutants[int.from_bytes(turn, "big")]
            Trial(mutant, self.bench, self.copy).in_fork_of(session, functions)
        return True


def file_of(test: str) -> str:
    """`tests/unit/test_x.py` of a test's id."""
    return test.partition("::")[0]


def level_of(test: str) -> str:
    """`unit` of a test's id."""
    return test.split("/")[1]


@dataclass
class Row:
    """What was found out about one mutant, in one part or in all.

    Args:
        check: The mutant's name.
        digest: Of the mutant; one that was rewritten is tried anew.
        file: The module that it changes.
        reached: Tests that execute what it changes, by level; only of levels that were tried.
        killers: The first test that failed, by file.
        seconds: How long that took.
        is_over: Whether all tests ran in time.
    """

    check: str
    digest: str
    file: str
    reached: dict[str, int]
    killers: dict[str, str]
    seconds: float
    is_over: bool

    def first(self, level: str) -> str | None:
        """The first test of a level that failed."""
        found = [test for test in self.killers.values() if level_of(test) == level]
        return found[0] if found else None

    @property
    def cells(self) -> list[str]:
        """Level by level: the test that noticed, or why there is none."""
        return [self.first(level) or self._without(level) for level in LEVELS]

    def joined(self, other: Row) -> Row:
        """With what was found out in another part."""
        return replace(
            self,
            reached=self.reached | other.reached,
            killers=self.killers | other.killers,
            seconds=self.seconds + other.seconds,
            is_over=self.is_over and other.is_over,
        )

    def _without(self, level: str) -> str:
        if level not in self.reached:
            return "not tried"
        if not self.reached[level]:
            return "not reached"
        return "survives" if self.is_over else "time limit"


class Matrix:
    """A run of it, which may go on with an earlier one.

    Args:
        state: The folder with what is known.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        self.results = state / "results.jsonl"
        self.told = 0

    def record(self, part: Sequence[str]) -> Reach:
        """Run the suites of a part once, unchanged, and keep which test executes what."""
        digest = _digest_of(*sorted(_judged_files()))
        begun = self.state / "of"
        if not begun.exists() or begun.read_text() != digest:
            shutil.rmtree(self.state, ignore_errors=True)
            make_copy(self.state / "copy")
            begun.write_text(digest)
        folder = self.state / part[0]
        if not (folder / "facts.json").exists():
            copy = self.state / "copy"
            os.waitpid(start(copy, folder, partial(_record, copy, folder, part)), 0)
        return Reach.read(folder)

    def rows(self) -> dict[str, Row]:
        """What is known so far, by check."""
        if not self.results.exists():
            return {}
        current = {mutant.check: digest_of(mutant) for mutant in MUTANTS}
        known: dict[str, Row] = {}
        for line in self.results.read_text().splitlines():
            row = Row(**json.loads(line))
            if current.get(row.check) == row.digest:
                known[row.check] = known[row.check].joined(row) if row.check in known else row
        return known

    def run(self, mutants: list[Mutant], part: Sequence[str], end: float) -> None:
        """Try the mutants that are not known yet in this part, as long as there is time."""
        bench = Bench(self.state, part, self.record(part), Sources(ROOT / PACKAGE))
        known = self.rows()
        missing = self._missing(mutants, part)
        missing.sort(
            key=lambda m: (_is_light(m), m.check in known and bool(known[m.check].killers))
        )
        together = [m for m in missing if not bench.is_made_at_import(m)]
        queue, filled = os.pipe()
        os.write(filled, b"".join(n.to_bytes(4, "big") for n in range(len(together))))
        os.close(filled)
        servers = []
        for number in range(1, AT_ONCE + 1) if together else ():
            copy = bench.copy(number)
            server = Server(together, queue, copy, bench, end)
            folder = self.state / f"{copy.name}-server"
            arguments = [f"--basetemp={folder}/tmp", *(f"tests/{level}" for level in part)]
            servers.append(start(copy, folder, partial(_pytest, copy, arguments, server)))
        while servers:
            time.sleep(1)
            servers = [pid for pid in servers if not os.waitpid(pid, os.WNOHANG)[0]]
            self._tell()
        for mutant in self._missing(missing, part):
            if time.monotonic() < end:
                Trial(mutant, bench, bench.copy(1)).alone()
                self._tell()

    def _missing(self, mutants: list[Mutant], part: Sequence[str]) -> list[Mutant]:
        known = self.rows()
        return [m for m in mutants if m.check not in known or part[0] not in known[m.check].reached]

    def _tell(self) -> None:
        """Print what has been found out since the last time."""
        lines = self.results.read_text().splitlines() if self.results.exists() else []
        for row in (Row(**json.loads(line)) for line in lines[self.told :]):
            print(f"{row.seconds:6.1f} s  {row.check}: {', '.join(row.cells)}", flush=True)
        self.told = len(lines)


@dataclass(frozen=True)
class Bench:
    """What trials need to know.

    Args:
        state: The folder with the copies and the results.
        part: Levels.
        reach: Which test executes what.
        sources: The package.
    """

    state: Path
    part: Sequence[str]
    reach: Reach
    sources: Sources

    def copy(self, number: int) -> Path:
        """A copy to change, as it was when the tests were recorded."""
        clean, copy = self.state / "copy", self.state / f"{self.part[0]}-copy-{number}"
        if not copy.exists():
            shutil.copytree(clean, copy, symlinks=True)
        for file in (clean / PACKAGE).rglob("*.py"):
            other = copy / file.relative_to(clean)
            if other.read_bytes() != file.read_bytes():  # left by a run that was killed
                shutil.copy2(file, other)
        return copy

    def is_made_at_import(self, mutant: Mutant) -> bool:
        """Whether what a mutant changes has an effect when modules or tests are imported."""
        place = self.sources.place(mutant)
        collecting = COLLECTING in self.reach.tests_of(place.file, set(place.lines))
        return bool(place.names) or collecting


class Trial:
    """One mutant in one copy.

    Args:
        mutant: What is changed.
        bench: What is known.
        copy: To be changed.
    """

    def __init__(self, mutant: Mutant, bench: Bench, copy: Path) -> None:
        place = bench.sources.place(mutant)
        self.mutant = mutant
        self.part = bench.part
        self.copy = copy
        self.folder = bench.state / f"{copy.name}-trial"
        self.results = bench.state / "results.jsonl"
        self.changed = self.copy / PACKAGE / place.file
        tests = tests_for(place, bench.sources, bench.reach) | own_tests(mutant, bench.reach)
        self.order = in_order(tests & set(bench.reach.seconds), mutant, bench.reach)
        self.judge = Judge(self.order, self.folder / "answer")

    def in_fork_of(self, session: pytest.Session, functions: list[FunctionType]) -> None:
        """Run the tests in a fork of a process that has collected them."""

        def work() -> bool:
            after = self.changed.read_text()
            if not swap(functions, self.changed, self.before.decode(), after):
                return False
            plugins = session.config.pluginmanager
            plugins.register(self.judge)
            factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
            factory._given_basetemp = self.folder / "tmp"
            return self.judge.pytest_runtestloop(session)

        self._try(work)

    def alone(self) -> None:
        """Run the tests in a process that imports everything for itself."""

        def work() -> bool:
            files = dict.fromkeys(file_of(test) for test in self.order)
            options = ("--continue-on-collection-errors", f"--basetemp={self.folder}/tmp")
            _pytest(self.copy, [*options, *files], self.judge)
            return True

        self._try(work)

    def _try(self, work: Callable[[], bool]) -> None:
        began = time.monotonic()
        facts = self.changed.stat()
        self.before = self.changed.read_bytes()
        is_over: bool | None = True
        shutil.rmtree(self.copy / ".hypothesis", ignore_errors=True)
        try:
            self.mutant.apply(self.copy / PACKAGE)
            # Compiled code is taken for current by its second: this one must not seem to be.
            os.utime(self.changed, (facts.st_atime, facts.st_mtime + 1000))
            if self.order:
                is_over = self._wait_for(work)
        finally:
            self.changed.write_bytes(self.before)
            os.utime(self.changed, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        if is_over is not None:
            self._keep(is_over, time.monotonic() - began)

    def _wait_for(self, work: Callable[[], bool]) -> bool | None:
        """Whether it ended in time; None if it could not be tried in this way."""
        pid = start(self.copy, self.folder, work)
        end = time.monotonic() + SECONDS
        is_over = False
        try:
            while not is_over and time.monotonic() < end:
                time.sleep(0.02)
                is_over = bool(os.waitpid(pid, os.WNOHANG)[0])
        finally:
            if not is_over:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return (True if (self.folder / "done").exists() else None) if is_over else False

    def _keep(self, is_over: bool, seconds: float) -> None:
        answer = self.folder / "answer"
        failed = answer.read_text().splitlines() if self.order and answer.exists() else []
        levels = Counter(level_of(test) for test in self.order)
        row = Row(
            self.mutant.check,
            digest_of(self.mutant),
            str(self.changed.relative_to(self.copy / PACKAGE)),
            {level: levels[level] for level in self.part},
            {file_of(test): test for test in map(json.loads, failed)},
            round(seconds, 1),
            is_over,
        )
        with self.results.open("a") as results:
            results.write(json.dumps(asdict(row)) + "\n")


def own_tests(mutant: Mutant, reach: Reach) -> set[str]:
    """Tests that the mutant names: they may notice by what an earlier test has left in a cache."""
    named = mutant.tests.split()
    return {t for t in reach.seconds if file_of(t) in named or t.partition("[")[0] in named}


def in_order(tests: set[str], mutant: Mutant, reach: Reach) -> list[str]:
    """Level by level, the mutant's own tests first, then the quickest file."""
    own = {file_of(test) for test in mutant.tests.split()}
    seconds: dict[str, float] = defaultdict(float)
    for test in tests:
        seconds[file_of(test)] += reach.seconds[test]
    return sorted(
        tests - reach.failed,
        key=lambda test: (
            LEVELS.index(level_of(test)),
            file_of(test) not in own,
            seconds[file_of(test)],
            file_of(test),
            reach.seconds[test],
        ),
    )


def _record(copy: Path, folder: Path, levels: Sequence[str]) -> None:
    recorder = Recorder(folder, copy)
    suites = [f"tests/{level}" for level in levels]
    _pytest(copy, [f"--basetemp={folder}/tmp", *suites], recorder)
    recorder.write()


def _pytest(copy: Path, arguments: list[str], plugin: object) -> None:
    enter(copy)
    pytest.main([*OPTIONS, *arguments], plugins=[plugin])


def _judged_files() -> Iterator[Path]:
    for folder in (PACKAGE, *(Path("tests", level) for level in LEVELS)):
        yield from (ROOT / folder).rglob("*.py")


def _is_light(mutant: Mutant) -> bool:
    """Whether its own tests are in a light suite; the others are asked about first."""
    return any(level_of(test) in LEVELS for test in mutant.tests.split())


def _digest_of(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def digest_of(mutant: Mutant) -> str:
    """Another one if it was rewritten."""
    return hashlib.sha256(repr(mutant).encode()).hexdigest()[:16]


def write_table(rows: dict[str, Row]) -> str:
    """One line a mutant, by its name; tests without the folder that the column names."""
    lines = ["\t".join(("check", "own tests in", *LEVELS))]
    for mutant in sorted(MUTANTS, key=lambda m: m.check):
        own = ", ".join(dict.fromkeys(level_of(test) for test in mutant.tests.split()))
        cells = rows[mutant.check].cells if mutant.check in rows else ["not tried"] * len(LEVELS)
        lines.append("\t".join((mutant.check, own, *(c.split("/")[-1] for c in cells))))
    return "\n".join(lines) + "\n"


def summary(rows: dict[str, Row]) -> str:
    """How many are noticed, and where."""
    by_level = Counter(level for row in rows.values() for level in LEVELS if row.first(level))
    noticed = sum(1 for row in rows.values() if any(row.first(level) for level in LEVELS))
    levels = ", ".join(f"{level} {by_level[level]}" for level in LEVELS)
    return f"{noticed} of {len(rows)} mutants are noticed by a light suite: {levels}"


def main() -> int:
    """Go on with the matrix and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.matrix")
    parser.add_argument("--minutes", type=float, default=24 * 60)
    parser.add_argument("--parts", type=int, nargs="*", default=(1, 2))
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    matrix = Matrix(STATE)
    chosen = [m for m in MUTANTS if not options.words or any(w in m.check for w in options.words)]
    end = time.monotonic() + 60 * options.minutes
    for part in options.parts:
        matrix.run(chosen, PARTS[part - 1], end)
    rows = matrix.rows()
    TABLE.write_text(write_table(rows))
    print(summary(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
