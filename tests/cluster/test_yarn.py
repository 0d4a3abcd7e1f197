"""Deploy mode cluster on a real YARN: the driver is another user's, and has nothing of ours."""

import pytest

from devstack.command_line import finished
from devstack.process import wait_until
from tests.cluster.cluster_case import ClusterCase
from tests.cluster.installed import Installed
from tests.cluster.loaded import log_of_classes, lz4_jars
from tideline.versions import LZ4

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
    before = yarn_cluster.ended()
    case.follow(partitions=2, count=100)
    assert case.run("one")["rows"] == 200
    case.judge("land, with deploy mode cluster")
    assert case.run("one")["rows"] == 200
    case.judge("replay, with deploy mode cluster")
    assert not [path for path in case.objects() if ".driver/" in path]
    completed, failed, killed = before

    def have_completed():
        return yarn_cluster.ended() == (completed + 2, failed, killed)

    wait_until(have_completed, "YARN knows of no good end", 60)


def test_a_driver_here_lands_and_replays(
    harness, lake_store, installed, yarn_cluster, tmp_path_factory
):
    """Deploy mode client, where the site gives the container in between the store's secrets."""
    connection = {**yarn_cluster.connection, "extra": {"deploy-mode": "client"}}
    settings = yarn_cluster.settings(
        tmp_path_factory.mktemp("yarn-client"), **log_of_classes(yarn_cluster.user.folder)
    )
    case = ClusterCase(harness, lake_store, installed, connection, settings)
    case.follow(partitions=2, count=0)
    case.log.compression = "lz4"
    case.send(2, 100)
    assert case.run("one")["rows"] == 200
    case.judge("land, with a driver here")
    assert case.run("one")["rows"] == 200
    case.judge("replay, with a driver here")
    assert lz4_jars(yarn_cluster.user.folder) == {f"lz4-java-{LZ4}.jar"}


def test_a_replay_after_the_committer_s_jar_has_changed(
    harness, lake_store, yarn_cluster, tmp_path
):
    """An upgrade without its jar is bad input; with it, the driver there has the new one alone."""
    installed = Installed(tmp_path / "installed")
    case = ClusterCase(
        harness, lake_store, installed, yarn_cluster.connection, yarn_cluster.variables
    )
    case.follow(partitions=2, count=100)
    case.run("one")
    before = case.added()
    installed.change_committer('"part-%05d-%d-"', '"part-%05d-%d-later-"')
    status, _, errors = finished(case.start("run", "--run-id", "one"))
    assert status == 2
    assert "no tideline-committer-" in errors
    assert case.added() == before
    installed.build_jar()
    assert case.run("one")["rows"] == 200
    assert all("-later-" in path for path in case.added())
    case.judge("replay with another committer")
