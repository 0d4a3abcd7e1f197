"""A stream over memory."""

import pytest

from tests.simulation.clock import simulated
from tests.worlds.memory import Memory


@pytest.fixture
def memory():
    """With the topic `orders`, which has one partition and nothing in it."""
    world = Memory()
    with simulated(world.machine()):
        with world.ledger().lease("live"):  # every step runs under one: it begins the ledger
            pass
        yield world


@pytest.fixture
def landed(memory):
    """With 100 records landed by the run `lands`."""
    memory.send(100)
    memory.run("lands")
    return memory


@pytest.fixture
def pair(memory):
    """With two runs, `one` and `two`, of 50 records each, in a partition each."""
    memory.grow(2)
    for partition, run_id in enumerate(("one", "two")):
        memory.send(50, partition)
        memory.run(run_id)
    return memory
