"""The warm drivers of one runtime folder, as /proc shows them, and what they have landed."""

from __future__ import annotations

from pathlib import Path

from devstack.process import wait_until
from tests.faults.processes import processes, state
from tests.worlds.streams import head, is_clean, table_rows


def drivers(folder: Path) -> list[int]:
    """Process ids of the drivers whose socket is in a folder."""
    return [
        pid
        for pid, _, command in processes()
        if any(part.endswith("local_driver.py") for part in command)
        and any(part.startswith(f"{folder}/") for part in command)
    ]


def jvms(folder: Path) -> list[int]:
    """Process ids of their JVMs."""
    parents = drivers(folder)
    return [
        pid
        for pid, parent, command in processes()
        if parent in parents and Path(command[0]).name == "java" and "-Xshare:dump" not in command
    ]


def lands_once(harness, stream, rows=100):
    """The next run lands what is there, one copy."""
    harness.run(stream, "next", None)
    assert len(table_rows(stream)) == len(set(table_rows(stream))) == rows
    assert list(head(stream).values()) == [rows]
    assert is_clean(harness, stream)


def waits_in(monkeypatch, place="spark:writing"):
    """The Python of the next driver stops itself at a place."""
    monkeypatch.setenv("TIDELINE_FAILPOINT", f"{place}:stop")


def stopped(sockets):
    """Wait until the driver has stopped itself; its process id."""
    wait_until(lambda: any(state(p) == "T" for p in drivers(sockets)), "it does not stop", 60)
    (pid,) = drivers(sockets)
    return pid


def all_gone(sockets):
    """Wait until no driver is left, and nothing of one."""
    wait_until(lambda: not drivers(sockets), "a driver is left", 90)
    assert [file.name for file in sockets.iterdir()] == ["lock"]
