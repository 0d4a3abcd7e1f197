"""Which tests execute which line of the package, and how long they take."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import coverage
import pytest

from tests.mutants.mutant import PACKAGE, Mutant

COLLECTING = "collecting"
"""Stands for a test where lines are executed while tests are imported."""


class Recorder:
    """A plugin of pytest that writes down which test executes which lines, in any process.

    Args:
        folder: Where the record is written, in two files.
        copy: The copy of the project that the tests run in.
    """

    def __init__(self, folder: Path, copy: Path) -> None:
        self.folder = folder
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        self.elsewhere: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._cached: dict[str, list[Any]] = {}
        settings = folder / "coverage.ini"
        include = f"{copy}/{PACKAGE}/*,*/{PACKAGE}/*"
        settings.write_text(
            f"[run]\ninclude = {include}\nparallel = true\ndata_file = {folder}/process\n"
            "disable_warnings = no-data-collected,module-not-measured,couldnt-parse\n"
            "patch = _exit\n"
        )
        os.environ["COVERAGE_PROCESS_START"] = str(settings)
        self._coverage = coverage.Coverage(
            data_file=str(folder / "lines"),
            include=include.split(","),
            concurrency=["thread", "greenlet"],
            config_file=False,
        )
        self._coverage.start()
        self._coverage.switch_context(COLLECTING)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """One test: whatever was cached is computed anew, or the next tests would not reach it."""
        for function in self._caches():
            function.cache_clear()
        self._coverage.switch_context(item.nodeid)
        result = yield
        self._coverage.switch_context("between")
        self._read_processes(item.nodeid)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up set-up, call and the rest."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def write(self) -> None:
        """End, and keep what was seen."""
        self._coverage.stop()
        self._coverage.save()
        facts = {
            "seconds": self.seconds,
            "failed": sorted(self.failed),
            "elsewhere": {
                file: {line: sorted(tests) for line, tests in lines.items()}
                for file, lines in self.elsewhere.items()
            },
        }
        (self.folder / "facts.json").write_text(json.dumps(facts))

    def _caches(self) -> Iterator[Any]:
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] == "tideline":
                if name not in self._cached:
                    self._cached[name] = list(_cached_functions(module))
                yield from self._cached[name]

    def _read_processes(self, test: str) -> None:
        """What Python processes of the test have executed."""
        for file in self.folder.glob("process.*"):
            data = coverage.CoverageData(str(file))
            data.read()
            for source in data.measured_files():
                for line in data.lines(source) or ():
                    self.elsewhere[_in_package(source)][line].add(test)
            file.unlink()


def _cached_functions(module: ModuleType) -> Iterator[Any]:
    for holder in (module, *(v for v in list(vars(module).values()) if isinstance(v, type))):
        for value in list(vars(holder).values()):
            function = getattr(value, "__func__", value)
            if hasattr(function, "cache_clear") and hasattr(function, "cache_info"):
                yield function


def _in_package(source: str) -> str:
    return source.rpartition(f"{PACKAGE}/")[2]


@dataclass(frozen=True)
class Reach:
    """What was recorded.

    Args:
        seconds: How long each test took.
        lines: Tests that execute a line, by the module's file and the line's number.
        failed: Tests that failed where nothing was changed.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, set[str]]]
    failed: set[str]

    @classmethod
    def read(cls, folder: Path) -> Reach:
        """What a `Recorder` has written."""
        facts = json.loads((folder / "facts.json").read_text())
        lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for file, found in facts["elsewhere"].items():
            for line, tests in found.items():
                lines[file][int(line)] |= set(tests)
        data = coverage.CoverageData(str(folder / "lines"))
        data.read()
        for source in data.measured_files():
            for number, tests in data.contexts_by_lineno(source).items():
                lines[_in_package(source)][number] |= set(tests) - {"", "between"}
        return cls(facts["seconds"], lines, set(facts["failed"]))

    def tests_of(self, file: str, wanted: set[int]) -> set[str]:
        """Tests that execute one of these lines."""
        found = self.lines.get(file, {})
        return set().union(*(found.get(line, ()) for line in wanted))


@dataclass(frozen=True)
class Place:
    """Where a mutant changes the package.

    Args:
        file: Below the package.
        lines: Whoever executes one of them may notice.
        names: What is defined at import there: constants, classes. Whoever executes a function
            that uses one of them may notice.
    """

    file: str
    lines: frozenset[int]
    names: frozenset[str]


class Sources:
    """The package, as trees."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self._places: dict[Mutant, Place] = {}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Every module by its file."""
        return {
            str(file.relative_to(self.package)): ast.parse(file.read_text())
            for file in sorted(self.package.rglob("*.py"))
        }

    def place(self, mutant: Mutant) -> Place:
        """The statements that a mutant changes."""
        if mutant not in self._places:
            self._places[mutant] = self._find(mutant)
        return self._places[mutant]

    def _find(self, mutant: Mutant) -> Place:
        path, at = mutant.place(self.package)
        file = str(path.relative_to(self.package))
        text = path.read_text()
        first, last = changed_lines(text, at, mutant)
        lines: set[int] = set()
        names: set[str] = set()
        for number in range(first, last + 1):
            self._add(self.trees[file], number, lines, names)
        return Place(file, frozenset(lines), frozenset(names))

    def users(self, names: frozenset[str]) -> Iterator[tuple[str, set[int]]]:
        """Lines of every function that uses one of these names, or one that is made of them."""
        known, before = set(names), 0
        while len(known) > before:
            before = len(known)
            for tree in self.trees.values():
                for node in tree.body:
                    if not isinstance(node, ast.FunctionDef) and known & _used(node):
                        known |= _defined(node)
        for file, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    inside = any(
                        isinstance(c, ast.ClassDef) and c.name in names and node in c.body
                        for c in tree.body
                    )
                    if inside or known & _used(node):
                        yield file, _span(node.body)

    def _add(self, tree: ast.Module, number: int, lines: set[int], names: set[str]) -> None:
        """What a line belongs to: a statement of a function, or something that an import makes."""
        path = _path_to(tree, number)
        functions = [n for n in path if isinstance(n, ast.FunctionDef)]
        if not path:
            return
        if not functions:
            names |= _defined(path[0])
            lines |= set() if names else _span(tree.body)
            return
        innermost = path[-1]
        if isinstance(innermost, ast.FunctionDef) and len(functions) == 1:
            lines |= _span(innermost.body)  # a default, a decorator: made at import
        else:
            lines |= _header(innermost)


def changed_lines(text: str, at: int, mutant: Mutant) -> tuple[int, int]:
    """First and last line that a mutant really changes; with both neighbours where it only adds."""
    old, new = mutant.old, mutant.new
    begin = _alike(old, new)
    end = _alike(old[begin:][::-1], new[begin:][::-1])
    changed = old[begin : len(old) - end]
    before = len(changed) - len(changed.lstrip())
    start = at + begin + (before if changed.strip() else 0)
    stop = start + max(len(changed.strip()) - 1, 0)
    first = text.count("\n", 0, start) + 1
    last = text.count("\n", 0, stop) + 1
    return (first, last) if changed.strip() else (max(first - 1, 1), last + 1)


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _path_to(tree: ast.Module, number: int) -> list[ast.stmt]:
    """Statements around a line, from outside."""
    path: list[ast.stmt] = []
    inside: list[ast.stmt] = tree.body
    while inside := [s for s in inside if _start(s) <= number <= (s.end_lineno or s.lineno)]:
        path.append(inside[0])
        inside = list(_statements(inside[0]))
    return path


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Those right inside of another one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        else:
            yield from _statements(child)


def _start(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _header(node: ast.stmt) -> set[int]:
    """Lines of a statement without those of its body."""
    own = set(range(_start(node), (node.end_lineno or node.lineno) + 1))
    for inner in _statements(node):
        own -= set(range(_start(inner), (inner.end_lineno or inner.lineno) + 1))
    return own | {node.lineno}


def _span(body: list[ast.stmt]) -> set[int]:
    return set(range(_start(body[0]), (body[-1].end_lineno or body[-1].lineno) + 1))


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {n.id for t in targets if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)}


def _used(node: ast.AST) -> set[str]:
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def tests_for(place: Place, sources: Sources, reach: Reach) -> set[str]:
    """Tests that can notice a change at a place.

    Where it is executed while tests are imported, its results may be kept anywhere: then every
    test that has to do with the module is among them.
    """
    found = reach.tests_of(place.file, set(place.lines))
    for file, lines in sources.users(place.names) if place.names else ():
        found |= reach.tests_of(file, lines)
    if COLLECTING in found:
        found |= set().union(*reach.lines[place.file].values())
    return found
