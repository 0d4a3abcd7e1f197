"""Copies of the project, and processes that run tests in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("plugins", "dags", "spark_jobs")
"""Where Python finds the project; as in `pyproject.toml`."""
OWN = frozenset({"tests", "tideline", "devstack", "bench", "tideline_plugin"})
"""What each process imports for itself, from its copy."""


def make_copy(target: Path) -> Path:
    """All files that git knows, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if os.path.lexists(ROOT / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    return target


def start(copy: Path, folder: Path, work: Callable[[], object]) -> int:
    """Fork a process that does `work` in a copy, and return its id.

    Args:
        copy: Its working directory.
        folder: For its temporary files and its output; begun anew. `done` is in it in the end if
            `work` says neither that nor an error.
        work: Done in it; an error is written to its output.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        os.chdir(copy)
        said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(said, 1)
        os.dup2(said, 2)
        if work() is not False:
            (folder / "done").touch()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def enter(copy: Path) -> None:
    """Import the project from a copy from now on, in this process and those that it starts."""
    for name in [n for n in sys.modules if n.split(".")[0] in OWN]:
        del sys.modules[name]
    at_home = {"", str(ROOT), *(str(ROOT / name) for name in FOLDERS)}
    sys.path[:] = [str(copy), *(path for path in sys.path if path not in at_home)]
    found = [*(str(copy / name) for name in FOLDERS), str(copy)]
    os.environ["PYTHONPATH"] = os.pathsep.join(found)
