"""Folders of this user alone: for downloads, for sockets of warm drivers, for jobs and what spills.

The cache lies outside of the checkout and is shared by all checkouts of a user. What lies there is
executed. So it has to be the user's own or root's, and nobody else may be able to write it, nor any
folder above it up to the cache itself.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tideline.errors import BadInput


def cache_folder() -> Path:
    """`TIDELINE_CACHE`, otherwise `tideline` in the user's cache folder (XDG Base Directory)."""
    own = os.environ.get("TIDELINE_CACHE")
    if own:
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(shared) / "tideline"


def own_folder(*parts: str) -> Path:
    """A folder of the cache, made where it is missing.

    Raises:
        BadInput: Somebody else could have put files there.
    """
    folder = cache_folder().joinpath(*parts)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o755, exist_ok=True)
    refuse_foreign(folder)
    return folder


@contextmanager
def replaced(target: Path) -> Iterator[Path]:
    """Where to write a file, which then takes the target's place at once.

    Until then it lies in a folder that nobody else can enter, of a name that nobody can guess.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as place:
        draft = Path(place, target.name)
        yield draft
        draft.replace(target)


def refuse_foreign(path: Path) -> None:
    """Refuse a file or folder that somebody else could have written.

    Raises:
        BadInput: Another user owns it or may write it, or a folder above it; it is named.
    """
    if (found := foreign(path)) is not None:
        is_now = found.lstat() if found.is_symlink() else found.stat()
        raise BadInput(
            f"{found}: owned by user {is_now.st_uid}, mode {is_now.st_mode & 0o7777:04o};"
            f" what Tideline executes has to be owned by user {os.geteuid()} or root, and writable"
            " by nobody else. Remove it, or name a folder of your own in TIDELINE_CACHE or"
            " TIDELINE_SPARK_JARS",
            path=str(found),
        )


def foreign(path: Path) -> Path | None:
    """The path, or the folder above it, that somebody else could have written; None if none.

    Folders are looked at up to the cache; outside of it, the one with the file.

    Args:
        path: May be missing.
    """
    top = cache_folder().absolute()
    path = path.absolute()
    above = [folder for folder in path.parents if folder.is_relative_to(top)] or [path.parent]
    for one in (path, *above):
        with suppress(FileNotFoundError, NotADirectoryError):
            # Whoever owns a link may lead it elsewhere, at any moment.
            if not _is_own(one.stat()) or not _is_of_us(one.lstat()):
                return one
    return None


def _is_own(found: os.stat_result) -> bool:
    """Whether this user or root alone decides what it holds; their own group may, too."""
    by_others = found.st_mode & stat.S_IWOTH
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid != os.getegid()
    is_shared = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX  # as /tmp is
    is_private = is_shared or not (by_others or by_group)
    return _is_of_us(found) and bool(is_private)


def _is_of_us(found: os.stat_result) -> bool:
    return found.st_uid in (os.geteuid(), 0)


BEAT_SECONDS = 5
"""So often a driver says that it lives."""
_LONGEST_TMPDIR = 50
"""Bytes. A socket's whole path may have 107 (unix(7))."""
SILENCE_SECONDS = 60
"""Who is silent for so long is given up: a process was stopped, or its machine is overloaded."""


def runtime_folder() -> Path | None:
    """The folder of this user's sockets: `TIDELINE_RUNTIME`, else one that goes with the machine.

    `su` and `sudo -E` keep `XDG_RUNTIME_DIR`: one that somebody else owns is passed over.

    Returns:
        None if somebody else owns or may enter that folder, or it cannot be made: nothing is
        shared then.
    """
    own, session = os.environ.get("TIDELINE_RUNTIME"), os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(_temporary(), f"tideline-{os.geteuid()}")
    if own:
        folder = Path(own).absolute()
    elif session and _is_mine(session):
        folder = Path(session, "tideline")
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if is_private and stat.S_ISDIR(found.st_mode):
            return folder
    return None


def folder_of_this_run() -> tempfile.TemporaryDirectory[str]:
    """A folder that nobody else finds."""
    return tempfile.TemporaryDirectory(
        prefix="tideline-", dir=_temporary(), ignore_cleanup_errors=True
    )


def _temporary() -> str:
    """`TMPDIR`, unless it is too long for the path of a socket."""
    found = tempfile.gettempdir()
    return found if len(os.fsencode(found)) <= _LONGEST_TMPDIR else "/tmp"  # noqa: S108


def _is_mine(folder: str) -> bool:
    with suppress(OSError):
        return os.stat(folder).st_uid == os.geteuid()
    return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else looks for, starts or ends a driver meanwhile.

    Raises:
        TimeoutError: Another process keeps the lock; it may have been stopped.
    """
    with open(folder / "lock", "w") as lock:
        until = time.monotonic() + SILENCE_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError(f"another process keeps {folder}/lock") from None
                time.sleep(0.02)
        yield


def identity(address: Path) -> tuple[int, int] | None:
    """Tells a socket's file from a later one of the same name; None if there is none."""
    try:
        found = address.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def remove_driver_files(address: Path) -> None:
    """Remove a driver's socket and log; nobody finds it any more."""
    for file in (address, address.with_suffix(".log")):
        with suppress(OSError):
            file.unlink(missing_ok=True)


def free_bytes() -> int:
    """Memory that this process may still take: of the machine, and of its control group (v2)."""
    text = Path("/proc/meminfo").read_text()
    free = next(int(line.split()[1]) for line in text.splitlines() if "MemAvailable" in line) * 1024
    with suppress(OSError, ValueError):  # no group, or no limit
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        free = min(free, most - int((group / "memory.current").read_text()))
    return free


def opened(log_file: Path) -> IO[bytes]:
    """A driver's log; nothing if somebody has tidied it away, since its driver serves on."""
    try:
        return log_file.open("rb")
    except FileNotFoundError:
        return open(os.devnull, "rb")


def rights() -> list[str]:
    """What decides who may read the files that a driver writes: its group and its umask."""
    status = Path("/proc/self/status").read_text()
    umask = next(line for line in status.splitlines() if line.startswith("Umask:"))
    return [f"{os.getegid()}", umask]


PREFIX = "tideline-job-"
SPILLS = "SPARK_LOCAL_DIRS"
"""Where Spark keeps blocks that do not stay in memory; with commas between several."""


class PrivateFolder:
    """A folder of mode 0700, until `remove` or this process ends: for jobs, and what Spark spills.

    As a context manager it gives its path, and goes at the end of the block. Its owner keeps a lock
    on it, which the system gives back when the process has ended, however it has. Whoever makes the
    next one removes those of this user that nobody has locked: so no kill keeps a secret.

    Args:
        place: Where it is made; the folder for temporary files if None.
    """

    def __init__(self, place: Path | None = None) -> None:
        place = place or Path(tempfile.gettempdir())
        _sweep(place)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
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


def spill_folders() -> list[PrivateFolder]:
    """Folders for Spark's blocks: one in each place that the site names in `SPARK_LOCAL_DIRS`.

    Spark itself makes folders there that everybody can read.
    """
    named = os.environ.get(SPILLS, "").split(",")
    places = [Path(name).absolute() for name in named if name] or [Path(tempfile.gettempdir())]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    return [PrivateFolder(place) for place in places]


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
