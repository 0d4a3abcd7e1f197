"""A check taken out, and where it stands in the package."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path("plugins/tideline")


@dataclass(frozen=True)
class Mutant:
    """One replacement in the package.

    No path: a check may move to another module without an edit here.

    Args:
        check: What the check keeps from happening.
        old: The code that is replaced. It stands exactly once in the package, or in `within`.
        new: What replaces it.
        tests: Node ids of the tests of which one must fail, separated by spaces.
        within: Name of a function or class, where `old` alone is not unique.
    """

    check: str
    old: str
    new: str
    tests: str
    within: str | None = None

    def place(self, package: Path) -> tuple[Path, int]:
        """File under `package`, and index of `old` in its text.

        Raises:
            LookupError: `old` is not there exactly once; says where it is.
        """
        found = [
            (file, at)
            for file, text in _texts(package)
            for start, end in _parts(text, self.within)
            for at in _occurrences(text[:end], self.old, start)
        ]
        if len(found) == 1:
            return found[0]
        where = f"in {self.within} " if self.within else ""
        files = ", ".join(str(file.relative_to(package)) for file, _ in found) or "nowhere"
        raise LookupError(
            f"{self.check}: {self.old!r} should stand {where}exactly once, but it stands"
            f" {len(found)} times: {files}. Next: copy the check's code to `old`; if it is not"
            " unique, name its function in `within`"
        )

    def apply(self, package: Path) -> Path:
        """Replace it.

        Returns:
            In which file.
        """
        file, text = self._applied(package)
        file.write_text(text)
        _texts.cache_clear()  # another one may follow in the same copy
        return file

    def problems(self, root: Path) -> list[str]:
        """Why it cannot be run in the repository at `root`; empty if it can."""
        found = [
            f"{self.check}: there is no test {test}"
            for test in self.tests.split()
            if not _exists(root, test)
        ]
        try:
            file, text = self._applied(root / PACKAGE)
            if file.suffix == ".py":
                ast.parse(text)
        except LookupError as error:
            found.append(str(error))
        except SyntaxError as error:
            found.append(f"{self.check}: what it makes of {file.name} is no Python: {error}")
        return found

    def _applied(self, package: Path) -> tuple[Path, str]:
        """In which file it is, and the text of that with the replacement."""
        file, at = self.place(package)
        text = file.read_text()
        return file, text[:at] + self.new + text[at + len(self.old) :]


@cache
def _texts(package: Path) -> tuple[tuple[Path, str], ...]:
    files = sorted((*package.rglob("*.py"), *package.rglob("*.java")))
    return tuple((file, file.read_text()) for file in files)


def _parts(text: str, within: str | None) -> list[tuple[int, int]]:
    """`[start, end)` of every definition with that name; the whole text if there is no name."""
    if within is None:
        return [(0, len(text))]
    if within not in text or text.startswith("package "):  # Java has no need of it so far
        return []
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return [
        (starts[node.lineno - 1], starts[node.end_lineno or node.lineno])
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == within
    ]


def _occurrences(text: str, wanted: str, start: int) -> list[int]:
    found, at = [], text.find(wanted, start)
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + 1)
    return found


def _exists(root: Path, test: str) -> bool:
    path, _, name = test.partition("::")
    file = root / path
    return file.exists() and (not name or name.partition("[")[0] in _functions(file))


@cache
def _functions(file: Path) -> frozenset[str]:
    body = ast.parse(file.read_text()).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))
