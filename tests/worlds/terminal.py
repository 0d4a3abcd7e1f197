"""`tideline` as a person sees it: in a terminal."""

import os
import pty
import subprocess
import sys
import threading
from contextlib import contextmanager

from devstack.command_line import ROOT
from devstack.process import wait_until


class Terminal:
    """A terminal of 120 columns and the command in it; `text` is what it was sent by now."""

    def __init__(self, *arguments, env=(), stdout=None):
        ours, theirs = pty.openpty()
        self._received = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tideline", *map(str, arguments)],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "plugins"),
                "COLUMNS": "120",
                "TERM": "xterm",
                **dict(env),
            },
            stdin=theirs,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._ours = ours
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                found = os.read(self._ours, 65536)
            except OSError:  # the last writer has gone
                return
            if not found:
                return
            self._received.append(found)

    @property
    def text(self):
        return b"".join(self._received).decode(errors="replace")

    def wait_for(self, text, timeout_seconds=60):
        """Until it was shown."""
        wait_until(lambda: text in self.text, f"{text} was not shown", timeout_seconds)

    def finish(self, timeout_seconds=300):
        """Its exit status, when all of it was shown; and its standard output, if that is a pipe."""
        output, _ = self.process.communicate(timeout=timeout_seconds)
        self._reader.join(30)
        return self.process.returncode, output


@contextmanager
def terminal(*arguments, **options):
    """A command in a terminal; nothing of it is left after the block."""
    shown = Terminal(*arguments, **options)
    try:
        yield shown
    finally:
        if shown.process.poll() is None:
            shown.process.kill()
        shown.finish(30)
        os.close(shown._ours)
