"""`make soak SEED=7 MINUTES=10`: everything at once, in an order that the seed decides.

Ends with status 1 if a record was lost, copied, skipped or left unseen, or if anything was said
that the scenario does not explain. `ACTIONS=N` replays the first N actions instead of a time.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.soak.judge import judge
from tests.soak.scenario import ACTIONS, Scenario


def main() -> int:
    """Run one soak; its exit status."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--actions", type=int, help="this many actions instead of a time")
    parser.add_argument("--ledger", choices=("delta", "airflow"), default="delta")
    options = parser.parse_args()
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    logging.getLogger("tideline").setLevel(logging.CRITICAL)
    done: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tideline-soak-") as folder:
        scenario = Scenario(Path(folder), options.seed, options.ledger)
        try:
            scenario.begin()
            while _goes_on(options, done.total(), began):
                name = scenario.next_action()
                done[name] += 1
                _say(began, done.total(), name, scenario.act(name))
            _say(began, done.total(), "drain", scenario.drain())
            found = judge(scenario)
        except Exception:
            traceback.print_exc()
            found = None
        finally:
            scenario.end()
    seconds = time.monotonic() - began
    kinds = ", ".join(f"{done[name]} {name}" for name in ACTIONS if done[name])
    print(f"\nsoak seed {options.seed}, ledger {options.ledger}: {done.total()} actions in"
          f" {seconds:.0f} s ({kinds})")  # fmt: skip
    print(found or "NOT JUDGED")
    if found is None or not found.is_well:
        print(f"replay: make soak SEED={options.seed} ACTIONS={done.total()}")
        return 1
    return 0


def _goes_on(options: argparse.Namespace, count: int, began: float) -> bool:
    if options.actions is not None:
        return count < options.actions
    return time.monotonic() - began < options.minutes * 60


def _say(began: float, number: int, name: str, outcome: str) -> None:
    short = " ".join(outcome.split())[:140]
    print(f"[{time.monotonic() - began:5.0f} s] {number:4d} {name:<16} {short}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
