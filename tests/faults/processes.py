"""The processes of this machine, as /proc shows them (proc(5))."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def processes() -> Iterator[tuple[int, int, list[str]]]:
    """Process id, parent's id and command line of everything that runs."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        yield int(folder.name), parent, command[:-1] or [""]


def descendants(pid: int) -> list[tuple[int, list[str]]]:
    """Children of a process and theirs, parents first."""
    running = list(processes())
    found: list[tuple[int, list[str]]] = []
    parents = [pid]
    while parents:
        parent = parents.pop(0)
        for child, of, command in running:
            if of == parent:
                found.append((child, command))
                parents.append(child)
    return found


def state(pid: int) -> str:
    """State letter of a process; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_spark(command: list[str]) -> bool:
    """Whether it is the JVM of an ingest application, and not the launcher that builds its line."""
    return (
        Path(command[0]).name == "java"
        and "org.apache.spark.launcher.Main" not in command
        and any(part.endswith("ingest_range.py") for part in command)
    )
