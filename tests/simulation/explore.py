"""Many histories, one seed each; what was met on the way is counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from tests.simulation.histories import History, Outcome, make_history, play


@dataclass
class Tally:
    """What an exploration has met.

    Args:
        histories: How many were played.
        events: How many events happened.
        ticks: At how many boundaries processes were.
        seconds: Of processor time.
        pairs: Histories in which two kinds of events met; `proceed` stands for the setting.
        errors: Processes by how they ended.
        incidents: By class.
    """

    histories: int = 0
    events: int = 0
    ticks: int = 0
    seconds: float = 0
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    incidents: Counter[str] = field(default_factory=Counter)

    def add(self, history: History, outcome: Outcome, seconds: float) -> None:
        """Count a history."""
        self.histories += 1
        self.events += outcome.events
        self.seconds += seconds
        self.ticks += sum(p.ticks for p in outcome.world.processes)
        names = {str(e[0]) for e in history.events[: outcome.events]}
        names |= {"proceed"} & {str(history.options.get("on_incident"))}
        self.pairs.update(combinations(sorted(names), 2))
        self.errors += outcome.ended
        self.incidents += outcome.incidents

    def __str__(self) -> str:
        rate = self.histories / self.seconds * 60 if self.seconds else 0
        errors = ", ".join(f"{name} {count}" for name, count in self.errors.most_common())
        found = ", ".join(f"{name} {count}" for name, count in self.incidents.most_common())
        return (
            f"{self.histories} histories, {rate:,.0f} a minute of processor time; {self.events}"
            f" events, {len(self.pairs)} pairs of kinds of events, {self.ticks} boundaries\n"
            f"processes ended: {errors}\nincidents: {found}"
        )


def explore(
    seeds: Iterable[int],
    tally: Tally,
    length: int = 40,
    seconds: float = float("inf"),
    often: Collection[str] = (),
) -> Iterator[tuple[History, Outcome]]:
    """Play histories.

    Args:
        seeds: One history each.
        tally: What is met goes there.
        length: Events in a history, at most.
        seconds: Stop after so much time.
        often: Kinds of events that every history may have, and more often than others.
    """
    end = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > end:
            return
        began = time.process_time()
        history = make_history(seed, length, often)
        outcome = play(history)
        tally.add(history, outcome, time.process_time() - began)
        yield history, outcome


def until_met(
    pair: tuple[str, str], seeds: Iterable[int], tally: Tally
) -> Iterator[tuple[History, Outcome]]:
    """Play histories about two kinds of events until both have happened in one."""
    for played in explore(seeds, tally, often=pair):
        yield played
        if pair in tally.pairs:
            return
