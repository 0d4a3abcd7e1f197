"""The page about the command line, from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from devstack.reference.docstrings import summary
from devstack.reference.markdown import code, codes, one_line, page, table
from tideline.cli.main import build_parser
from tideline.errors import TidelineError
from tideline.model.incident import error_entry

_NOT_ERRORS = {
    0: "done, or nothing to do",
    130: "interrupted from the keyboard",
    141: "whoever reads the output has closed it, as `head` does: the answer is not told",
}


def build_page() -> str:
    """The text of docs/reference/commands.md."""
    parser = build_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    known: dict[str, argparse.ArgumentParser] = dict(commands.choices)
    shared = _shared(list(known.values()))
    lines = [
        f"{parser.description} `tideline --help` and `tideline COMMAND --help` say the same.",
        "What each prints with `--json` is under [JSON](json.md).",
        "",
        "## All commands",
        "",
        *table(("option", "meaning"), _rows(shared)),
        "Logs go to standard error. Bash and zsh complete commands and options after",
        '`eval "$(register-python-argcomplete tideline)"`.',
        "",
        "## Exit status",
        "",
        "The same for every command; the classes are in the [A-Z](../incidents-and-errors.md).",
        "",
        *table(("status", "meaning"), _statuses()),
    ]
    for name, command in known.items():
        lines += _command(name, command, {a.dest for a in shared})
    return page("Commands", "`cli/main.py`", *lines)


def _shared(commands: list[argparse.ArgumentParser]) -> list[argparse.Action]:
    """The options that every command has."""
    first, *others = commands
    return [a for a in _options(first) if all(_has(command, a) for command in others)]


def _has(command: argparse.ArgumentParser, option: argparse.Action) -> bool:
    return any(a.option_strings == option.option_strings for a in _options(command))


def _options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for a in command._actions if a.option_strings]


def _command(name: str, command: argparse.ArgumentParser, shared: set[str]) -> Iterator[str]:
    own = [a for a in command._actions if a.dest not in shared]
    words = ["tideline", name, *(_usage(action) for action in own)]
    first, _, more = (command.description or "").partition("\n\n")
    yield from (f"## tideline {name}", "", code(" ".join(words)), "", one_line(first), "")
    if more:
        yield from (one_line(more), "")
    if said := list(_rows(own)):
        yield from table(("argument", "meaning"), said)


def _usage(action: argparse.Action) -> str:
    """An argument as a usage line has it."""
    word = " ".join([*action.option_strings[:1], *_value(action)])
    if action.nargs == "+":
        return f"{word}..."
    if action.nargs == "*":
        return f"[{word}...]"
    if isinstance(action, argparse._AppendAction):
        return f"[{word}]..."
    return word if action.required else f"[{word}]"


def _value(action: argparse.Action) -> list[str]:
    if action.nargs == 0:
        return []
    if action.choices is not None:
        return ["|".join(map(str, action.choices))]
    return [str(action.metavar).replace("_", "-")]


def _rows(actions: list[argparse.Action]) -> Iterator[tuple[str, str]]:
    for action in actions:
        names = [" ".join([name, *_value(action)]) for name in action.option_strings or [""]]
        yield codes(name.strip() for name in names), action.help or _MEANINGS[str(action.metavar)]


_MEANINGS = {
    "FILE": "a stream file",
    "OLD": "a stream file, as it was",
    "NEW": "a stream file, as it shall be",
    "TOPIC": "the topic's name",
    "PARTITION": "the partition's number",
    "OFFSET": "the record's offset",
    "ID": "an incident's id",
    "CHOICE": "one of the [class's choices](../incidents-and-errors.md), or `fail`",
}
"""Arguments that say it all by their names."""


def _statuses() -> Iterator[tuple[str, str]]:
    yield "0", _NOT_ERRORS[0]
    yield "1", "a bug of Tideline"
    for cls in TidelineError.__subclasses__():
        link = f"[`{cls.__name__}`]({error_entry(cls).replace('docs/', '../')})"
        yield str(cls.exit_code), f"{link}: {summary(cls)}"
    yield "130", _NOT_ERRORS[130]
    yield "141", _NOT_ERRORS[141]
