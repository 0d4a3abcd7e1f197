"""Each mend of the fold taken out by hand, and in how many histories the fuzz notices.

A mend is a few replacements in a copy of the package and of these tests (`tests.mutants`): some are
held by checks that stand behind each other. The copy plays histories of the profiles in which the
mend counts. Those that fail there are played here, where they have to end well.

    python -m tests.fuzz.mends_out                            every mend, 20 histories of each
    python -m tests.fuzz.mends_out --histories 40 --seed 7 C1 C4-floors

A name stands for all mends that begin with it. Exit status 1 if one is not noticed, or a history
fails with all of them as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import PACKAGE, Mutant

ROOT = Path(__file__).parents[2]
EACH = "== "
"""Begins the line of a history: `== PROFILE SEED: KIND; KIND`."""
_COPIED = ("plugins", "spark_jobs", "devstack", *(f"tests/{n}" for n in ("fuzz", "mutants")))
_COPIED += ("tests/simulation", "tests/worlds")


@dataclass(frozen=True)
class Mend:
    """What is taken out at once.

    Args:
        mutants: The replacements.
        profiles: Whose histories are played.
    """

    mutants: tuple[Mutant, ...]
    profiles: tuple[str, ...]


_HALTS = Mutant(
    "a truncate halts the fold of a topic of several partitions",
    'if plan.order == "time":',
    "if True:",
    "",
    within="unplaced",
)
_TEXT = Mutant(
    "a key's decimal has one text in each mode of Spark's",
    'return F.when(text.contains("E"), plain).otherwise(text)',
    "return text",
    "",
)
_SETTLED = Mutant(
    "each job has our settings",
    "for key, value in SESSION.items():\n        spark.conf.set(key, value)",
    "pass",
    "",
    within="settle",
)
MENDS: dict[str, Mend] = {
    # a truncate speaks of its own log and of older incarnations; where that is not all, it halts
    "C1-halts": Mend((_HALTS,), ("growth", "incarnations")),
    "C1-log": Mend(
        (
            _HALTS,
            Mutant(
                "a truncate ends changes of its own partition only",
                'is_same &= at["partition"] == barrier.partition',
                "pass",
                "",
            ),
        ),
        ("growth", "incarnations"),
    ),
    "C1-older": Mend(
        (
            Mutant(
                "a truncate ends older incarnations",
                "return (at[ERA] < F.lit(era)) | (is_same & found)",
                "return is_same & found",
                "",
            ),
        ),
        ("incarnations",),
    ),
    "C1-grown": Mend(
        (
            Mutant(
                "a truncate that was folded halts once partitions are added",
                "if plan.barrier is not None:",
                "if False:",
                "",
                within="_counted",
            ),
        ),
        ("growth",),
    ),
    "C1-empty": Mend(
        (
            Mutant(
                "partitions count, whether they have records or not",
                "counts = [max(known.get(i, 1), covered.get(i, 1)) for i in sorted(topic_ids)]",
                "counts = [covered.get(i, 1) for i in sorted(topic_ids)]",
                "",
            ),
        ),
        ("growth",),
    ),
    "C1-view": Mend(
        (
            Mutant(
                "in a view, a truncate ends changes of its own partition only",
                "\" AND {one}.{q('partition')} = {other}.{q('partition')}\"",
                '""',
                "",
            ),
        ),
        ("growth", "incarnations"),
    ),
    # incarnations have the order in which they were followed
    "C2-order": Mend(
        (
            Mutant(
                "a later incarnation counts more, whatever its id",
                "tuple(i for known in self.incarnations for i in known.ids)",
                "tuple(sorted(i for known in self.incarnations for i in known.ids))",
                "",
            ),
        ),
        ("eras",),
    ),
    "C2-reordered": Mend(
        (
            Mutant(
                "a table that was folded in another order is folded anew",
                "if are_reordered(folding, order):",
                "if False:",
                "",
            ),
        ),
        ("eras",),
    ),
    "C2-back": Mend(
        (
            Mutant(
                "generations tell an incarnation that has come back",
                "found = F.when(is_its, n).otherwise(found)",
                "pass",
                "",
            ),
        ),
        ("eras",),
    ),
    # which columns a change may lack is said by their types
    "C3-types": Mend(
        (
            Mutant(
                "values of lists and maps may lack",
                "return _nested(raw, text, kind)",
                "return ()",
                "",
            ),
        ),
        ("maps",),
    ),
    # a sweep's floor in a log whose times go back
    "C4-floors": Mend(
        (
            Mutant(
                "a snapshot's own records are above its floor",
                "for found in (*marked, *since):",
                "for found in since:",
                "",
            ),
            Mutant(
                "the earliest time since the snapshot began counts",
                "min(snapshot.began, earliest or snapshot.began)",
                "snapshot.began",
                "",
            ),
        ),
        ("snapshots",),
    ),
    # a row that a truncate has ended lends its values to no other one
    "C5-fold": Mend(
        (
            Mutant(
                "a value of before all rows went fills nothing",
                "return (gone.isNull() | (at > gone)) & ~is_truncated(plan, barrier, at)",
                "return gone.isNull() | (at > gone)",
                "",
            ),
        ),
        ("truncates",),
    ),
    "C5-late": Mend(
        (
            Mutant(
                "a truncate that comes late has filled rows folded anew",
                "if barrier != plan.barrier:",
                "if False:",
                "",
            ),
        ),
        ("truncates",),
    ),
    "C5-view": Mend(
        (
            Mutant(
                "in a view, a value of before all rows went fills nothing",
                "{both} FROM standing AS c\n  WHERE {changed}) AND NOT EXISTS",
                "{both} FROM (SELECT *, {self._era()} AS {_ERA}, 1 AS {_STANDS} FROM"
                " {self.current}) AS c\n  WHERE {changed}) AND NOT EXISTS",
                "",
            ),
        ),
        ("truncates",),
    ),
    # no setting of Spark's changes what is stored; the first two stand behind each other
    "C6-decimals": Mend((_TEXT, _SETTLED), ("keys",)),
    "C6-settled": Mend((_SETTLED,), ("keys",)),
    # sums tell where the nulls inside of values are
    "C7-nested": Mend(
        (
            Mutant(
                "a row's hash has the nulls inside of values",
                "if plan.sums == OLD_SUMS:",
                "if True:",
                "",
            ),
        ),
        ("forged",),
    ),
    # the history ends rows where all rows went, and has what a change did not bring
    "C8-truncates": Mend(
        (
            Mutant(
                "the history ends where all rows went",
                "if not self._truncates:",
                "if True:",
                "",
                within="history",
            ),
        ),
        ("truncates",),
    ),
    "C8-fills": Mend(
        (
            Mutant(
                "the history lacks no value",
                'f"{q(_FILLED + n)} AS {q(n)}" if n in self._fillable() else q(n) for n in names',
                "q(n) for n in names",
                "",
            ),
        ),
        ("truncates",),
    ),
}
"""What `placeholders` writes in each form of Debezium's is outside: here typed rows are given, and
name themselves what they lack. `tests/cdc/test_toast.py` meets the forms."""

Place = tuple[str, int]
"""A history: its profile and its seed."""


def main() -> int:
    """Take each mend out that is named."""
    options = _options()
    names = [n for n in MENDS if n.startswith(tuple(options.mends))]
    seeds = range(options.seed, options.seed + options.histories)
    missed, noticing = [], set[Place]()
    for name in names:
        found = _without(MENDS[name], seeds)
        failed = {place for place, kinds in found.items() if kinds}
        print(f"{name}: {len(failed)} of {len(found)} histories: {_told(found)}", flush=True)
        missed += [] if failed else [name]
        noticing |= failed
    wrong = _with_all(noticing)
    print(f"with all mends {len(noticing) - len(wrong)} of these {len(noticing)} end well")
    for profile, seed in wrong:
        print(f"!! {profile}, seed {seed} fails with all mends, too")
    print(f"not noticed: {', '.join(missed) or 'none'}")
    return 1 if missed or wrong or not names else 0


def _told(found: Mapping[Place, Sequence[str]]) -> str:
    """Kinds of problems, each with the number of histories."""
    kinds = Counter(kind for of_history in found.values() for kind in of_history)
    return ", ".join(f"{kind} ({n})" for kind, n in kinds.most_common()) or "NOT NOTICED"


def _without(mend: Mend, seeds: Iterable[int]) -> dict[Place, list[str]]:
    """What is wrong in a copy without a mend."""
    with tempfile.TemporaryDirectory(prefix="tideline-mends-out-") as folder:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for part in _COPIED:
            shutil.copytree(ROOT / part, Path(folder, part), ignore=ignored, symlinks=True)
        shutil.copy(ROOT / "tests" / "__init__.py", Path(folder, "tests"))
        for mutant in mend.mutants:
            mutant.apply(Path(folder) / PACKAGE)
        return _played(Path(folder), mend.profiles, seeds)


def _with_all(places: Iterable[Place]) -> list[Place]:
    """Which of these histories fail here."""
    seeds: dict[str, list[int]] = {}
    for profile, seed in sorted(places):
        seeds.setdefault(profile, []).append(seed)
    played = [_played(ROOT, (profile,), of_profile) for profile, of_profile in seeds.items()]
    return [place for found in played for place, kinds in found.items() if kinds]


def _played(root: Path, profiles: Sequence[str], seeds: Iterable[int]) -> dict[Place, list[str]]:
    """What `python -m tests.fuzz` finds wrong in each history, in a process of its own.

    Raises:
        RuntimeError: It did not play all of them.
    """
    wanted = {(profile, seed) for profile in profiles for seed in seeds}
    what = ("--each", "--by", "spark", "--profiles", *profiles, "--seeds", *map(str, seeds))
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *what],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}/plugins:{root}/spark_jobs:{root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith(EACH):
            place, _, kinds = line.removeprefix(EACH).partition(": ")
            profile, seed = place.split()
            found[profile, int(seed)] = [*filter(None, kinds.split("; "))]
    if found.keys() != wanted:
        raise RuntimeError(f"{len(found)} of {len(wanted)} histories: {done.stderr[-2000:]}")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mends_out", description=__doc__)
    parser.add_argument("mends", nargs="*", default=[""], metavar="NAME", help="C1, or C4-floors")
    parser.add_argument("--histories", type=int, default=20, help="of each mend and profile")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
