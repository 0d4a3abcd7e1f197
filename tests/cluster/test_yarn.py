"""Deploy mode cluster on a real YARN: the driver is another user's, and has nothing of ours."""

import pytest

from tests.cluster.cluster_case import ClusterCase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def yarn_case(harness, lake_store, installed, yarn_cluster):
    """A stream of its own whose drivers run on YARN."""
    return ClusterCase(
        harness, lake_store, installed, yarn_cluster.connection, yarn_cluster.variables
    )


def test_a_driver_on_the_cluster_lands_and_replays(yarn_case, yarn_cluster, private_paths):
    """Job and result pass through the table's store; nothing of them stays there."""
    case = yarn_case
    assert [path for path in private_paths if yarn_cluster.user.may_read(path)] == []
    case.follow(partitions=2, count=100)
    assert case.run("one")["rows"] == 200
    case.judge("land, with deploy mode cluster")
    assert case.run("one")["rows"] == 200
    case.judge("replay, with deploy mode cluster")
    assert not [path for path in case.objects() if ".driver/" in path]
    states = {(a["state"], a["finalStatus"]) for a in yarn_cluster.applications()}
    assert states == {("FINISHED", "SUCCEEDED")}
