"""A child process that never outlives the wait for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence


class Child:
    """One child process at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command to its end; its output goes to standard error.

        Returns:
            The exit status; negative is the number of the signal that ended it.

        Raises:
            OSError: It could not be started.
        """
        self._process = subprocess.Popen(command, env=dict(environment), stdout=sys.stderr.fileno())
        try:
            return self._process.wait()
        finally:
            self.stop()
            self._process.wait()

    def stop(self) -> None:
        """Kill the process if it runs, without waiting: a signal handler may call this.

        A handler interrupts `run` while it holds the lock of `Popen.wait`: waiting here as well
        would never end.
        """
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
