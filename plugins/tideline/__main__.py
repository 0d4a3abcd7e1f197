"""The process of a command: `tideline`, or `python -m tideline`."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

_OBJECTS_PER_COLLECTION = 100_000
"""A command keeps most of what it makes, and lives for seconds: looking for garbage seldom pays."""


def run() -> None:
    """Run one command, and end the process with its exit status.

    The interpreter is not taken apart: that takes a tenth of a second, and a library's thread that
    still works would change the exit status.
    """
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    _open_closed()
    try:
        from tideline.cli.main import main

        status = main()
    except SystemExit as leaving:
        if not isinstance(leaving.code, int):
            raise  # with a text to print
        status = leaving.code
    except KeyboardInterrupt:  # before the command has begun, or a second one while it ends
        with suppress(OSError):
            print("interrupted: no work is lost. Run the same command again", file=sys.stderr)
        status = 130
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # its reader has closed it
            stream.flush()
    os._exit(status)


def _open_closed() -> None:
    """Replace streams that are closed (`>&-`): otherwise a table's file would get their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - as long as the process


if __name__ == "__main__":
    run()
