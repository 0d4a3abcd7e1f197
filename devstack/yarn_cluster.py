"""A YARN of this machine: ResourceManager and NodeManager, whose containers share no disk with us.

The NodeManager is another user, so everything that runs in its containers is too. Files that
spark-submit sends lie in a bucket; there is no HDFS.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from devstack.object_store import REGION, S3Server
from devstack.other_user import USERS, OtherUser
from devstack.process import HOST, Server, free_ports, wait_until
from devstack.spark_cluster import java_for, python_for
from tideline.launch.jars import fetch, spark_jars
from tideline.launch.java import find_java
from tideline.launch.jvm import spark_home

_START_SECONDS = 120
_JVM = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_SERVERS = "org.apache.hadoop.yarn.server"
_SCHEDULER = f"{_SERVERS}.resourcemanager.scheduler.fifo.FifoScheduler"
_SETTINGS = {
    "yarn.resourcemanager.hostname": HOST,
    "yarn.resourcemanager.scheduler.class": _SCHEDULER,
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.nodemanager.resource.memory-mb": "3072",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
}
_ADDRESSES = (
    *("yarn.resourcemanager.address", "yarn.resourcemanager.scheduler.address"),
    *("yarn.resourcemanager.resource-tracker.address", "yarn.resourcemanager.admin.address"),
    *("yarn.nodemanager.address", "yarn.nodemanager.localizer.address"),
    *("yarn.nodemanager.webapp.address", "yarn.resourcemanager.webapp.address"),
)
_ENDS = ("Completed", "Failed", "Killed")


class YarnCluster:
    """One ResourceManager and one NodeManager; everything listens on 127.0.0.1.

    Args:
        folder: For the settings of those who submit, and the logs of both.
        store: Holds what spark-submit sends, and the tables.
        bucket: Of the store; YARN's own file system.

    Raises:
        BadInput: We are not root, so that containers cannot be another user's.
    """

    def __init__(self, folder: Path, store: S3Server, bucket: str) -> None:
        self.user = OtherUser(USERS[0])
        self._folder, self._store, self._bucket = folder, store, bucket
        self._servers: list[Server] = []
        ports = free_ports(len(_ADDRESSES))
        self._addresses = {
            name: f"{HOST}:{port}" for name, port in zip(_ADDRESSES, ports, strict=True)
        }

    @property
    def connection(self) -> dict[str, object]:
        """The cluster as an Airflow connection, with drivers on the cluster."""
        return {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}

    @property
    def variables(self) -> dict[str, str]:
        """Of those who submit: where the site's settings are."""
        return {
            "HADOOP_CONF_DIR": str(self._folder / "hadoop"),
            "SPARK_CONF_DIR": str(self._folder / "spark"),
        }

    def settings(self, folder: Path, **properties: str) -> dict[str, str]:
        """Variables of a run whose driver is on this machine, as a site would set them.

        The container that starts the executors reads what spark-submit has sent: so it needs the
        store's secrets, which YARN itself would not give it.

        Args:
            folder: For the properties, which hold secrets.
            properties: More of Spark's.
        """
        keys = {
            "ACCESS_KEY_ID": self._store.access_key,
            "SECRET_ACCESS_KEY": self._store.secret_key,
        }
        found = {
            **{f"spark.yarn.appMasterEnv.AWS_{name}": value for name, value in keys.items()},
            **{f"spark.driver.{name}": HOST for name in ("host", "bindAddress")},
            **properties,
        }
        given = (self._folder / "spark" / "spark-defaults.conf").read_text()
        file = folder / "spark-defaults.conf"
        file.touch(0o600)
        file.write_text(given + "".join(f"{key} {value}\n" for key, value in found.items()))
        return {**self.variables, "SPARK_CONF_DIR": str(folder)}

    @property
    def container_logs(self) -> Path:
        """A folder for each application, with one for each container."""
        return self.user.folder / "logs"

    def start(self) -> YarnCluster:
        """Start both, and wait until the NodeManager is known, 120 s at most.

        Raises:
            ServiceAway: A process ended, or was not ready in time; or jars cannot be fetched.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def ended(self) -> tuple[int, int, int]:
        """How many applications have completed, have failed, and were killed."""
        found = self._ask("metrics", "clusterMetrics")
        completed, failed, killed = (found[f"apps{how}"] for how in _ENDS)
        return int(completed), int(failed), int(killed)

    def stop(self) -> None:
        """Stop both, with what is left of containers, and remove the containers' folder."""
        for server in reversed(self._servers):
            server.stop()
        self._servers.clear()
        self.user.end_all()
        self.user.remove()

    def _start(self) -> None:
        jars = self.user.copy("yarn", fetch("yarn"))
        s3a = self.user.copy("s3a", spark_jars("s3a"))
        self._write_settings(s3a)
        ours = {"PATH": os.defpath, "JAVA_HOME": str(find_java().home)}
        self._run("resourcemanager.ResourceManager", self._folder / "hadoop", (jars,), ours)
        self._servers[0].wait_ready(lambda: self._nodes() == 0, _START_SECONDS)
        theirs = {
            **self.user.variables,
            "JAVA_HOME": str(java_for(self.user)),
            "AWS_ACCESS_KEY_ID": self._store.access_key,
            "AWS_SECRET_ACCESS_KEY": self._store.secret_key,
        }
        settings = self.user.copy("conf", (self._folder / "hadoop").glob("*.xml"))
        self._run("nodemanager.NodeManager", settings, (jars, s3a), theirs, self.user.prefix)
        wait_until(lambda: self._nodes() == 1, "the NodeManager is away", _START_SECONDS)

    def _run(
        self,
        name: str,
        settings: Path,
        jars: tuple[Path, ...],
        env: Mapping[str, str],
        prefix: tuple[str, ...] = (),
    ) -> None:
        java = str(Path(env["JAVA_HOME"], "bin", "java"))
        path = ":".join(
            [str(settings), *(f"{folder}/*" for folder in (*jars, spark_home() / "jars"))]
        )
        command = [*prefix, java, *_JVM, "-cp", path, f"{_SERVERS}.{name}"]
        log = self._folder / "logs" / f"{name}.log"
        self._servers.append(Server.start(name, command, log, env))

    def _write_settings(self, s3a: Path) -> None:
        folders = {"local-dirs": "local", "log-dirs": "logs"}
        own = {f"yarn.nodemanager.{k}": str(self.user.make_folder(v)) for k, v in folders.items()}
        core = {
            "fs.defaultFS": f"s3a://{self._bucket}",
            "fs.s3a.endpoint": self._store.endpoint,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
        }
        _write_xml(self._folder / "hadoop" / "core-site.xml", core)
        _write_xml(
            self._folder / "hadoop" / "yarn-site.xml", {**_SETTINGS, **self._addresses, **own}
        )
        spark = {
            "spark.yarn.jars": f"local:{spark_home()}/jars/*,local:{s3a}/*",
            "spark.pyspark.python": python_for([self.user]),
            "spark.yarn.appMasterEnv.PYTHONPATH": str(spark_home().parent),
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": HOST,
            "spark.executorEnv.SPARK_LOCAL_IP": HOST,
            "spark.driver.memory": "640m",
            "spark.executor.memory": "640m",
            "spark.executor.instances": "1",
        }
        file = self._folder / "spark" / "spark-defaults.conf"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{key} {value}\n" for key, value in spark.items()))

    def _nodes(self) -> int | None:
        """How many nodes are active; None while the ResourceManager does not answer."""
        try:
            return int(self._ask("metrics", "clusterMetrics")["activeNodes"])
        except (OSError, ValueError, KeyError):  # it answers before it is active
            return None

    def _ask(self, what: str, name: str) -> dict[str, Any]:
        """An answer of its REST interface; this jar leaves out the object around it."""
        web = self._addresses["yarn.resourcemanager.webapp.address"]
        with urllib.request.urlopen(f"http://{web}/ws/v1/cluster/{what}", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
        return found.get(name) or found


def _write_xml(file: Path, settings: Mapping[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>\n{''.join(lines)}</configuration>\n")
