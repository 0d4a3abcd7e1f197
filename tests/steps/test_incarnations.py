"""The list of a topic's incarnations: who writes it, and what takes none of it back."""

from dataclasses import replace

import pytest

from tests.worlds.memory import one_range
from tideline.decoding.incarnations import with_incarnations
from tideline.errors import Halted


@pytest.fixture
def two(landed):
    """A topic that was created again, and landed twice; the ids of both."""
    first = landed.topic_id()
    recreate(landed)
    assert order_of(landed) == (first, landed.topic_id())
    return landed, first, landed.topic_id()


def head_of(world):
    return world.ledger().read().head


def order_of(world):
    return head_of(world).order_of_incarnations.ids


def recreate(world, records=5):
    world.delete()
    world.create()
    world.send(records)
    world.halts(f"halted by {world.topic_id()}")
    world.decide("restart")
    world.run(f"after {world.topic_id()}")


def learned(world):
    run = world.open("look")
    return with_incarnations(run, run.ledger.read()).head.order_of_incarnations.ids


def test_no_rewind_shortens_the_list(two):
    """The topic is followed again, in a generation of its own, and counts as the newer one."""
    world, first, second = two
    world.rewind("lands")
    assert order_of(world)[:2] == (first, second)
    world.halts("again")
    world.decide("restart")
    world.run("read again")
    order = head_of(world).order_of_incarnations
    newest = head_of(world).positions[0].identity
    assert order.ids[:2] == (first, second)
    assert newest.topic_id == second
    assert order.of(newest) == len(order.ids) - 1


def test_a_ledger_that_was_put_back_learns_the_order(landed):
    """Three incarnations were landed since: the commits that it does not know tell them."""
    landed.save_ledger()
    ids = [landed.topic_id()]
    for _ in range(2):
        recreate(landed)
        ids.append(landed.topic_id())
    landed.restore_ledger()
    landed.halts("put back")
    landed.decide("approve")
    landed.run("goes on")
    assert order_of(landed) == tuple(ids)


def test_an_older_ledger_learns_the_order_from_its_tables_log(two):
    world, first, second = two
    world.ledger().update(lambda s: replace(s, head=replace(s.head, incarnations=())))
    assert learned(world) == (first, second)
    world.send(1)
    world.run("a version that keeps it")
    assert order_of(world) == (second,)
    assert learned(world) == (first, second)


def test_what_the_log_has_no_more_the_ledgers_history_tells(two):
    world, first, second = two
    world.ledger().update(lambda s: replace(s, head=replace(s.head, incarnations=())))
    world.table.log_start = len(world.table.versions)
    assert learned(world) == (first, second)


def test_a_topic_id_that_nobody_knows_halts(two):
    """Two incarnations without an order: nothing is guessed."""
    world, *_ = two
    unknown = "99999999-0000-4000-8000-000000000000"

    def strange(state):
        known = state.head.coverage
        log = next(iter(known))
        moved = known - {log: known[log]} | {replace(log, topic_id=unknown): known[log]}
        return replace(state, head=replace(state.head, coverage=moved))

    world.ledger().update(strange)
    with pytest.raises(Halted, match=rf"nobody knows when topic id {unknown} of topic orders"):
        learned(world)


def test_a_backfill_of_a_window_changes_no_order(two):
    world, first, second = two
    world.run("back", **one_range(0, 3))
    assert order_of(world) == (first, second)
