"""What the command line says of itself: commands by what people do, and the runbook's entries."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap

from tideline.cli.output import CommandOutput
from tideline.errors import BadInput
from tideline.model.wording import not_among

GROUPS: Mapping[str, tuple[str, ...]] = {
    "get started": ("fetch", "init", "validate", "doctor", "demo"),
    "every day": ("plan", "run", "status", "audit"),
    "when a run has halted": ("incident", "resolve", "explain", "ledger", "help"),
    "read again, undo, erase": ("decode", "redrive", "rewind", "erase", "erasures"),
    "the latest row of each key": ("fold", "current", "sweep"),
    "maintain streams": ("diff", "discover", "maintain", "move-ledger"),
}
"""Commands, the frequent ones first."""
_EXAMPLES = {
    "tideline init orders.yaml": "write a stream file",
    "tideline run orders.yaml": "land what is new",
    "tideline run orders.yaml --from T1 --to T2": "land a window again",
    "tideline audit orders.yaml": "prove that each record is there once",
    "tideline help retention_loss": "explain an incident, and what to do",
}
_STATUS = (
    "exit status: 0 done or nothing to do, 1 a bug of Tideline, 2 bad input, 3 halted by a finding,"
    " 4 try later, 5 verification failed, 6 audit not clean"
)
_PAGE = Path(__file__).parents[1] / "incidents-and-errors.md"
_LINK = re.compile(r"\[([^\[\]]+)\]\([^()\s]+\)")


def whole_help(prog: str, description: str, texts: Mapping[str, str]) -> str:
    """The text of `tideline --help`.

    Args:
        prog: The program's name.
        description: What it is for.
        texts: Each command's sentence.
    """
    columns = min(100, shutil.get_terminal_size().columns)

    def listed(rows: Mapping[str, str], width: int) -> list[str]:
        """A line for each name with its text, the text below it where a terminal is narrow."""
        if columns < width + 30:
            return [line for name, text in rows.items() for line in (f"  {name}", f"      {text}")]
        rest = " " * (width + 3)
        found = [f"  {name:<{width}} {text}" for name, text in rows.items()]
        return [line for text in found for line in wrap(text, columns, subsequent_indent=rest)]

    lines = [f"usage: {prog} COMMAND [...]", "", *wrap(description, columns)]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:", *listed({name: texts[name] for name in names}, 12)]
    more = f"{prog} COMMAND --help shows the options of a command, {prog} --version the version."
    lines += ["", *wrap(more, columns), "", "examples:", *listed(_EXAMPLES, 43)]
    return "\n".join([*lines, "", *wrap(_STATUS, columns), ""])


def entries() -> dict[str, str]:
    """The runbook's entries by name, as Markdown."""
    _, *parts = re.split(r"^## (\S+)\n", _PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def show_entries(options: argparse.Namespace, output: CommandOutput) -> None:
    """Explain an incident or an error, and what to do.

    Without a name the command prints all names.
    """
    known = entries()
    if not options.names:
        print("\n".join(known))
        return
    by_name = {name.lower(): name for name in known}
    for given in options.names:
        if given.lower() not in by_name:
            raise BadInput(f"help: {not_among(given, known)}")
    for given in options.names:
        name = by_name[given.lower()]
        text = _LINK.sub(r"\1", known[name]).strip()
        print(f"{name}\n\n{text}\n")
