"""The page about errors, from the tree of their classes."""

from __future__ import annotations

from collections.abc import Iterator

from devstack.reference.markdown import code, one_line, page, table
from tideline.errors import TidelineError
from tideline.model.incident import error_entry

_NEXT = {
    1: "run again; if it comes again, report it with the log",
    2: "change what the message names, then run again",
    3: "decide; trying again changes nothing",
    4: "wait, or run again later; Airflow retries",
    5: "look at the table: clear the task, or run the same run id again",
    6: "look at the audit: do not build on the table",
}
"""What a caller does, by exit status."""


def build_page() -> str:
    """The text of docs/reference/errors.md."""
    lines = [
        "With `--json`, `error` is the class, `retriable` says whether a later try may succeed,",
        "and `runbook` names the page.",
        "",
        *table(("exit status", "what to do"), ((code(n), text) for n, text in _NEXT.items())),
        "Each class, behind the one that it is a kind of. Links lead to its entry in the runbook.",
        "",
        *table(("class", "exit status", "retriable", "meaning"), map(_row, _tree(TidelineError))),
    ]
    return page("Errors", "`errors.py`", *lines)


def _tree(cls: type[TidelineError]) -> Iterator[type[TidelineError]]:
    """A class, then those below it, as the docstring of `errors.py` draws them."""
    yield cls
    for kind in cls.__subclasses__():
        yield from _tree(kind)


def _row(cls: type[TidelineError]) -> list[str]:
    name = f"[`{cls.__name__}`]({error_entry(cls).replace('docs/', '../')})"
    indent = "&emsp;" * (len(cls.__mro__) - len(TidelineError.__mro__))
    meaning = one_line((cls.__doc__ or "").partition("\n\n")[0])
    return [f"{indent}{name}", code(cls.exit_code), "yes" if cls.retriable else "no", meaning]
