"""Repeat a compare-and-swap that somebody else won."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from tideline.errors import CommitConflict

Result = TypeVar("Result")


def retry_conflicts(attempt: Callable[[], Result], tries: int) -> Result:
    """Call until no other writer is first, with a growing random pause in between.

    A loop and not tenacity: tasks that ask the cluster nothing do not load Kafka's client, and
    tenacity with it; its import costs them more (about 30 ms) than it would save here.

    Args:
        attempt: Reads, decides and commits; called again from its start.
        tries: At most that many calls.

    Raises:
        CommitConflict: Others were first every time.
    """
    for number in range(1, tries + 1):
        try:
            return attempt()
        except CommitConflict as conflict:
            last = conflict
            time.sleep(random.uniform(0.01, 0.05) * number)
    raise last
