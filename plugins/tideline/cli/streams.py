"""Standard output and standard error of a command: readers close them, and disks are full.

What cannot be written to standard output is the answer, so the command ends with a failure. What
cannot be written to standard error is lost, and the command goes on: nobody is left to be told.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from tideline.errors import ServiceAway, TidelineError
from tideline.model.wording import system_message

READER_GONE = 128 + signal.SIGPIPE
"""The exit status where the reader of standard output has gone, as `head` goes."""


class Untold(Exception):
    """Standard output takes no more. No OSError: whoever expects one expects another file's."""

    def __init__(self, why: OSError) -> None:
        super().__init__(str(why))
        self._why = why

    @property
    def error(self) -> TidelineError | None:
        """What the command says of it; None where nobody reads on."""
        if isinstance(self._why, BrokenPipeError):
            return None
        return ServiceAway(
            f"standard output cannot be written: {system_message(self._why)}. The answer is not"
            " told, and what the command has done stays done. Free space or send the output"
            " elsewhere, then run the command again"
        )


class _Stream:
    """A text stream that says in its own way that it cannot be written.

    Args:
        stream: Which.
        failed: Is told why.
    """

    def __init__(self, stream: Any, failed: Callable[[OSError], None]) -> None:
        self._stream = stream
        self._failed = failed

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:  # a locale without the character
            name = self._stream.encoding
            self.write(text.encode(name, "backslashreplace").decode(name))
        except OSError as error:
            self._failed(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _raise(why: OSError) -> None:
    raise Untold(why) from why


@contextmanager
def own_streams() -> Iterator[None]:
    """Until the command has ended, its streams are those of this module."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast(Any, _Stream(sys.stdout, _raise))
    sys.stderr = cast(Any, _Stream(sys.stderr, lambda _: None))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def give_up_answer() -> None:
    """What is left of the answer goes nowhere, so that the end of the process does not fail."""
    with suppress(OSError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
