"""What several of these suites begin with."""

import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from tests.worlds.drivers import drivers
from tideline.launch.jars import spark_jars
from tideline.launch.local_driver import end_drivers
from tideline.launch.runtime import cache_folder
from tideline.store.store_settings import store_settings


@pytest.fixture
def landed(harness, spark):
    """A stream of one topic with 100 records landed."""
    harness.create(partitions=1)
    harness.send(100)
    stream = harness.stream()
    harness.run(stream, "lands", spark)
    return stream


@pytest.fixture
def sockets(monkeypatch):
    """A runtime folder of its own, whose drivers end with the test."""
    with tempfile.TemporaryDirectory(prefix="tl-") as name:
        folder = Path(name)
        monkeypatch.setenv("TIDELINE_RUNTIME", name)
        monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
        yield folder
        for pid in drivers(folder):
            os.kill(pid, signal.SIGCONT)
        end_drivers()
        for pid in drivers(folder):  # nobody could find it any more
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def warm(harness, sockets):
    """A stream with records waiting, whose runs keep their driver."""
    harness.create(partitions=1)
    harness.send(100)
    return harness.stream(spark={"keep_warm_seconds": 300})


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """Another cache; the jars are where they were. Beside it a link to the one that is shared."""
    (tmp_path / "shared").symlink_to(cache_folder())
    monkeypatch.setenv("TIDELINE_SPARK_JARS", str(spark_jars()[0].parent))
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def spark_in_store(in_process_spark, bucket, monkeypatch):
    """A Spark whose `s3a://` is the bucket behind its proxy; connection `lake`. Needs mark `s3a`.

    Its JVM may be older than the store, so the key is in properties, and each file system is new.
    """
    connection = bucket.store.connection(bucket.proxy.endpoint)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    properties = {
        **store_settings("lake", "s3a://lake/orders").for_spark(),
        "fs.s3a.access.key": bucket.store.access_key,
        "fs.s3a.secret.key": bucket.store.secret_key,
        "fs.s3a.impl.disable.cache": "true",
    }
    conf = in_process_spark.session.conf
    for name, value in properties.items():
        conf.set(name, value)
    yield in_process_spark
    for name in properties:
        conf.unset(name)
