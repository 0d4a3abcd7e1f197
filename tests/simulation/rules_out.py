"""Each rule taken out by hand, and the history that notices.

A rule is a few replacements in a copy of the package and of these tests (`tests.mutants`): some
rules are held by checks that stand behind each other. The copy plays the history of
`rules_out/RULE.history`, which has to fail there and to end well here.

    python -m tests.simulation.rules_out            every rule
    python -m tests.simulation.rules_out --find R5  look for a seed, shrink it, keep it
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.mutant import PACKAGE, Mutant
from tests.simulation.histories import History, play

ROOT = Path(__file__).parents[2]
HISTORIES = Path(__file__).with_name("rules_out")
RULES: dict[str, tuple[Mutant, ...]] = {
    "R1": (
        Mutant(
            "a plan is frozen once",
            """        if winner is not None and winner.status != "proposed":
            return latest
""",
            "",
            "",
        ),
        Mutant(
            "a lost lease writes nothing",
            "leases.refuse_lost(state, name, self.holder)",
            "pass",
            "",
        ),
    ),
    "R2": (
        Mutant("an offset that was read twice is refused", "    if copied:", "    if False:", ""),
    ),
    "R3": (
        Mutant(
            "the open plan is recovered first",
            'left_open = state.open_live_run() if run.request.lane == "live" else None',
            "left_open = None",
            "",
            within="recover",
        ),
        Mutant(
            "nobody freezes beside an open live plan",
            "return latest.open_live_run() is not None or not latest.head.stands_at(seen.head)",
            "return not latest.head.stands_at(seen.head)",
            "",
        ),
    ),
    "R4": (
        Mutant(
            "a shorter replay replaces nothing",
            "        if kept != missing:",
            "        if False:",
            "",
        ),
    ),
    "R5": (
        Mutant(
            "a lost lease gives no token",
            "leases.refuse_lost(state, name, self.holder)",
            "pass",
            "",
        ),
        Mutant(
            "an older attempt is fenced before its commit",
            "    if newest is not None and newest >= change.token:\n        raise AttemptFenced",
            "    if False:\n        raise AttemptFenced",
            "",
        ),
    ),
    "R6": (
        Mutant(
            "doubted rows do not stay",
            "if newest is None or not run.table.landed(ranges, newest):",
            "if True:",
            "",
        ),
    ),
    "R7": (
        Mutant(
            "the log is checked after the read",
            "return _agreed(run, look, incident_key)",
            "return ()",
            "",
            within="changes_after_read",
        ),
    ),
    "R8": (
        Mutant(
            "a partition with an open incident gets no range",
            "        if position.topic_partition in blocked:\n            continue\n",
            "",
            "",
            within="plan_ranges",
        ),
    ),
    "R9": (
        Mutant(
            "an accepted loss is recorded",
            "after.without_rows(position.identity, lost), f",
            "after, f",
            "",
        ),
    ),
    "R10": (
        Mutant(
            "a new partition of a known topic begins at 0",
            "next_offset = 0  # a new partition",
            "next_offset = log_start_of(seen)  # a new partition",
            "",
        ),
    ),
    "R11": (
        Mutant(
            "what is known of an instant stays",
            "if known.of(p.identity) is None",
            "if True",
            "",
            within="_resolve_timestamp",
        ),
        Mutant(
            "whoever resolved an instant first counts",
            "return _known(timestamps, at).joined(ResolvedTimestamp(at, tuple(added)))",
            "return ResolvedTimestamp(at, tuple(added)).joined(_known(timestamps, at))",
            "",
        ),
    ),
    "R12": (
        Mutant(
            "verified offsets are not read again",
            "start = covered_until(covered, position.next_offset)",
            "start = position.next_offset",
            "",
        ),
    ),
    "R13": (
        Mutant(
            "foreign removals halt",
            "    elif foreign:",
            "    elif False:",
            "",
            within="changes_by_others",
        ),
    ),
    "R14": (
        Mutant(
            "a verdict needs two observations that agree",
            "if not transient and keys == before:",
            "if not transient:",
            "",
        ),
    ),
}

IDENTITIES: dict[str, tuple[Mutant, ...]] = {
    "seen": (
        Mutant(
            "what a proposal has seen is known",
            "adopted, observation = with_observed_ends(adopted, observed)",
            "observation = observed",
            "",
        ),
    ),
    "cut": (
        Mutant(
            "a cut log goes on in a new generation",
            "return max((i.generation for i in given), default=-1) + 1",
            "return max((i.generation for i in given), default=0)",
            "",
        ),
    ),
    "given": (
        Mutant(
            "a number that a rewind took back is not given again",
            "(*self.identities, *self.given)",
            "self.identities",
            "",
        ),
    ),
    "older": (
        Mutant(
            "a token above the ledger's is a finding",
            "if known_token is None or (table.token or 0) <= known_token:",
            "if True:",
            "",
        ),
    ),
    "between": (
        Mutant(
            "no row of another log comes where none was verified",
            "if not landed and not _is_verified(landing):",
            "if not landed:",
            "",
        ),
    ),
}
"""What keeps one identity for one record (docs/adr/0037), taken out in the same way."""

TYPED: dict[str, tuple[Mutant, ...]] = {
    "late": (
        Mutant(
            "a row that comes late is decoded",
            "state = state.with_undecoded(late_rows(state.head, verified))",
            "pass",
            "",
        ),
    ),
    "forgotten": (
        Mutant(
            "what an older ledger forgot is undone",
            "if decoding.token is not None and (known.seen.token or 0) > decoding.token",
            "if False",
            "",
        ),
    ),
    "undone": (
        Mutant(
            "what a rewind undoes in typed tables is on record",
            ".with_undecoded(rewind.removes)",
            "",
            "",
        ),
    ),
    "begun": (
        Mutant(
            "new typed tables hold nothing that was decoded",
            "coverage=NOWHERE, table_ids=()",
            "table_ids=()",
            "",
        ),
    ),
}
"""What keeps one typed row for one raw row, of the same record."""
FOLDED: dict[str, tuple[Mutant, ...]] = {
    "folded-again": (
        Mutant(
            "what is decoded again is folded again",
            "folding = state.folding.having_decoded(done.plan.ranges)",
            "folding = state.folding",
            "",
        ),
    ),
    "folded-undone": (
        Mutant(
            "what is decoded no more is taken out of the current table",
            "again = folding.changed | (folding.coverage - decoding.coverage)",
            "again = folding.changed",
            "",
        ),
    ),
    "folded-given-back": (
        Mutant(
            "a fold that was cut off gives back what it was to fold again",
            "changed=folding.changed | again",
            "changed=folding.changed",
            "",
        ),
    ),
    "folded-others": (
        Mutant(
            "a fold that others have changed since is not waited for",
            "        or _spoiled(run, found, seen_from(run, found.table_version))\n",
            "",
            "",
        ),
    ),
    "folded-new": (
        Mutant(
            "a table that was made and never folded into holds nothing",
            "folding=state.folding.of_new_table(table_id)",
            "folding=replace(state.folding, table_id=table_id)",
            "",
        ),
    ),
    "folded-forgotten": (
        Mutant(
            "a fold that an older ledger forgot has all be folded anew",
            "    return bool(forgotten)",
            "    return False",
            "",
        ),
    ),
    "folded-eras": (
        Mutant(
            "what a re-created topic brings counts more",
            "ids = (*self.ids, topic_id)",
            "ids = tuple(sorted((*self.ids, topic_id)))",
            "",
        ),
    ),
    "folded-checked": (
        Mutant(
            "whoever finishes a decoding looks at its tables before",
            "    check_tables(run)",
            "    pass",
            "",
            within="finish_open",
        ),
    ),
    "folded-moved": (
        Mutant(
            "a key that has moved is folded by time only once somebody says so",
            'if is_by_time or folding.order == "time":',
            'if folding.order == "time":',
            "",
        ),
    ),
}
"""What keeps one row for one key, of its last decoded change."""
ERASED: dict[str, tuple[Mutant, ...]] = {
    "erased-told": (
        Mutant(
            "a ledger that was put back learns the erasure",
            "            after = after._told_by(sealed.erasure)\n",
            "            pass\n",
            "",
        ),
    ),
    "erased-former": (
        Mutant(
            "a table at a former address is erased from",
            "    return (*found, *former)\n",
            "    return (*found,)\n",
            "",
        ),
    ),
    "erased-risen": (
        Mutant(
            "an erasure that leaves a row older is refused",
            "    if older.keyless or (older.moved and not keys.whole_keys):",
            "    if False:",
            "",
        ),
    ),
    "erased-bytes": (
        Mutant("bytes prove nothing", "    if asked.by_bytes:\n", "    if True:\n", ""),
    ),
}
"""What keeps erased records out, all of them, and no others."""
CASES = {**RULES, **IDENTITIES, **TYPED, **FOLDED, **ERASED}

IN_MEMORY: dict[str, Mutant] = {
    "R5": Mutant(
        "the table takes no older token",
        "(self.newest_token(change.app_id) or 0) >= change.token",
        "False",
        "",
        within="commit",
    ),
}
"""What the parts in memory hold by themselves, as the real ones do."""


def main() -> int:
    """All rules, or look for one's history."""
    if sys.argv[1:2] == ["--find"]:
        return 0 if all(find(rule) for rule in sys.argv[2:]) else 1
    missed = []
    for rule in CASES:
        says = noticed(rule)
        print(f"{rule}: {says or 'NOT NOTICED'}")
        missed += [] if says else [rule]
    return 1 if missed else 0


def noticed(rule: str) -> str | None:
    """What a rule's history breaks without the rule; None if nothing."""
    file = HISTORIES / f"{rule}.history"
    if not file.exists():
        return None
    done = _without(rule, "--replay", str(file))
    lines = [line for line in done.splitlines() if line.startswith("!! ")]
    return lines[0][3:] if lines else None


def find(rule: str, minutes: float = 3) -> bool:
    """Explore without a rule until it is missed; keep the shrunk history. Whether it was."""
    text = _without(rule, "--minutes", str(minutes), "--first")
    if "---- seed" not in text:
        print(f"{rule}: not noticed in {minutes} minutes\n{text[-500:]}")
        return False
    lines = text[text.index("---- seed") :].splitlines()[1:]
    history = [line for line in lines if line.startswith(("{", "["))]
    if problems := play(History.load("\n".join(history))).problems:
        print(f"{rule}: fails with the rule, too: {problems[0]}", *history, sep="\n")
        return False
    HISTORIES.mkdir(exist_ok=True)
    (HISTORIES / f"{rule}.history").write_text("\n".join(history) + "\n")
    print(f"{rule}: {next(line for line in lines if line.startswith('!! '))[3:200]}")
    return True


def _without(rule: str, *arguments: str) -> str:
    """What `python -m tests.simulation` prints in a copy of the package without a rule."""
    with tempfile.TemporaryDirectory(prefix="tideline-rules-out-") as folder:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for part in ("plugins", "tests/simulation", "tests/mutants"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=ignored)
        shutil.copy(ROOT / "tests" / "__init__.py", Path(folder, "tests"))
        for mutant in CASES[rule]:
            mutant.apply(Path(folder) / PACKAGE)
        if rule in IN_MEMORY:
            IN_MEMORY[rule].apply(Path(folder, "tests", "simulation"))
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{folder}/plugins"},
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
