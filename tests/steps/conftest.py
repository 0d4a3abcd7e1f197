"""A stream over memory."""

import pytest

from tests.simulation.clock import simulated
from tests.worlds.memory import HOUR, Memory


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


@pytest.fixture
def hourly(memory):
    """Ten records an hour for six hours, in two partitions; the live lane starts at the end."""
    memory.grow(2)
    memory.configure(start="latest")
    memory.clock.milliseconds = 12 * 3600 * 1000
    memory.noon = memory.clock.now() - 7 * HOUR
    for partition in (0, 1):
        memory.send_at(*(memory.noon + n * HOUR / 10 for n in range(60)), partition=partition)
    return memory
