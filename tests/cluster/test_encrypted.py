"""What passes between driver and executors: secrets in clear, unless Spark encrypts it."""

import secrets

import pytest

from devstack.object_store import S3Proxy
from devstack.spark_cluster import SparkCluster
from tests.cluster.cluster_case import BUCKET, ClusterCase
from tests.cluster.wire import Wire

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
PLAIN = {"spark_broadcast_compress": "false"}
"""Compressed, a secret may be cut; that keeps nothing secret."""


@pytest.fixture(scope="module")
def secret_store(tmp_path_factory):
    """A store whose secret nobody else on this machine has."""
    server = S3Proxy(tmp_path_factory.mktemp("secret-lake"))
    server.secret_key = secrets.token_hex(16)
    server.start()
    server.create_bucket(BUCKET)
    yield server
    server.stop()


def landed(harness, store, installed, cluster):
    """Land a stream through a cluster, with one core for each of two workers; what was heard."""
    password = secrets.token_hex(16)
    key = harness.folder / "key.pem"
    key.write_text("none: nobody opens it without TLS")
    harness.connect(
        harness.broker.bootstrap_servers,
        ssl_certificate_location=str(key),
        ssl_key_location=str(key),
        ssl_key_password=password,
    )
    settings = cluster.settings(f"heard-{harness.name}", **PLAIN)
    case = ClusterCase(harness, store, installed, cluster.connection, settings)
    case.follow(partitions=2, count=100)
    with Wire(store.secret_key, password, "tideline") as wire:
        assert case.run("one")["rows"] == 200
    case.judge("land, and listen")
    assert "tideline" in wire.heard, f"{wire.packets} packets, and not a word"
    named = {store.secret_key: "the store's", password: "Kafka's"}
    return {named[word] for word in wire.heard & named.keys()}


def test_secrets_travel_in_clear_by_default(harness, secret_store, installed, spark_cluster):
    """So the next test hears what there is to be heard."""
    assert landed(harness, secret_store, installed, spark_cluster) == {"the store's", "Kafka's"}


def test_nobody_hears_a_secret_of_an_encrypted_cluster(
    harness, secret_store, installed, spark_cluster, tmp_path_factory
):
    """With the properties of docs/clusters.md."""
    assert spark_cluster  # which says why it cannot be, if it cannot
    folder = tmp_path_factory.mktemp("encrypted")
    cluster = SparkCluster(folder, workers=1, secret=secrets.token_hex(16)).start()
    try:
        assert landed(harness, secret_store, installed, cluster) == set()
    finally:
        cluster.stop()
