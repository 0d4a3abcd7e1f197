"""Each mend of the fold taken out by hand, and in how many histories the fuzz notices.

A mend is a few replacements in a copy of the package and of these tests (`tests.mutants`): some are
held by checks that stand behind each other. The copy plays histories of the profiles in which the
mend counts. The same histories are played here, where they have to end well.

    python -m tests.fuzz.mends_out                            every mend, 20 histories of each
    python -m tests.fuzz.mends_out --histories 40 --seed 7 C1 C4-floors

C1 and so on are classes: a name stands for all mends that begin with it. Exit status 1 if one is
not noticed, or a history fails with it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cache
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
        profiles: Whose histories are played, in turn.
    """

    mutants: tuple[Mutant, ...]
    profiles: tuple[str, ...]


_HALTS = Mutant(
    "a truncate halts the fold of a topic of several partitions",
    'if plan.order == "time":',
    "if True:",
    "",
    within="_unplaced",
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
    "C4-marks": Mend(
        (
            Mutant(
                "a snapshot's own records are above its floor",
                "for found in (*marked, *since):",
                "for found in since:",
                "",
            ),
        ),
        ("snapshots",),
    ),
    "C4-earliest": Mend(
        (
            Mutant(
                "the earliest time since the snapshot began counts",
                "min(snapshot.began, earliest or snapshot.began)",
                "snapshot.began",
                "",
            ),
        ),
        ("snapshots",),
    ),
    "C4-refused": Mend(
        (
            Mutant(
                "a clock that went back behind the snapshot before is refused",
                "if snapshot.before is not None and earliest is not None"
                " and earliest <= snapshot.before:",
                "if False:",
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
                "FROM filled AS l LEFT JOIN standing AS c ON",
                "FROM filled AS l LEFT JOIN"
                " (SELECT *, {self._era()} AS {_ERA} FROM {self.current}) AS c ON",
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
                "elif isinstance(types[name], _NESTED) and name != UNAVAILABLE:",
                "elif False:",
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

Problems = dict[tuple[str, int], tuple[str, ...]]
"""Kinds of problems by profile and seed; none for a history that ended well."""


def main() -> int:
    """Take each mend out that is named."""
    options = _options()
    names = [n for n in MENDS if n.startswith(tuple(options.mends))]
    failed = [n for n in names if not _is_noticed(n, options.histories, options.seed)]
    print(f"{len(names) - len(failed)} of {len(names)} are noticed; not: {failed or 'none'}")
    return 1 if failed or not names else 0


def _is_noticed(name: str, histories: int, seed: int) -> bool:
    """Whether histories fail without a mend, and end well with it; says how many."""
    mend = MENDS[name]
    without = _without(mend, histories, seed)
    played = [_whole(profile, histories, seed) for profile in mend.profiles]
    whole = {place: kinds for found in played for place, kinds in found.items() if place in without}
    kinds = Counter(kind for found in without.values() for kind in found)
    count, wrong = sum(map(bool, without.values())), sum(map(bool, whole.values()))
    said = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()) or "NOT NOTICED"
    print(f"{name}: {mend.mutants[-1].check}")
    print(f"  {count} of {histories} histories of {', '.join(mend.profiles)}: {said}")
    print(f"  with it {len(whole) - wrong} of {len(whole)} end well", flush=True)
    return bool(count) and not wrong


def _without(mend: Mend, histories: int, seed: int) -> Problems:
    """What is wrong in a copy without a mend."""
    with tempfile.TemporaryDirectory(prefix="tideline-mends-out-") as folder:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for part in _COPIED:
            shutil.copytree(ROOT / part, Path(folder, part), ignore=ignored, symlinks=True)
        shutil.copy(ROOT / "tests" / "__init__.py", Path(folder, "tests"))
        for mutant in mend.mutants:
            mutant.apply(Path(folder) / PACKAGE)
        return _played(Path(folder), mend.profiles, histories, seed)


@cache
def _whole(profile: str, histories: int, seed: int) -> Problems:
    """What is wrong with all mends in."""
    return _played(ROOT, (profile,), histories, seed)


def _played(root: Path, profiles: tuple[str, ...], histories: int, seed: int) -> Problems:
    """What `python -m tests.fuzz` says of each history.

    Raises:
        RuntimeError: It did not play all of them.
    """
    numbers = ("--seed", str(seed), "--histories", str(histories))
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--each", *numbers, "--profiles", *profiles],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}/plugins:{root}/spark_jobs:{root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    found: Problems = {}
    for line in done.stdout.splitlines():
        if line.startswith(EACH):
            place, _, kinds = line.removeprefix(EACH).partition(": ")
            profile, number = place.split()
            found[profile, int(number)] = tuple(filter(None, kinds.split("; ")))
    if len(found) != histories:
        raise RuntimeError(f"{len(found)} of {histories} histories: {done.stderr[-2000:]}")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mends_out", description=__doc__)
    parser.add_argument("mends", nargs="*", default=[""], metavar="NAME", help="C1, or C4-floors")
    parser.add_argument("--histories", type=int, default=20, help="of each mend")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
