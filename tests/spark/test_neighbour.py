"""Another user of the machine at every port and socket of our own Spark."""

import os
import signal
import threading

import pytest

from devstack.connect_server import ConnectServer
from devstack.process import wait_until
from tests.faults.processes import descendants, is_spark, processes, state
from tests.worlds.drivers import drivers, jvms, waits_in
from tests.worlds.neighbour import listeners, table, tries

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def held(names):
    """Every port and socket asks who is there; how many there are."""
    found = listeners(names.items())
    done = tries(found)
    assert {one.where for one in done} == {one.where for one in found}
    assert not [one for one in done if one.let_in], table(done)
    return len(found)


def test_a_warm_driver(harness, warm, sockets):
    """Its broadcasts hold the secrets of Kafka and of the store; its RPC reads objects of Java's.

    Ports of RPC and blocks, of py4j's gateway and Python's accumulators, and the driver's socket.
    """
    harness.run(warm, "one", None)
    names = dict.fromkeys(jvms(sockets), "JVM of the warm driver")
    names |= dict.fromkeys(drivers(sockets), "warm driver")
    assert held(names) == 5
    harness.send(5)
    assert harness.run(warm, "two", None).status == "done"


@pytest.mark.slow
def test_a_spark_connect_server(tmp_path):
    """Ports of RPC and blocks, and its own."""
    server = ConnectServer(tmp_path, "local[2]").start()
    try:
        assert held({server.server.pid: "Spark Connect"}) == 3
    finally:
        server.stop()


def stopped():
    """Descendants of this process that stand still."""
    return [pid for pid, _ in descendants(os.getpid()) if state(pid) == "T"]


@pytest.mark.slow
def test_spark_submit(harness, warm, monkeypatch):
    """With a local master and settings of the site's; it stands still while it is tried."""
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "1g")
    waits_in(monkeypatch)
    run = threading.Thread(target=harness.run, args=(warm, "one", None))
    run.start()
    try:
        wait_until(stopped, "Spark does not begin", 120)
        names = {pid: "spark-submit" for pid, _, command in processes() if is_spark(command)}
        names |= dict.fromkeys(stopped(), "its Python")
        assert held(names) == 4
    finally:
        for pid in stopped():
            os.kill(pid, signal.SIGCONT)
        run.join()
