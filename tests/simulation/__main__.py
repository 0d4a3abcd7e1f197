"""Explore, or replay one history: `make simulation SEED=1 MINUTES=10`.

    python -m tests.simulation --minutes 10 --seed 1      from that seed on
    python -m tests.simulation --seed 7 --only            that one, shrunk if it fails
    python -m tests.simulation --minutes 2 --pairs        how often two kinds of events met
    python -m tests.simulation --histories 10000 --often skew pass_time
                                                          leases run out, clocks 10 minutes apart
    python -m tests.simulation --series others            what others do, at every boundary
    python -m tests.simulation --replay FILE              a printed history

Exit status 1 if a history fails; it is printed, shrunk, so that it can be replayed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from tests.simulation.duels import SERIES, fight
from tests.simulation.events import KINDS
from tests.simulation.explore import Tally, explore, until_met
from tests.simulation.histories import History, Outcome, make_history, play
from tests.simulation.known import known_fault
from tests.simulation.shrink import kind_of, shrink

_TRIES = 50
"""Histories about two kinds of events, at most, that chance did not bring together."""


def main() -> int:
    """Explore or replay."""
    options = _options()
    if options.replay or options.only:
        history = (
            History.load(Path(options.replay).read_text())
            if options.replay
            else make_history(options.seed, options.length, options.often)
        )
        return _show(history, play(history), shorten=not options.replay)
    if options.series:
        return _play_series(options.series, options.every)
    failed: dict[str, int] = {}
    tally = Tally()
    seeds = itertools.islice(itertools.count(options.seed), options.histories)
    seconds = float("inf") if options.minutes is None else 60 * options.minutes
    _explore(explore(seeds, tally, options.length, seconds, options.often), failed, options.first)
    print(tally)
    if options.pairs:
        never = sorted(set(combinations(sorted(KINDS), 2)) - set(tally.pairs))
        for pair in never:  # chance has left it out: histories that are about these two
            tries = range(options.seed, options.seed + _TRIES)
            _explore(until_met(pair, tries, tally), failed, options.first)
        for pair, count in sorted(tally.pairs.items()):
            print(f"{' x '.join(pair)}: {count}{' (made to meet)' if pair in never else ''}")
        left = [" x ".join(pair) for pair in never if pair not in tally.pairs]
        print("never met:", ", ".join(left) or "none")
    print(f"failed: {failed or 'none'}")
    return 1 if failed else 0


def _explore(
    histories: Iterable[tuple[History, Outcome]], failed: dict[str, int], only_first: bool
) -> None:
    """Show the first failure of each kind; its seed goes into `failed`."""
    for history, outcome in histories:
        kind = kind_of(outcome.problems)
        if kind and not known_fault(outcome.problems) and kind not in failed:
            failed[kind] = history.seed
            _show(history, outcome, shorten=True)
            if only_first:
                return


def _play_series(name: str, every: int) -> int:
    """Each duel of a series; counts what was played, and shows the first failure of each kind."""
    played: Counter[str] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for number, duel in enumerate(SERIES[name]()):
        for history, problems in fight(duel, every, number % every):
            played[duel.first] += 1
            if not problems or known_fault(problems):
                continue
            kind = (f"{duel.first}, {duel.befalls}, {duel.worldly}", kind_of(problems) or "")
            failed[kind] += 1
            if failed[kind] == 1:
                print(f"---- {duel}\n{history.dump()}!! {problems[0]}", flush=True)
    print(f"{name}: {played.total()} histories: {dict(played)}\nfailed: {dict(failed) or 'none'}")
    return 1 if failed else 0


def _show(history: History, outcome: Outcome, *, shorten: bool) -> int:
    if not outcome.problems:
        print(f"seed {history.seed}: nothing is wrong")
        return 0
    if shorten:
        history = shrink(history)
        outcome = play(history)
    print(f"---- seed {history.seed}\n{history.dump()}")
    for process in outcome.world.processes:
        print(f"{process}: {_ended(process.dead, process.error)}")
    for problem in outcome.problems:
        print(f"!! {problem}")
    return 1


def _ended(dead: bool, error: Exception | None) -> str:
    return "killed" if dead else f"{type(error).__name__}: {error}"[:300] if error else "ended well"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--minutes", type=float, help="how long; 10, unless --histories is given")
    parser.add_argument("--histories", type=int, help="how many at most; one seed each")
    parser.add_argument("--often", nargs="+", default=(), choices=sorted(KINDS), metavar="KIND")
    parser.add_argument(
        "--series",
        choices=sorted(SERIES),
        help="every boundary of two processes and one event (duels.py), instead of chance",
    )
    parser.add_argument("--every", type=int, default=1, help="of --series: each n-th boundary")
    parser.add_argument("--length", type=int, default=40, help="events in a history, at most")
    parser.add_argument("--only", action="store_true", help="that seed only")
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    parser.add_argument("--pairs", action="store_true", help="print which events met, how often")
    parser.add_argument("--replay", metavar="FILE", help="a printed history")
    options = parser.parse_args()
    if options.minutes is None and options.histories is None:
        options.minutes = 10
    return options


if __name__ == "__main__":
    sys.exit(main())
