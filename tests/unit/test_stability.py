"""A verdict rests on observations that agree; a transient fault never becomes one (R14)."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tideline.errors import ServiceAway
from tideline.landing import observing as stability


@dataclass(frozen=True)
class Item:
    """What an observation shows."""

    kind: str
    text: str = ""


LOSS, TRANSIENT = Item("retention_loss"), Item("transient", "no leader")


def agreed(*observations, patience_seconds=60, **options):
    """Feed observations one by one; how many were taken, and what was agreed on."""
    left = list(observations)

    def observe():
        return len(observations) - len(left) + 1, left.pop(0)

    return stability.observe_until_stable(
        observe,
        key=lambda s: s,
        patience_seconds=patience_seconds,
        first_pause_seconds=0,
        **options,
    )


def test_one_clean_observation_is_enough():
    """Idle runs stay cheap."""
    assert agreed((), (LOSS,)) == (1, ())


def test_a_verdict_needs_two_observations_in_a_row():
    """The same, one after the other."""
    assert agreed((LOSS,), (LOSS,)) == (2, (LOSS,))


def test_what_was_seen_once_is_no_verdict():
    """A finding that is gone at the second observation was a lagging answer."""
    assert agreed((LOSS,), (), ()) == (3, ())


def test_others_may_go_on_beside_what_stays_once_patience_is_at_its_end(monkeypatch):
    """Not beside anything else, and not before two observations in a row agree."""
    passes = {"may_wait": lambda item: item is TRANSIENT, "patience_seconds": 2}
    both, other = (LOSS, TRANSIENT), Item("transient", "a stale leader")

    def agreed_by_the_second(*observations):
        seconds = iter(range(10))
        monkeypatch.setattr(stability.time, "monotonic", lambda: 1.5 * next(seconds))
        return agreed(*observations, **passes)

    assert agreed_by_the_second((TRANSIENT,), (TRANSIENT,)) == (2, ())
    assert agreed_by_the_second(both, both) == (2, (LOSS,))
    with pytest.raises(ServiceAway, match="no leader"):
        agreed_by_the_second((TRANSIENT,), both)
    with pytest.raises(ServiceAway, match="a stale leader"):
        agreed_by_the_second((TRANSIENT, other), (TRANSIENT, other))


def test_a_finding_between_faults_is_observed_again():
    """The observations before and after have to agree with each other."""
    other = Item("truncation")
    assert agreed((LOSS,), (TRANSIENT,), (other,), (LOSS,), (LOSS,)) == (5, (LOSS,))


def test_a_transient_fault_never_becomes_a_verdict_however_often_it_is_seen():
    """Retriable, with what was seen; nothing has moved."""
    with pytest.raises(ServiceAway, match=r"no leader.*nothing moved"):
        agreed((TRANSIENT,), (TRANSIENT,), (TRANSIENT,), patience_seconds=0)


def test_a_finding_beside_a_transient_fault_waits_for_it():
    """Both might be the same lagging broker's."""
    both = (LOSS, TRANSIENT)
    assert agreed(both, both, (LOSS,), (LOSS,)) == (4, (LOSS,))


def test_a_fault_that_goes_by_at_the_last_moment_is_over():
    """Patience limits how long trouble is waited out, not the observation that finds none."""
    assert agreed((TRANSIENT,), (), (), patience_seconds=60) == (3, ())
    assert agreed((), patience_seconds=0) == (1, ())


def test_a_clean_observation_after_the_deadline_is_confirmed(monkeypatch):
    """The second one may come late; a new fault may not."""

    def clock():
        times = iter([0, 1, 9, 9, 9, 9])
        fake = SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None)
        monkeypatch.setattr(stability, "time", fake)

    clock()
    assert agreed((TRANSIENT,), (), (), patience_seconds=5) == (3, ())
    clock()
    with pytest.raises(ServiceAway):
        agreed((TRANSIENT,), (), (LOSS,), (LOSS,), patience_seconds=5)
