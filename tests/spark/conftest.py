"""What several of these suites begin with."""

import pytest


@pytest.fixture
def landed(harness, spark):
    """A stream of one topic with 100 records landed."""
    harness.create(partitions=1)
    harness.send(100)
    stream = harness.stream()
    harness.run(stream, "lands", spark)
    return stream
