"""Packages of npm, fetched once into the cache: those that a lock names, by hash."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from devstack.go_programs import made_once
from tideline.errors import BadInput, ServiceAway
from tideline.launch.runtime import cache_folder

_INSTALL_SECONDS = 600


def npm_packages(locked: Path, name: str) -> Path:
    """The folder `node_modules` of a lock.

    Args:
        locked: Folder with `package.json` and `package-lock.json`.
        name: What it is called in the cache: another one for another lock.

    Raises:
        BadInput: There is no npm.
        ServiceAway: npm's registry cannot be reached.
    """
    folder = cache_folder() / "npm" / name
    made_once(folder, folder, partial(_install, locked))
    return folder / "node_modules"


def _install(locked: Path, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise BadInput(f"{folder.name} needs npm; install Node.js 20 or newer, then run again")
    print(f"fetching {folder.name} into {folder}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
        ready = shutil.copytree(locked, Path(draft, "ready"))
        # Nothing that a package brings is run while it is installed.
        done = subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=ready,
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            tail = "\n".join(done.stderr.splitlines()[-15:])
            raise ServiceAway(f"npm did not fetch {folder.name}:\n{tail}")
        shutil.move(ready, folder)
