"""Each rule taken out by hand, once: the simulation notices."""

import pytest

from tests.simulation.histories import History, play
from tests.simulation.rules_out import CASES, HISTORIES, IN_MEMORY, ROOT, RULES, noticed

KEPT = [file.stem for file in sorted(HISTORIES.glob("*.history"))]


@pytest.mark.slow
@pytest.mark.parametrize("rule", KEPT)
def test_a_rule_that_is_taken_out_is_missed(rule):
    """Its history breaks a promise in a copy of the package without it."""
    assert noticed(rule)


@pytest.mark.parametrize("rule", KEPT)
def test_with_the_rule_the_history_ends_well(rule):
    """Otherwise its failure would prove nothing."""
    history = History.load((HISTORIES / f"{rule}.history").read_text())
    assert play(history).problems == []


def test_every_rule_can_be_taken_out():
    """R1 to R14, each with checks that stand in the package, and with a history."""
    assert list(RULES) == [f"R{number}" for number in range(1, 15)]
    assert [
        m.problems(ROOT) for mutants in CASES.values() for m in mutants if m.problems(ROOT)
    ] == []
    for mutant in IN_MEMORY.values():
        assert mutant.place(HISTORIES.parent)
    assert set(KEPT) == set(CASES)
