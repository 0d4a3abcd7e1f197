"""The text of a stream file, bounded before it is parsed.

Airflow parses every file again and again, all in one process. Without bounds a single file could
take the others' time, or end the process: aliases multiply, a pipe has no end, a number like 1:1:1
costs time with the square of its length, and libyaml's own composer recurses until it crashes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 1_000_000
DEEPEST = 20
"""Levels of lists and mappings; a stream file needs seven."""
LONGEST = 10_000
"""Characters of a key or a value. A number of a million characters took a minute to read."""
MOST_VALUES = 50_000
"""Keys and values; the first offsets of ten thousand partitions are half as many."""


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
        YAMLError: It is no YAML, has an anchor or an alias, is nested too deeply, or has a value
            that is too long, or too many of them.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise _refused("write it out, without anchors and aliases", event)
        if isinstance(event, yaml.ScalarEvent):
            values += 1
            if values > MOST_VALUES or len(event.value) > LONGEST:
                most = f"at most {MOST_VALUES:,} keys and values of {LONGEST:,} characters each"
                raise _refused(most, event)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _refused(f"at most {DEEPEST} levels", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _refused(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
