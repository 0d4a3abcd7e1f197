"""The text of a stream file, bounded before it is parsed.

Airflow parses every file again and again, all in one process. Without bounds a single file could
take the others' time, or end the process: aliases multiply, a pipe has no end, and libyaml's own
composer recurses until it crashes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 1_000_000
DEEPEST = 20
"""Levels of lists and mappings; a stream file needs seven."""


def read_text(path: str | Path) -> str:
    """The text of a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is a folder or a pipe, is too large, or is no UTF-8.
    """
    if Path(path).exists() and not Path(path).is_file():
        raise ValueError("not a regular file")
    with open(path, "rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    return text.decode()


def check_structure(text: str, loader: Any) -> None:
    """Look at a YAML text event by event, which recurses nowhere.

    Args:
        text: The YAML.
        loader: The loader that will parse it.

    Raises:
        YAMLError: It is no YAML, has an anchor or an alias, or is nested too deeply.
    """
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise _refused("write it out, without anchors and aliases", event)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _refused(f"at most {DEEPEST} levels", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _refused(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
