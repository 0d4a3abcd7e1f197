"""A Spark standalone cluster of this machine whose workers share no disk with the driver.

Each worker is a process of another user, who can read neither our home nor our temporary folders;
it has Spark, Java, Python, and a folder of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import psutil

from devstack.other_user import USERS, OtherUser
from devstack.process import HOST, Server, free_ports, wait_until
from devstack.spark_events import Task, logs_events, tasks_of
from tideline.launch.java import find_java
from tideline.launch.jvm import spark_home

_START_SECONDS = 60
_EVENTS = "events"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_DAEMON = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    " -Dspark.master.rest.enabled=false"
    # A worker that a test has stopped is not lost.
    " -Dspark.worker.timeout=600",
    "SPARK_LOCAL_IP": HOST,
}
_CONF = "spark-defaults.conf"
_DEFAULTS = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.executor.cores": "1",
    "spark.executor.memory": "768m",
}


class SparkCluster:
    """A master, and workers of one core each, on loopback addresses of their own.

    Spark starts no speculative copy of a task on the host of the first one: so each worker is
    another host.

    Args:
        folder: For the drivers' settings and event logs, and the logs of master and workers.
        workers: How many.
        secret: Of master, workers and drivers, who then authenticate each other by it and encrypt
            what they send. It stands in files that one user alone can read. Empty for neither.

    Raises:
        BadInput: We are not root, so that workers cannot be other users.
    """

    def __init__(self, folder: Path, workers: int = 2, secret: str = "") -> None:
        names = itertools.islice(itertools.cycle(USERS), workers)
        self.users = [OtherUser(name) for name in names]
        self._folder = folder
        self._security = encryption(secret) if secret else {}
        self._port, self._web_port = free_ports(2)
        self._servers: list[Server] = []

    @property
    def master(self) -> str:
        """The master's address, as spark-submit takes it."""
        return f"spark://{HOST}:{self._port}"

    @property
    def connection(self) -> dict[str, str | int]:
        """The cluster as an Airflow connection."""
        return {"conn_type": "spark", "host": f"spark://{HOST}", "port": self._port}

    def settings(self, name: str, **properties: str) -> dict[str, str]:
        """Variables of a run that has Spark properties of its own, as a site would set them.

        Args:
            name: Names their folder.
            properties: Underscores stand for dots in a name that has no dot.
        """
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        named = {
            key if "." in key else key.replace("_", "."): value for key, value in properties.items()
        }
        events = logs_events(folder / _EVENTS)
        file = folder / _CONF
        file.touch(0o600)
        file.write_text(_lines({**_DEFAULTS, **events, **self._security, **named}))
        return {
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": python_for(self.users),
        }

    def tasks(self, name: str) -> list[list[Task]]:
        """The tasks of each application that ran with settings of this name, oldest first."""
        return tasks_of(self._folder / name / _EVENTS)

    def start(self) -> SparkCluster:
        """Start everything, and wait until the master knows all workers, 60 s at most.

        Raises:
            ServiceAway: A process ended, or was not ready in time.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def executors(self) -> dict[str, psutil.Process]:
        """The executors that run now, by their number in their application."""
        found = {}
        for server in self._servers[1:]:
            for child in psutil.Process(server.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # zombies among them
                    command = child.cmdline()
                    if _EXECUTOR in command:
                        found[command[command.index("--executor-id") + 1]] = child
        return found

    @contextmanager
    def stopped_executor(self) -> Iterator[tuple[str, psutil.Process]]:
        """Stop an executor, and the worker that would end it, with SIGSTOP; its number, and it.

        At the end it resumes, with a driver that may have ended; returns when it is gone, and the
        master knows all workers again.

        Raises:
            ServiceAway: It is still there a minute after it has resumed.
        """
        number, executor = min(self.executors().items())
        workers = {server.pid for server in self._servers[1:]}
        worker = next(p for p in executor.parents() if p.pid in workers)
        worker.suspend()
        executor.suspend()
        try:
            yield number, executor
        finally:
            try:
                with suppress(psutil.NoSuchProcess):
                    executor.resume()
                wait_until(lambda: is_gone(executor), "the executor goes on", 60)
            finally:
                worker.resume()
            self._wait_for_workers()

    def stop(self) -> None:
        """Stop everything, with what is left of executors, and remove the workers' folders."""
        for server in reversed(self._servers):
            server.signal(signal.SIGCONT)
            server.stop()
        self._servers.clear()
        for user in self.users:
            user.remove()

    def _start(self) -> None:
        master = ("deploy.master.Master", "--host", HOST, "--port", str(self._port))
        self._run("master", (*master, "--webui-port", str(self._web_port)), self._variables())
        self._servers[0].wait_ready(lambda: self._workers() == 0, _START_SECONDS)
        for number, user in enumerate(self.users):
            port, web_port = map(str, free_ports(2))
            command = (
                *("deploy.worker.Worker", "--host", _host(number), "--port", port),
                *("--webui-port", web_port, "-c", "1", "-m", "1g"),
                *("-d", str(user.make_folder("work")), self.master),
            )
            variables = {**user.variables, **self._variables(user)}
            self._run(f"worker-{number}", command, variables, user.prefix)
        self._wait_for_workers()

    def _wait_for_workers(self) -> None:
        wait_until(lambda: self._workers() == len(self.users), "workers are away", _START_SECONDS)

    def _run(
        self,
        name: str,
        command: tuple[str, ...],
        env: Mapping[str, str],
        prefix: tuple[str, ...] = (),
    ) -> None:
        script = spark_home() / "bin" / "spark-class"
        line: list[str | Path] = [*prefix, script]
        line += [f"org.apache.spark.{command[0]}", *command[1:]]
        log = self._folder / "logs" / f"{name}.log"
        self._servers.append(Server.start(name, line, log, env))

    def _variables(self, user: OtherUser | None = None) -> dict[str, str]:
        """What a daemon gets; an executor has the variables of its worker."""
        variables = {**_DAEMON, "SPARK_HOME": str(spark_home()), "PATH": os.defpath}
        if user is None:
            own = self._folder / "master"
            own.mkdir(parents=True, exist_ok=True)
            (own / _CONF).touch(0o600)
            (own / _CONF).write_text(_lines(self._security))
            java = str(find_java().home)
            return {**variables, "JAVA_HOME": java, "SPARK_CONF_DIR": str(own)}
        conf = user.make_folder("conf")
        user.write(conf / _CONF, _lines(self._security))
        return {
            **variables,
            "JAVA_HOME": str(java_for(user)),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_DIRS": str(user.make_folder("local")),
            "PYTHONPATH": str(spark_home().parent),
        }

    def _workers(self) -> int | None:
        """How many workers are alive; None while the master does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=5) as page:
                return int(json.load(page)["aliveworkers"])
        except (OSError, ValueError):
            return None


def encryption(secret: str) -> dict[str, str]:
    """Spark properties with which its processes authenticate each other, and encrypt.

    Args:
        secret: That all of them share.
    """
    return {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.authEngineVersion": "2",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    }


def _lines(properties: Mapping[str, str]) -> str:
    return "".join(f"{key} {value}\n" for key, value in properties.items())


def python_for(users: Iterable[OtherUser]) -> str:
    """A Python of our version that other users can execute too; ours if there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (sys.executable, shutil.which(version, path=os.defpath)):
        if path is not None and all(user.may_read(path) for user in users):
            return path
    return sys.executable


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended; its parent may not have noticed."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _host(number: int) -> str:
    """The address of a worker; Linux has the whole of 127.0.0.0/8."""
    return str(ip_address(HOST) + number)


def java_for(user: OtherUser) -> Path:
    """A JAVA_HOME that another user can read: ours may be a script in our cache."""
    java = find_java()
    if user.may_read(java.home / "bin" / "java"):
        return java.home
    copy = user.folder / "java"
    shutil.copytree(java.home, copy)
    (user.folder / "java").chmod(0o755)
    return copy
