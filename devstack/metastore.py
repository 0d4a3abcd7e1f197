"""A real Hive metastore with Derby, out of Spark's own jars; it listens on 127.0.0.1 alone.

Hive's own main program listens everywhere, so this one makes the same server of its parts.

Usage: python -m devstack.metastore PORT FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from devstack.process import HOST, Server, free_ports, is_listening
from tideline.launch.java import find_java
from tideline.launch.programs import log_settings

_START_SECONDS = 90


class Metastore:
    """One metastore.

    Args:
        folder: Holds its database, its warehouse and its log.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self.server: Server | None = None

    @property
    def connection(self) -> dict[str, Any]:
        """The metastore as an Airflow connection."""
        return {"conn_type": "hive_metastore", "host": HOST, "port": self.port}

    def start(self) -> Metastore:
        """Start it, and wait until it listens.

        Raises:
            ServiceAway: It is not ready in time, or ended.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        command: list[str | Path] = [sys.executable, "-m", "devstack.metastore"]
        arguments = [str(self.port), str(self.folder)]
        log = self.folder / "metastore.log"
        self.server = Server.ready(
            "metastore",
            [*command, *arguments],
            log,
            lambda: is_listening(self.port),
            _START_SECONDS,
        )
        return self

    def stop(self) -> None:
        """End it; does nothing when it is not running."""
        if self.server is not None:
            self.server.stop()
            self.server = None


def serve(port: int, folder: Path) -> None:
    """Serve until the process ends."""
    from pyspark.java_gateway import launch_gateway

    options = " ".join(f"-D{name}={value}" for name, value in log_settings().items())
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--driver-java-options '{options} -Dderby.stream.error.file={folder}/derby.log'"
        " pyspark-shell"
    )
    launch: Any = launch_gateway
    jvm = launch().jvm
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    for key, value in {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "DBCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"{folder}/warehouse",
    }.items():
        conf.set(key, value)
    hive, thrift = jvm.org.apache.hadoop.hive.metastore, jvm.org.apache.thrift
    handler = hive.HiveMetaStore.newRetryingHMSHandler("metastore", conf, True)
    processor = getattr(hive.api, "ThriftHiveMetastore$Processor")(handler)
    socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress(HOST, port))
    arguments = getattr(thrift.server, "TThreadPoolServer$Args")(socket)
    arguments.processor(processor)
    thrift.server.TThreadPoolServer(arguments).serve()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
