"""Who gives a command: the user of the operating system, marked as such."""

from __future__ import annotations

import os
import pwd


def os_user(on_behalf_of: str | None = None) -> str:
    """For the ledger: `os:` and the user, whom no variable names; then for whom they say they act.

    Args:
        on_behalf_of: The name that was typed in.
    """
    number = os.geteuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run as a user whom nobody has named
        name = str(number)
    return f"os:{name}" if on_behalf_of is None else f"os:{name} (for {on_behalf_of[:100]})"
