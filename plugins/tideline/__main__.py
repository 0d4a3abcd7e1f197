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
    try:
        from tideline.cli.main import main

        status = main()
    except SystemExit as leaving:
        if not isinstance(leaving.code, int):
            raise  # with a text to print
        status = leaving.code
    except KeyboardInterrupt:  # before the command has begun, or a second one while it ends
        print("interrupted: no work is lost. Run the same command again", file=sys.stderr)
        status = 130
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # its reader has closed it
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    run()
