"""A verdict rests on looks that agree; what can pass never becomes one (R14)."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tideline.errors import ServiceAway
from tideline.pipeline import agreement


@dataclass(frozen=True)
class Sight:
    """What a look shows."""

    kind: str
    text: str = ""


LOSS, PASSING = Sight("retention_loss"), Sight("transient", "no leader")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(agreement, "_FIRST_PAUSE_SECONDS", 0)


def agreed(*looks, patience_seconds=60):
    """Feed looks one by one; how many were taken, and what was agreed on."""
    left = list(looks)

    def look():
        return len(looks) - len(left) + 1, left.pop(0)

    return agreement.agree(look, key=lambda s: s, patience_seconds=patience_seconds)


def test_one_clean_look_is_enough():
    """Idle runs stay cheap."""
    assert agreed((), (LOSS,)) == (1, ())


def test_a_verdict_needs_two_looks_in_a_row():
    """The same, one after the other."""
    assert agreed((LOSS,), (LOSS,)) == (2, (LOSS,))


def test_what_was_seen_once_is_no_verdict():
    """A finding that is gone at the second look was a lagging answer."""
    assert agreed((LOSS,), (), ()) == (3, ())


def test_a_finding_between_faults_is_looked_at_again():
    """The looks before and after have to agree with each other."""
    other = Sight("truncation")
    assert agreed((LOSS,), (PASSING,), (other,), (LOSS,), (LOSS,)) == (5, (LOSS,))


def test_a_passing_fault_never_becomes_a_verdict_however_often_it_is_seen():
    """Retriable, with what was seen; nothing has moved."""
    with pytest.raises(ServiceAway, match=r"no leader.*nothing moved"):
        agreed((PASSING,), (PASSING,), (PASSING,), patience_seconds=0)


def test_a_finding_beside_a_passing_fault_waits_for_it():
    """Both might be the same lagging broker's."""
    both = (LOSS, PASSING)
    assert agreed(both, both, (LOSS,), (LOSS,)) == (4, (LOSS,))


def test_a_fault_that_goes_by_at_the_last_moment_is_over():
    """Patience limits how long trouble is waited out, not the look that finds none."""
    assert agreed((PASSING,), (), (), patience_seconds=60) == (3, ())
    assert agreed((), patience_seconds=0) == (1, ())


def test_a_clean_look_after_the_deadline_is_confirmed(monkeypatch):
    """The second one may come late; a new fault may not."""

    def clock():
        times = iter([0, 1, 9, 9, 9, 9])
        fake = SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None)
        monkeypatch.setattr(agreement, "time", fake)

    clock()
    assert agreed((PASSING,), (), (), patience_seconds=5) == (3, ())
    clock()
    with pytest.raises(ServiceAway):
        agreed((PASSING,), (), (LOSS,), (LOSS,), patience_seconds=5)
