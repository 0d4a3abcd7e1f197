"""A window's run that was asked for again: rows of its plan before are that plan's still."""

from datetime import timedelta

import pytest

from tests.worlds.memory import one_range
from tideline.errors import TidelineError


@pytest.mark.parametrize("choice", ["accept_loss", "restart"])
def test_rows_of_a_plan_that_its_run_has_given_up_go_with_the_decision(memory, choice):
    """The run has another plan by then, or none yet."""
    memory.run("empty")
    first = memory.clock.now()
    memory.send(4)
    memory.hole(2)
    memory.clock.milliseconds += 60_000
    last = memory.clock.now() - timedelta(seconds=5)
    window = {"from": (first - timedelta(seconds=1)).isoformat(), "to": last.isoformat()}

    def asked():
        with pytest.raises(TidelineError):
            memory.run("window", **window)

    asked()  # a hole
    memory.decide("accept_loss")
    memory.log().elect(1)
    asked()  # the log was cut
    memory.decide(choice)
    asked()  # its plan is closed
    asked()  # planned anew, and halts at what is decided
    memory.run("carries it out")
    memory.send(10)
    memory.run("goes on")
    assert memory.is_clean()


def test_what_was_decided_about_a_closed_plan_is_carried_out_by_the_next_run(memory):
    """The window is asked for again and does not find it again: nobody else would close it."""
    memory.run("empty")
    memory.send(4)
    memory.hole(2)
    for _ in "a hole", "the log was cut":
        with pytest.raises(TidelineError):
            memory.run("window", **one_range(0, 4))
        memory.log().elect(1)
    for incident in memory.incidents:
        memory.decide("accept_loss", incident.incident_id)
    with pytest.raises(TidelineError, match="the run's plan was closed"):
        memory.run("window", **one_range(0, 4))
    assert [i.finding.kind for i in memory.incidents] == ["log_hole", "truncation"]
    assert memory.audit()[0].clean  # rows that wait for a decision are nobody else's
    memory.run("goes on")
    assert not memory.incidents
    assert memory.is_clean()
