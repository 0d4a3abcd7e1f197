"""Programs of Go modules, built once into the cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import BadInput, ServiceAway
from tideline.launch.runtime import cache_folder, refuse_foreign

_BUILD_SECONDS = 1500


def made_once(program: Path, folder: Path, make: Callable[[Path], None]) -> None:
    """Make a program in the cache unless it is there; who comes second waits for the first.

    Args:
        program: Its file.
        folder: The program's own folder.
        make: Puts the folder there, whole at once.
    """
    if program.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            make(folder)


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A program to build.

    Args:
        package: Its package; the last part is the program's name.
        version: The module's version.
        tags: Build tags.
    """

    package: str
    version: str
    tags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program's name."""
        return self.package.rsplit("/", 1)[-1]

    @property
    def file(self) -> Path:
        """Where the cache has it."""
        return cache_folder() / "go" / f"{self.name}-{self.version}" / self.name

    @property
    def can_be_had(self) -> bool:
        """Whether it is there, or can be built."""
        return self.file.exists() or shutil.which("go") is not None

    def built(self) -> Path:
        """The program, built if it is not in the cache.

        Raises:
            BadInput: There is no Go.
            ServiceAway: Go cannot build it, or cannot reach its module proxy.
        """
        made_once(self.file, self.file.parent, self._build)
        refuse_foreign(self.file)
        return self.file

    def _build(self, folder: Path) -> None:
        print(f"building {self.name} into {folder}", file=sys.stderr)
        go = shutil.which("go")
        if go is None:
            raise BadInput(
                f"{self.name} needs Go 1.25 or newer to be built; install it, then run again"
            )
        with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
            ready = Path(draft, "bin")
            # Not Go's own caches, which would keep 3 GB. Go writes its modules read-only.
            own = {"GOBIN": str(ready), "GOPATH": f"{draft}/path", "GOCACHE": f"{draft}/cache"}
            flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
            env = {**os.environ, **own, "CGO_ENABLED": "0", "GOFLAGS": flags}
            tags = ["-tags", ",".join(self.tags)] if self.tags else []
            command = [go, "install", *tags, f"{self.package}@{self.version}"]
            done = subprocess.run(
                command,
                env=env,
                capture_output=True,
                text=True,
                timeout=_BUILD_SECONDS,
                check=False,
            )
            if done.returncode != 0:
                tail = "\n".join(done.stderr.splitlines()[-25:])
                raise ServiceAway(f"Go did not build {self.package} {self.version}:\n{tail}")
            shutil.move(ready, folder)
