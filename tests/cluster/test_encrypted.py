"""Secrets between driver and executors: in clear unless Spark's own encryption is on."""

import itertools
import secrets

import psutil
import pytest

from devstack.command_line import finished
from devstack.harness import StreamHarness
from devstack.process import HOST, free_ports
from devstack.spark_cluster import SparkCluster
from tests.cluster.cluster_case import BUSY, ClusterCase
from tests.cluster.wire import Wire, tapped
from tests.worlds.secured_broker import PASSWORD, secured_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SECRET = secrets.token_hex(16)
"""Of the encrypted cluster."""
TAP = "127.0.0.99"
"""Where executors find the driver: a relay, which looks at all that passes."""
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A broker that wants a password."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture(scope="module")
def encrypted_cluster(tmp_path_factory):
    """A master and two workers who have a secret."""
    cluster = SparkCluster(tmp_path_factory.mktemp("encrypted"), secret=SECRET).start()
    yield cluster
    cluster.stop()


@pytest.fixture
def case_on(secured, lake_store, installed, tmp_path):
    """A stream of its own on a cluster; its runs log in to Kafka with a password."""

    def build(cluster):
        harness = StreamHarness(secured.broker, tmp_path, f"wire-{next(numbers)}")
        login = secured.settings("SASL_PLAINTEXT")
        harness.connect(login.pop("bootstrap.servers"), **login)
        settings = cluster.settings(harness.name)
        return ClusterCase(harness, lake_store, installed, cluster.connection, settings)

    return build


def land_through_a_tap(cluster, case, **properties):
    """Land 200 records; what passed between the driver and its executors."""
    wire = Wire(PASSWORD, case.store.secret_key, SECRET)
    ports = free_ports(2)
    settings = cluster.settings(
        f"{case.harness.name}-tapped",
        spark_driver_host=TAP,
        spark_driver_port=str(ports[0]),
        spark_broadcast_compress="false",  # compression would tear up what is looked for
        **{"spark.driver.blockManager.port": str(ports[1]), **properties},
    )
    case.follow(partitions=2, count=100)
    with tapped(wire, TAP, HOST, ports):
        run = case.start("run", "--run-id", "one", settings=settings)
        case.wait_while(run, lambda: bool(cluster.executors()), "there is no executor")
        shown = "\n".join(arguments_of_all())
        assert case.ends_well(run)["rows"] == 200
    assert not [secret for secret in (PASSWORD, case.store.secret_key, SECRET) if secret in shown]
    case.judge(f"through a tap, {wire.connections} connections, {wire.bytes} bytes")
    return wire


def arguments_of_all():
    """The arguments of every process of this machine, as `ps` shows them to anybody."""
    for process in psutil.process_iter(["cmdline"]):
        yield "\0".join(process.info["cmdline"] or ())


def test_without_encryption_secrets_cross_in_clear(case_on, spark_cluster):
    """The tap sees what it looks for; so it would see it below as well."""
    case = case_on(spark_cluster)
    wire = land_through_a_tap(spark_cluster, case)
    assert wire.seen >= {PASSWORD, case.store.secret_key}


def test_a_shared_secret_alone_hides_nothing(case_on, encrypted_cluster):
    """`spark.authenticate` keeps strangers out; `spark.network.crypto.enabled` encrypts."""
    case = case_on(encrypted_cluster)
    wire = land_through_a_tap(encrypted_cluster, case, spark_network_crypto_enabled="false")
    assert wire.seen >= {PASSWORD, case.store.secret_key}


def test_with_encryption_nothing_crosses_in_clear(case_on, encrypted_cluster):
    """Neither Kafka's secret, nor the store's, nor the cluster's own; the same jars pass by."""
    case = case_on(encrypted_cluster)
    wire = land_through_a_tap(encrypted_cluster, case)
    assert wire.connections >= 2
    assert wire.bytes > 1_000_000
    assert wire.seen == set()


@pytest.mark.parametrize(
    "wrong",
    [
        {"spark_authenticate_secret": "another"},
        {"spark_authenticate": "false", "spark_network_crypto_enabled": "false"},
    ],
    ids=["another", "none"],
)
def test_a_driver_without_the_secret_is_refused(case_on, encrypted_cluster, wrong):
    """It gets no executor; the run says where to look, no position moves, and it may be tried."""
    case = case_on(encrypted_cluster)
    case.follow(partitions=2, count=100)
    settings = encrypted_cluster.settings(f"{case.harness.name}-wrong", **wrong)
    status, _, errors = finished(case.start("run", "--run-id", "one", settings=settings), 300)
    assert status == BUSY, errors[-6000:]
    assert "spark.authenticate.secret in spark-defaults.conf is not the cluster's" in errors
    assert case.objects("part-*") == {}
    assert case.run("one")["rows"] == 200
    case.judge("the right secret, after a wrong one")
