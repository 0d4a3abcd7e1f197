"""Install packages into this environment: with uv, or with pip where uv cannot do it.

Usage: python -m devstack.install OPTION..., options that uv and pip both have. uv takes a third of
pip's time. It comes by pip and its hash; with either of them, a package whose file has another hash
than the lock's is refused.

uv reads none of pip's settings. Where pip has been told of an index or a proxy, and uv has not, pip
installs. Needs nothing but Python: this is what installs everything else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_LOCK = _ROOT / "requirements" / "uv.txt"
_PLAIN = ("--quiet", "--no-deps")
_PIP = (sys.executable, "-m", "pip")
_UV = (sys.executable, "-m", "uv")
_OF_PIP_ALONE = re.compile(r"\.(?:(?:extra-)?index-url|no-index|proxy)=")


def install(options: Sequence[str]) -> int:
    """Install what the options say; the exit status of whoever has done it.

    Args:
        options: As `pip install` takes them.
    """
    if _may_use_uv():
        command = [*_UV, "pip", "install", "--python", sys.executable, *_PLAIN, *options]
        # As pip does, it trusts what the system trusts, and compiles. Where Python is told to write
        # no bytecode, each process of Airflow would else compile all that it imports.
        variables = {"UV_SYSTEM_CERTS": "true", "UV_COMPILE_BYTECODE": "true", **os.environ}
        status = _run(command, variables)
        if status == 0:
            return 0
        print(f"uv ended with status {status}; pip tries it", file=sys.stderr)
    return _run([*_PIP, "install", *_PLAIN, *options])


def _may_use_uv() -> bool:
    """Whether uv is there, or can be had, and finds what pip would find."""
    if not any(name in os.environ for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX")):
        told = subprocess.run(
            [*_PIP, "config", "list"], capture_output=True, text=True, check=False
        ).stdout
        if _OF_PIP_ALONE.search(told):
            return False
    if find_spec("uv") is not None:
        return True
    status = _run([*_PIP, "install", *_PLAIN, "--require-hashes", "-r", str(_LOCK)])
    if status != 0:
        print("uv cannot be had; pip installs the packages", file=sys.stderr)
    return status == 0


def _run(command: Sequence[str], variables: dict[str, str] | None = None) -> int:
    return subprocess.run(command, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(install(sys.argv[1:]))
