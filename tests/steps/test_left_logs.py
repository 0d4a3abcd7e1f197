"""A log that is left by a decision: what came there is never read, and a delete may be among it."""

import pytest

from tests.simulation.table_events import drop_current

CURRENT = {"key": ["k"], "table": {"buckets": 2}, "every": 0, "deletes": {"tombstone": False}}


@pytest.fixture
def unread(memory):
    """Six records are folded, and four wait."""
    memory.configure(decode={"value": {"format": "json"}}, current=CURRENT)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(6)
    memory.run("one")
    assert memory.ledger().read().folding.unproven_since is None
    memory.send(4)
    return memory


def expires(world):
    world.expire(10)


def recreated(world):
    world.delete()
    world.create()


def cut(world):
    world.log().elect(4)


def moved(world):
    world.swap_cluster(orders=2)


@pytest.mark.parametrize(
    ("happens", "kind", "choice"),
    [
        (expires, "retention_loss", "accept_loss"),
        (recreated, "topic_recreated", "accept_loss"),
        (recreated, "topic_recreated", "restart"),
        (cut, "truncation", "accept_loss"),
        (cut, "truncation", "restart"),
        (moved, "cluster_changed", "restart"),
    ],
)
def test_after_a_decision_by_which_a_log_is_left_the_table_is_unproven(
    unread, happens, kind, choice
):
    happens(unread)
    unread.send(5)
    assert unread.halts() == [kind]
    unread.decide(choice)
    unread.send(2)
    unread.run("after")
    state = unread.ledger().read()
    assert state.folding.unproven_since is not None
    assert unread.is_clean()


def test_a_topic_that_comes_again_after_it_was_retired_finds_the_table_unproven(unread):
    unread.delete()
    assert unread.halts() == ["topic_missing"]
    unread.decide("retire")
    unread.run("retired")
    unread.create()
    unread.send(2)
    unread.run("after")
    assert unread.ledger().read().folding.unproven_since is not None


def test_a_decision_that_the_ledger_has_forgotten_counts_as_well(unread):
    """The table tells that a new topic was followed, and nobody decides about it again."""
    unread.save_ledger()
    recreated(unread)
    unread.send(5)
    assert unread.halts() == ["topic_recreated"]
    unread.decide("accept_loss")
    unread.run("forgotten")
    unread.restore_ledger()
    drop_current(unread)
    unread.send(1)
    assert unread.halts() == ["table_changed"]
    unread.decide("approve")
    unread.run("after")
    assert unread.ledger().read().folding.unproven_since is not None


def test_a_log_that_is_read_on_is_not_left(unread):
    unread.run("two")
    unread.send(1)
    unread.run("three")
    state = unread.ledger().read()
    assert not state.head.left_behind
    assert state.folding.unproven_since is None


def test_a_decision_after_which_the_log_is_read_on_leaves_nothing_unproven(unread):
    unread.table.add_foreign(unread.table.rows(), "RESTORE", removes_rows=True)
    assert unread.halts() == ["table_changed"]
    unread.decide("approve")
    unread.run("after")
    state = unread.ledger().read()
    assert (state.folding.unproven_since, state.head.left_behind.offsets) == (None, 0)
    assert unread.is_clean()
