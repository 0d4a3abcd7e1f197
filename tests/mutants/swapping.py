"""A changed module in a process that has imported the unchanged one."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType


def functions_of(package: str) -> list[FunctionType]:
    """All functions of a package that there are in this process."""
    found = [f for f in gc.get_objects() if type(f) is FunctionType]
    return [f for f in found if (f.__module__ or "").split(".")[0] == package]


def swap(functions: list[FunctionType], file: Path, before: str, after: str) -> bool:
    """Give functions their changed code.

    Args:
        functions: All that may be of the module.
        file: The module.
        before: Its text when it was imported.
        after: Its text now.

    Returns:
        False if that would not be enough: the change concerns what an import makes, or what a
        function has around it.
    """
    old, new = (compile(text, file, "exec", dont_inherit=True) for text in (before, after))
    pairs = list(_changed(old, new))
    changed = {code: other for code, other in pairs if other is not None}
    here = [f for f in functions if f.__code__.co_filename == str(file)]
    if not here:
        return True  # nobody has imported it yet
    concerned = [f for f in here if f.__code__ in changed]
    if len(changed) < len(pairs) or not concerned:
        return False
    for function in concerned:
        function.__code__ = changed[function.__code__]
    return True


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType | None]]:
    """Functions whose code differs, each with its new code; None where there is no such code."""
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    is_function = bool(old.co_flags & inspect.CO_OPTIMIZED)
    is_alike = [c.co_name for c in inner[0]] == [c.co_name for c in inner[1]]
    if is_function and old != new:
        yield old, new if old.co_freevars == new.co_freevars else None
    elif not is_function and not (is_alike and _own(old) == _own(new)):
        yield old, None
    if is_alike:
        for pair in zip(*inner, strict=True):
            yield from _changed(*pair)


def _own(code: CodeType) -> tuple[object, ...]:
    """What a module or a class does itself, wherever it stands."""
    constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, repr(constants)
