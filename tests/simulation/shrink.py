"""Make a failing history short: fewer events, smaller numbers, and it fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.simulation.histories import History, play


def kind_of(problems: list[str]) -> str:
    """What a failure is, without its numbers."""
    return re.sub(r"[0-9a-f]{16,}|\d+", "#", problems[0])[:60] if problems else ""


def shrink(
    history: History, most_plays: int = 2000, play: Callable[[History], Any] = play
) -> History:
    """The shortest history found that fails in the same way.

    Args:
        history: One that fails.
        most_plays: Give up after so many tries.
        play: Gives `problems`, and how many `events` happened before them.
    """
    outcome = play(history)
    wanted = kind_of(outcome.problems)
    best = replace(history, events=history.events[: outcome.events])
    if kind_of(play(best).problems) != wanted:
        best = history
    left = most_plays
    shorter = True
    while shorter and left > 0:
        shorter = False
        for candidate in _smaller(best):
            left -= 1
            if left <= 0:
                break
            if kind_of(play(candidate).problems) == wanted:
                best, shorter = candidate, True
                break
    return best


def _smaller(history: History) -> Iterator[History]:
    """Histories with less in them: large pieces dropped first, then options, then numbers."""
    events = history.events
    size = len(events) // 2
    while size:
        for start in range(0, len(events), size):
            yield replace(history, events=events[:start] + events[start + size :])
        size //= 2
    for key in history.options:
        is_needed = key == "decode" and {"current", "registry"} & {*history.options}
        is_needed = is_needed or (key == "registry" and "decode" in history.options)
        if key not in ("kafka", "patience_seconds") and not is_needed:
            yield replace(history, options={k: v for k, v in history.options.items() if k != key})
    for number, event in enumerate(events):
        for place, value in enumerate(event[1:], 1):
            for less in {0, int(value) // 2} - {value}:
                changed = (*event[:place], less, *event[place + 1 :])
                yield replace(history, events=(*events[:number], changed, *events[number + 1 :]))
