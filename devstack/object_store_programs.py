"""The programs of S3-compatible servers, fetched or built once into the cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tideline.errors import BadInput, ServiceAway
from tideline.launch.cache import cache_folder, refuse_foreign
from tideline.launch.jars import fetch
from tideline.versions import S3PROXY_JARS, VERSITYGW

_BUILD_SECONDS = 900


def proxy_jars() -> list[Path]:
    """The jars of S3Proxy, fetched if they are not in the cache.

    Raises:
        ServiceAway: Maven Central cannot be reached.
    """
    return fetch("s3proxy", S3PROXY_JARS)


def has_go() -> bool:
    """Whether versitygw's program is there, or can be built."""
    return _gateway_file().exists() or shutil.which("go") is not None


def gateway_program() -> Path:
    """The program of versitygw, built if it is not in the cache.

    Raises:
        BadInput: There is no Go.
        ServiceAway: Go cannot build it, or cannot reach its module proxy.
    """
    program = _gateway_file()
    if not program.exists():
        program.parent.parent.mkdir(parents=True, exist_ok=True)
        with open(program.parent.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists():
                print(f"building versitygw into {program.parent}", file=sys.stderr)
                _build(program.parent)
    refuse_foreign(program)
    return program


def _gateway_file() -> Path:
    return cache_folder() / "go" / f"versitygw-{VERSITYGW[1]}" / "versitygw"


def _build(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise BadInput("versitygw needs Go 1.24 or newer to be built; install it, then run again")
    module, version = VERSITYGW
    with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
        ready = Path(draft, "bin")
        # Not Go's own caches, which would keep 1 GB. Go writes its modules read-only.
        own = {"GOBIN": str(ready), "GOPATH": f"{draft}/path", "GOCACHE": f"{draft}/cache"}
        flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
        env = {**os.environ, **own, "CGO_ENABLED": "0", "GOFLAGS": flags}
        command = [go, "install", f"{module}@{version}"]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
        )
        if done.returncode != 0:
            tail = "\n".join(done.stderr.splitlines()[-25:])
            raise ServiceAway(f"Go did not build {module} {version}:\n{tail}")
        shutil.move(ready, folder)


if __name__ == "__main__":
    proxy_jars()
