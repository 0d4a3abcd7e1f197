"""Hold `Raises` of the package's docstrings: a function names what it raises itself (`make lint`).

What passes through is told where somebody calls from outside: by ports, and by the modules in
`DOORS`. A function raises itself what it raises by a helper: one that is private, that never
returns, that makes the error, or whose name says that it refuses.

Usage: python -m devstack.docstrings
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1] / "plugins/tideline"
DOORS = (
    *("operations/", "decoding/decode_steps.py", "folding/fold_steps.py"),
    *(f"pipeline/{name}.py" for name in ("ingest_ranges", "resolve_reset", "run_batch", "steps")),
)
"""Steps of a run and operations: their callers are people, a shell, Airflow."""
BUILT_IN = {*dir(builtins)}
"""Python's own errors are told wherever they leave."""
_REFUSES = re.compile(r"_?(refuse|require|check|halt)d?(_|$)")
_ENTRY = re.compile(r"^ {4}(\w+): ", re.MULTILINE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    """Print what is named and only passes through; the exit status."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    every = [f for tree in trees.values() for f in functions(tree)]
    made = {name for f in every for error in in_raise(f) for name in named(error)}
    helpers: dict[str, set[str]] = defaultdict(set)
    for function in every:
        if function.name in made or _REFUSES.match(function.name) or _never_returns(function):
            helpers[function.name] |= raised(function)
    found = [
        f"{path.relative_to(ROOT.parents[1])}:{line}: Raises: {name} only passes through"
        for path, tree in trees.items()
        if not path.relative_to(ROOT).as_posix().startswith(DOORS)
        for line, name in passing(tree, helpers)
    ]
    print("\n".join(found) or "docstrings: each Raises names what is raised there")
    return int(bool(found))


def passing(tree: ast.Module, helpers: Mapping[str, set[str]]) -> Iterator[tuple[int, str]]:
    """Errors that docstrings of a module name, and that its functions do not raise.

    Args:
        tree: The module.
        helpers: What functions of any module raise that are there to raise, by name.

    Yields:
        The line of the function, and the error.
    """
    ports = {id(f) for c in ast.walk(tree) if _is_port(c) for f in functions(c)}
    of_module: dict[str, set[str]] = defaultdict(set)
    for function in functions(tree):
        of_module[function.name] |= raised(function)
    for function in functions(tree):
        _, _, told = (ast.get_docstring(function) or "").partition("\nRaises:\n")
        if not told or id(function) in ports:
            continue
        own = raised(function)
        for name in named(function) - {function.name}:
            if name.startswith("_") or function.name.startswith("_"):
                own |= of_module.get(name, set())
            own |= helpers.get(name, set())
        yield from (
            (function.lineno, name) for name in _ENTRY.findall(told) if name not in own | BUILT_IN
        )


def functions(tree: ast.AST) -> Iterator[Function]:
    """All functions and methods, also those inside others."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def raised(function: Function) -> set[str]:
    """Names that may be an error's: those in `raise`, and of classes of which it makes one."""
    inside = {name for error in in_raise(function) for name in named(error)}
    calls = (n.func for n in ast.walk(function) if isinstance(n, ast.Call))
    return inside | {c.id for c in calls if isinstance(c, ast.Name) and c.id[0].isupper()}


def in_raise(function: Function) -> list[ast.expr]:
    """What it raises, as written."""
    found = (node for node in ast.walk(function) if isinstance(node, ast.Raise))
    return [node.exc for node in found if node.exc is not None]


def named(tree: ast.AST) -> set[str]:
    """All names and attributes below a node."""
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _never_returns(function: Function) -> bool:
    return function.returns is not None and ast.unparse(function.returns) == "NoReturn"


def _is_port(node: ast.AST) -> bool:
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any("Protocol" in ast.unparse(base) for base in bases)


if __name__ == "__main__":
    sys.exit(main())
