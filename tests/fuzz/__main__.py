"""Fold random histories, or replay one: `make fuzz SEED=1 MINUTES=10`.

    python -m tests.fuzz --minutes 10 --seed 1       every profile in turn, from that seed on
    python -m tests.fuzz --histories 20 --profiles eras keys
    python -m tests.fuzz --without-spark             its views are left out
    python -m tests.fuzz --replay FILE               a printed history
    python -m tests.fuzz --replay FILE --shrink      the shortest that fails alike

Exit status 1 if a history fails; the first of each kind is printed, so that it can be replayed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from devstack.spark_apps import InProcessSpark
from tests.fuzz.histories import PROFILES, History, make_history
from tests.fuzz.play import Outcome, play


def main() -> int:
    """Fold, or replay."""
    options = _options()
    spark = None if options.without_spark else InProcessSpark(is_small=False)
    if spark is not None:
        spark.session.conf.set("spark.sql.shuffle.partitions", "2")  # rows are few, tasks cost
    try:
        if options.replay:
            history = History.load(Path(options.replay).read_text())
            return _replayed(spark, history, shorten=options.shrink)
        return _explored(spark, options)
    finally:
        if spark is not None:
            spark.stop()


def played(spark: InProcessSpark | None, history: History) -> Outcome:
    """A history, in a folder of its own that goes with it."""
    with tempfile.TemporaryDirectory(prefix="tideline-fuzz-") as folder:
        return play(history, spark, Path(folder))


def kinds_of(outcome: Outcome) -> list[str]:
    """The classes of what is wrong, each once."""
    return [*dict.fromkeys(p.partition(":")[0] for p in outcome.problems)]


def _explored(spark: InProcessSpark | None, options: argparse.Namespace) -> int:
    profiles, began = options.profiles, time.monotonic()
    failed: Counter[tuple[str, str]] = Counter()
    histories: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    for profile, seed in islice(_places(options), options.histories):
        if time.monotonic() - began > 60 * (options.minutes or float("inf")):
            break
        history = make_history(seed, profile, options.folds)
        outcome = played(spark, history)
        histories[profile] += 1
        compared.update(outcome.counts)
        if options.each:
            print(f"== {profile} {history.seed}: {'; '.join(kinds_of(outcome))}", flush=True)
        for kind in kinds_of(outcome):
            failed[profile, kind] += 1
            if failed[profile, kind] == 1:
                print(f"---- {profile}, seed {history.seed}, after {outcome.events} events")
                if options.print:
                    print(history.dump())
                problems = [p for p in outcome.problems if p.startswith(kind)]
                print(f"!! {problems[0]}", flush=True)
    seconds = time.monotonic() - began
    print(f"{histories.total()} histories in {seconds:.0f} s: {dict(compared)}")
    for profile in profiles:
        kinds = {kind: n for (p, kind), n in failed.items() if p == profile}
        print(f"{profile}: {histories[profile]} histories; failed: {kinds or 'none'}")
    return 1 if failed else 0


def _places(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Profiles and seeds, in turn."""
    for seed in options.seeds or count(options.seed):
        for profile in options.profiles:
            yield profile, seed


def _replayed(spark: InProcessSpark | None, history: History, *, shorten: bool) -> int:
    outcome = played(spark, history)
    if shorten and outcome.problems:
        history = _shrunk(spark, history, kinds_of(outcome)[0])
        outcome = played(spark, history)
        print(history.dump())
    print("\n".join(f"!! {p}" for p in outcome.problems) or "nothing is wrong")
    return 1 if outcome.problems else 0


def _shrunk(spark: InProcessSpark | None, history: History, kind: str) -> History:
    """Fewer events that fail alike, half of them at a time, then quarters, and so on."""
    size = len(history.events) // 2
    while size:
        start = 0
        while start < len(history.events):
            events = history.events
            shorter = replace(history, events=events[:start] + events[start + size :])
            if kind in kinds_of(played(spark, shorter)):
                history = shorter
            else:
                start += size
        size //= 2
    return history


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="these and no others")
    parser.add_argument("--minutes", type=float, help="how long; 10, unless --histories is given")
    parser.add_argument("--histories", type=int, help="how many at most")
    parser.add_argument(
        "--profiles", nargs="+", default=[*PROFILES], choices=[*PROFILES], metavar="NAME"
    )
    parser.add_argument("--without-spark", action="store_true", help="leave its views out")
    parser.add_argument("--folds", type=int, default=3, help="in a history, about")
    parser.add_argument("--print", action="store_true", help="print what fails, to be replayed")
    parser.add_argument("--each", action="store_true", help="a line for each history")
    parser.add_argument("--replay", metavar="FILE", help="a printed history")
    parser.add_argument("--shrink", action="store_true", help="make it as short as it fails")
    options = parser.parse_args()
    if options.minutes is None and options.histories is None and not options.seeds:
        options.minutes = 10
    return options


if __name__ == "__main__":
    sys.exit(main())
