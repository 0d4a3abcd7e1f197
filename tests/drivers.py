"""The warm drivers of one runtime folder, as /proc shows them."""

from __future__ import annotations

from pathlib import Path

from tests.faults.processes import processes


def drivers(folder: Path) -> list[int]:
    """Process ids of the drivers whose socket is in a folder."""
    return [
        pid
        for pid, _, command in processes()
        if any(part.endswith("local_driver.py") for part in command)
        and command[-2].startswith(f"{folder}/")
    ]


def jvms(folder: Path) -> list[int]:
    """Process ids of their JVMs."""
    parents = drivers(folder)
    return [
        pid
        for pid, parent, command in processes()
        if parent in parents and Path(command[0]).name == "java" and "-Xshare:dump" not in command
    ]
