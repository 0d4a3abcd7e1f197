"""Values of arguments and options as somebody typed them: taken as written, or refused.

An empty one is refused wherever it stands: `--from "$FROM"` with a variable that is not set would
be a live run.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tideline.model.wording import shown
from tideline.texts import NO_TEXT

_LONGEST_RUN_ID = 250
"""Characters; Airflow's ids have as many at most."""
_WHOLE = re.compile(r"-?[0-9]{1,30}")


def _refused(given: str, allowed: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"got {shown(given) if given else 'nothing'}; {allowed}")


def text(given: str) -> str:
    """Any text but an empty one."""
    if not given:
        raise _refused(given, "allowed: a value; is a variable of the shell not set?")
    return given


def _whole(given: str) -> int:
    """Digits, as logs and tables show numbers: no `1_0`, no digits of other scripts."""
    if _WHOLE.fullmatch(given) is None:
        raise _refused(given, "allowed: a whole number, in digits")
    return int(given)


def _share(given: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise _refused(given, "allowed: a share such as 0.01") from None


def _run_id(given: str) -> str:
    if not given.strip() or len(given) > _LONGEST_RUN_ID or NO_TEXT.search(given):
        raise _refused(given, f"allowed: text of at most {_LONGEST_RUN_ID} characters")
    return given


_BY_NAME: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("N", "PARTITION", "OFFSET"), _whole),
    "SHARE": _share,
    "RUN_ID": _run_id,
}


def type_of(name: str) -> Callable[[str], Any]:
    """What reads a value that is called so in a line of usage."""
    return _BY_NAME.get(name, text)


class Once(argparse.Action):
    """Keeps an option's value, and refuses another one: nobody knows which one is meant."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Keep the value."""
        value = self.const if self.nargs == 0 else values
        given: dict[str, Any] = vars(namespace).setdefault("given", {})
        if given.setdefault(self.dest, value) != value:
            raise argparse.ArgumentError(self, "given twice, and not alike; allowed: once")
        setattr(namespace, self.dest, value)
