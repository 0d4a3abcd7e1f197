"""The folder for downloads: outside of the checkout, shared by all checkouts of a user.

What lies there is executed. So it has to be the user's own or root's, and nobody else may be able
to write it, nor any folder above it up to the cache itself.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tideline.errors import BadInput


def cache_folder() -> Path:
    """`TIDELINE_CACHE`, otherwise `tideline` in the user's cache folder (XDG Base Directory)."""
    own = os.environ.get("TIDELINE_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(shared) / "tideline"


def own_folder(*parts: str) -> Path:
    """A folder of the cache, made where it is missing.

    Raises:
        BadInput: Somebody else could have put files there.
        OSError: It cannot be made.
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
