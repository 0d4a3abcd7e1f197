"""A child process that never outlives the wait for it, and speaks only if it fails."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import IO

log = logging.getLogger("tideline")


class Child:
    """One child process at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command to its end.

        What it says goes to standard error: with `--verbose` at once, otherwise after its end, and
        only if it has failed. Spark's start says dozens of lines that nobody needs.

        Returns:
            The exit status; negative is the number of the signal that ended it.

        Raises:
            OSError: It could not be started.
        """
        with ExitStack() as after:
            kept: IO[bytes] | None = None
            if not log.isEnabledFor(logging.DEBUG):
                kept = after.enter_context(tempfile.TemporaryFile())
            output = sys.stderr.fileno() if kept is None else kept.fileno()
            self._process = subprocess.Popen(
                command, env=dict(environment), stdout=output, stderr=output
            )
            try:
                status = self._process.wait()
            except BaseException:
                self._end()
                raise
            if kept is not None and status != 0:
                _say(kept)
            return status

    def _end(self) -> None:
        assert self._process is not None
        self.stop()
        self._process.wait()

    def stop(self) -> None:
        """Kill the process if it runs, without waiting: a signal handler may call this.

        A handler interrupts `run` while it holds the lock of `Popen.wait`: waiting here as well
        would never end.
        """
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


def _say(kept: IO[bytes]) -> None:
    """Copy what a child has said to standard error, which may be no file with a buffer."""
    kept.seek(0)
    with open(sys.stderr.fileno(), "wb", closefd=False) as errors:
        shutil.copyfileobj(kept, errors)
