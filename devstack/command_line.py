"""The command line as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
"""The repository."""


def tideline(
    *arguments: object, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start `tideline` from this checkout, in a process group of its own.

    Args:
        arguments: As a user types them.
        env: More environment variables.
        options: Of `subprocess.Popen`.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "tideline", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins"), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def finished(process: subprocess.Popen[str], timeout_seconds: float = 300) -> tuple[int, Any, str]:
    """Wait for the end of a process.

    Returns:
        Exit status, standard output (parsed if it is JSON), standard error.

    Raises:
        subprocess.TimeoutExpired: It has not ended in time.
    """
    output, errors = process.communicate(timeout=timeout_seconds)
    try:
        answer = json.loads(output)
    except ValueError:
        answer = output
    return process.returncode, answer, errors
