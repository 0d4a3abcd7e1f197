"""Slow services: asked once at a time, never too soon, and nobody waits for them."""

import threading
from concurrent.futures import Executor, Future

import pytest

from tideline.errors import ServiceAway
from tideline.page.sources import PATIENCE_SECONDS, Poller
from tideline.page.workers import Workers


class Later(Executor):
    """Runs what was handed in when it is told to."""

    def __init__(self):
        self.waiting = []

    def submit(self, work, *args, **kwargs):
        self.waiting.append(lambda: work(*args, **kwargs))
        return Future()

    def run(self):
        waiting, self.waiting = self.waiting, []
        for work in waiting:
            work()


@pytest.fixture
def pool():
    return Later()


def poller(pool, answers, clock):
    """Answers come in order; an error among them is raised."""
    asked = []

    def ask(key):
        asked.append(key)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Poller(ask, pool, 10, clock=lambda: clock[0]), asked


def test_the_first_look_knows_nothing_and_waits_for_nobody(pool):
    """It says that somebody asks."""
    look, asked = poller(pool, ["a"], [0])
    first = look.look("k")
    assert (first.value, first.asked_at, first.is_pending) == (None, None, True)
    assert asked == []
    pool.run()
    then = look.look("k")
    assert (then.value, then.problem, then.is_pending) == ("a", None, False)
    assert then.asked_at is not None


def test_however_many_look_it_is_asked_once_in_ten_seconds(pool):
    """And once at a time, however long that takes."""
    clock = [0]
    look, asked = poller(pool, ["a", "b"], clock)
    for _ in range(100):
        look.look("k")
    clock[0] = 60  # still waiting
    look.look("k")
    pool.run()
    assert asked == ["k"]
    clock[0] = 0
    look, asked = poller(pool, ["a", "b"], clock)
    look.look("k")
    pool.run()
    clock[0] = 9.9
    assert not look.look("k").is_pending
    clock[0] = 10
    assert look.look("k").is_pending
    assert look.look("k").value == "a"
    pool.run()
    assert (asked, look.look("k").value) == (["k", "k"], "b")


def test_who_can_live_with_older_answers_says_so(pool):
    """A list of many need not ask as often as the page of one."""
    clock = [0]
    look, _ = poller(pool, ["a", "b"], clock)
    look.look("k")
    pool.run()
    clock[0] = 20
    assert not look.look("k", every_seconds=30).is_pending
    assert look.look("k").is_pending


def test_the_last_answer_stays_with_its_age_when_a_service_is_away(pool):
    """And what is wrong is told; a bug of ours tells no more than its kind."""
    clock = [0]
    answers = ["a", ServiceAway("nobody answers"), ValueError("secret"), "b"]
    look, _ = poller(pool, answers, clock)
    look.look("k")
    pool.run()
    known = look.look("k")
    for problem in ("nobody answers", "ValueError: see the log of Airflow's server"):
        clock[0] += 10
        look.look("k")
        pool.run()
        seen = look.look("k")
        assert (seen.value, seen.asked_at, seen.problem) == ("a", known.asked_at, problem)
    clock[0] += 10
    look.look("k")
    pool.run()
    assert (look.look("k").value, look.look("k").problem) == ("b", None)


def test_who_does_not_answer_is_said_to_after_a_while_and_not_asked_again(pool):
    """It counts from when it was asked, and not from when somebody looked; what it says, counts."""
    clock = [0]
    held, begun = threading.Event(), threading.Event()

    def ask(key):
        begun.set()
        return held.wait(30) and key

    look = Poller(ask, pool, 1, clock=lambda: clock[0])
    look.look("k")
    clock[0] = 100  # it waited for its turn
    asking = threading.Thread(target=pool.run)
    asking.start()
    assert begun.wait(30)
    assert (look.look("k").problem, look.look("k").is_pending) == (None, True)
    clock[0] += PATIENCE_SECONDS
    late = look.look("k")
    assert (late.is_pending, pool.waiting) == (False, [])
    assert late.problem == f"no answer within {PATIENCE_SECONDS} s; it is still waited for"
    held.set()
    asking.join(30)
    assert (look.look("k").value, look.look("k").problem) == ("k", None)


@pytest.fixture
def held():
    """What hangs waits for it."""
    event = threading.Event()
    yield event
    event.set()


def test_those_that_hang_give_their_turn_away(held):
    """However many there are, the others' answers come, and theirs as well when they come."""
    workers = Workers("test", at_once=2, turn_seconds=0.01, most=10)
    hanging = [workers.submit(held.wait, 30) for _ in range(8)]
    assert workers.submit(str, 7).result(30) == "7"
    assert not any(future.done() for future in hanging)
    held.set()
    assert [future.result(30) for future in hanging] == [True] * 8
    with pytest.raises(ZeroDivisionError):
        workers.submit(lambda: 1 / 0).result(30)


def test_so_many_that_hang_and_no_more(held):
    """A server has only so much room for threads; what was given up meanwhile is not begun."""
    workers = Workers("test", at_once=2, turn_seconds=0.01, most=3)
    begun = [threading.Event() for _ in range(3)]
    for event in begun:
        workers.submit(lambda e: e.set() or held.wait(30), event)
    assert all(event.wait(30) for event in begun)
    late, given_up = workers.submit(str, 7), workers.submit(str, 8)
    given_up.cancel()
    with pytest.raises(TimeoutError):
        late.result(0.1)
    held.set()
    assert late.result(30) == "7"
    assert given_up.cancelled()
