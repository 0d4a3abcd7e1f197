"""Folders for files that hold secrets: nobody else can enter them, and no kill keeps them.

The owner keeps a lock on its folder; the system gives a lock back when its process has ended,
however it has. Whoever makes the next folder removes those of this user that nobody has locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "tideline-job-"


class PrivateFolder:
    """A folder in the one for temporary files, of mode 0700, until `remove` or this process ends.

    As a context manager it gives its path, and goes at the end of the block.
    """

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            try:
                self._lock = _opened(self.path)
            except FileNotFoundError:
                continue  # somebody sweeps, and has taken it for one that was left
            with suppress(OSError):  # where nothing can be locked, nobody sweeps either
                fcntl.flock(self._lock, fcntl.LOCK_SH)  # after who sweeps it now
            if _is(self.path, self._lock):
                return
            os.close(self._lock)

    def remove(self) -> None:
        """Remove it and what it holds; does nothing if that has happened."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _sweep(place: Path) -> None:
    """Remove what dead processes of this user have left; links are not followed."""
    with os.scandir(place) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for name in names:
        with suppress(OSError):  # gone meanwhile, or another user's, or its owner lives
            _remove_left(Path(name))


def _remove_left(folder: Path) -> None:
    lock = _opened(folder)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(folder, lock):
                shutil.rmtree(folder)
    finally:
        os.close(lock)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _is(folder: Path, descriptor: int) -> bool:
    """Whether a path still names the folder that was opened."""
    try:
        return os.path.samestat(folder.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
