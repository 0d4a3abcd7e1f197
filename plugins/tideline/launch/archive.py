"""Class-data sharing: Spark's classes, parsed and checked once, for each JVM after that.

Loading classes takes most of Spark's start. A JVM without an archive notes which classes it loads;
after its end they are written to an archive, which later JVMs with the same Java, jars and options
map into memory ("Class Data Sharing" in Oracle's guide to the Java virtual machine). A JVM that
finds that an archive does not fit goes on without it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tideline.errors import BadInput
from tideline.launch.cache import cache_folder, foreign, own_folder

_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:class+path=off")
_UNUSED_SECONDS = 14 * 86_400
_WRITING_SECONDS = 900


class ClassArchive:
    """The archive for one command of a JVM.

    Args:
        command: Java, class path and options. The archive's name is made of them and of each
            file's size and time, which the JVM checks as well.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self.path = cache_folder() / "archives" / f"spark-{files_digest(command)}.jsa"
        self._classes = self.path.with_suffix(f".{uuid.uuid4().hex}.classes")

    def options(self) -> list[str]:
        """Options of a JVM: use the archive, or else note the classes for it.

        None of both where somebody else could have written the archive.
        """
        if foreign(self.path) is not None:
            return []
        if self.path.exists():
            with suppress(OSError):
                os.utime(self.path)  # `_drop_unused` looks at it
            return [f"-XX:SharedArchiveFile={self.path}", *_QUIET]
        try:
            own_folder("archives")
            self._classes.touch(mode=0o600, exist_ok=False)
        except (OSError, BadInput):
            return []  # a cache that nobody can write, or everybody
        return [f"-XX:DumpLoadedClassList={self._classes}", *_QUIET]

    def write(self) -> None:
        """Write the archive of what a JVM with `options` has noted until its end.

        Does nothing if it has noted nothing, or if the archive cannot be written: that costs time
        only. Takes about half a minute of a processor.
        """
        if not self._classes.exists():
            return
        try:
            with suppress(OSError), open(self.path.parent / "lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # or somebody else writes it now
                if not self.path.exists():
                    self._dump()
        finally:
            self.forget()

    def discard(self) -> None:
        """Remove an archive with which a JVM has crashed: it would stop all that come after."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Remove what the JVM has noted."""
        with suppress(OSError):
            self._classes.unlink(missing_ok=True)

    def _dump(self) -> None:
        """Write it; called with the lock, so drafts that lie there are of writers that died."""
        for left in self.path.parent.glob("spark-*.draft"):
            left.unlink(missing_ok=True)
        draft = self._classes.with_suffix(".draft")
        java, *options = self._command
        dump = [java, "-Xshare:dump", f"-XX:SharedArchiveFile={draft}", *options, *_QUIET[1:]]
        try:
            subprocess.run(
                [*dump, f"-XX:SharedClassListFile={self._classes}"],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=_WRITING_SECONDS,
            )
            draft.replace(self.path)
            _drop_unused(self.path.parent)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"no class archive: {error}", flush=True)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def files_digest(command: Sequence[str]) -> str:
    """Stands for a JVM's command, and for the content of its Java and jars.

    Raises:
        OSError: One of them is missing.
    """
    digest = hashlib.sha256("\0".join(command).encode())
    for file in (os.path.realpath(command[0]), *command[command.index("-cp") + 1].split(":")):
        found = os.stat(file)
        digest.update(f"{file}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _drop_unused(folder: Path) -> None:
    """Remove what no JVM has used for two weeks: archives of old jars, notes of killed drivers."""
    for file in folder.glob("spark-*"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _UNUSED_SECONDS:
                file.unlink()
