"""Processes of another user of this machine: what they cannot read, they do not share with us."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil

from tideline.errors import BadInput

USERS = ("nobody", "daemon")
"""Users that every Linux has, and that own nothing. Hadoop refuses ids without a name."""


class OtherUser:
    """A user without rights on our folders, with one folder of its own.

    Args:
        name: Known to the system.

    Raises:
        BadInput: Only root may start processes of another user.
    """

    def __init__(self, name: str) -> None:
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            raise BadInput("only root, with setpriv(1), can start processes of another user")
        found = pwd.getpwnam(name)
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"tideline-{name}-"))  # mode 0700
        os.chown(self.folder, found.pw_uid, found.pw_gid)
        ids = (f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}")
        in_folder = ("env", "-C", str(self.folder))
        self.prefix = (*in_folder, "setpriv", *ids, "--clear-groups", "--no-new-privs", "--")

    @property
    def variables(self) -> dict[str, str]:
        """All variables that its processes have: none of ours."""
        home = str(self.folder)
        return {"HOME": home, "TMPDIR": home, "PATH": os.defpath, "LC_ALL": "C.UTF-8"}

    def may_read(self, path: str | os.PathLike[str]) -> bool:
        """Whether it can read a file, or list a folder."""
        command = [*self.prefix, "test", "-r", os.path.realpath(path)]
        return subprocess.run(command, env=self.variables, check=False).returncode == 0

    def make_folder(self, name: str) -> Path:
        """A folder of its own inside of its folder."""
        made = self.folder / name
        made.mkdir()
        owner = self.folder.stat()
        os.chown(made, owner.st_uid, owner.st_gid)
        return made

    def write(self, path: Path, text: str) -> None:
        """Write a file inside of its folder that it alone may read and write."""
        path.touch(0o600)
        path.write_text(text)
        owner = self.folder.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    def copy(self, name: str, files: Iterable[Path]) -> Path:
        """A folder of its own with copies of files."""
        made = self.make_folder(name)
        for file in files:
            shutil.copy(file, made)
        return made

    def end_all(self) -> None:
        """Kill the processes that still have its folder as home."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.folder):
                    process.kill()

    def remove(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
