"""What several of these suites begin with."""

import pytest


@pytest.fixture
def landed(world, spark):
    """A stream of one topic with 100 records landed."""
    world.create(partitions=1)
    world.send(100)
    stream = world.stream()
    world.run(stream, "lands", spark)
    return stream
