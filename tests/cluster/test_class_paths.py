"""From which jar an executor takes the code that decompresses what producers send."""

import re

import pytest

from tests.cluster.cluster_case import ClusterCase
from tideline.versions import LZ4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
_LOADED = re.compile(r"net\.jpountz\.lz4\.LZ4\w*Factory source: \S*/(\S+\.jar)")


def test_kafka_s_lz4_is_ours_where_executors_share_no_disk(
    harness, lake_store, installed, spark_cluster
):
    """The JVMs say it. Spark's own blocks go on with Spark's."""
    told = "-Xlog:class+load=info:file=../../classes-%p.log"
    settings = spark_cluster.settings("classes", spark_executor_defaultJavaOptions=told)
    case = ClusterCase(harness, lake_store, installed, spark_cluster.connection, settings)
    case.follow(partitions=1, count=10)
    harness.send_batch(100, compression="lz4")
    assert case.run("one")["rows"] == 110
    found = (log for user in spark_cluster.users for log in user.folder.rglob("classes-*"))
    logs = [log.read_text() for log in found]
    assert logs
    loaded = {jar for log in logs for jar in _LOADED.findall(log)}
    assert f"lz4-java-{LZ4}.jar" in loaded, loaded
