"""How Spark is started: chosen here, by the type of the stream's Spark connection."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from subprocess import SubprocessError
from typing import TYPE_CHECKING

from tideline.connections import find_connection
from tideline.errors import TidelineError
from tideline.launch.connect import SparkConnect
from tideline.launch.jvm import is_local, is_plain
from tideline.launch.local_driver import LocalDriver, planned_work
from tideline.launch.submit import SparkSubmit, Submission, job_submission, site_properties
from tideline.launch.target import Target, connect_url, target_of
from tideline.store.store_settings import StoreSettings
from tideline.stream.landing import Spark

if TYPE_CHECKING:  # most runs have nobody who watches
    from tideline.launch.progress import ProgressLine

log = logging.getLogger("tideline")

_ENCRYPTED = ("spark.authenticate", "spark.network.crypto.enabled")


class Launcher:
    """Runs the Spark applications (the steps' `SparkPort`).

    | connection | Spark |
    |---|---|
    | of type `spark_connect` | that server |
    | with a local master, or undefined: `local[*]` | this user's warm driver on this machine |
    | with another master, or Spark has configuration files of its own | spark-submit |
    | the same, with deploy mode `cluster` | spark-submit; the driver is on another machine |

    The connection is looked up when Spark is needed: most runs have nothing to land.

    Args:
        spark: Which connection, and how long a local driver is kept.
        run_submission: Executes spark-submit, to its end; in a child process unless given.
        stop_submission: Ends what `run_submission` has started.
        store: How the object store is reached that holds the tables; None for file systems.
        watcher: Is told of each job, and of one of a local driver also how far it is.
    """

    def __init__(
        self,
        spark: Spark,
        run_submission: Callable[[Submission], None] | None = None,
        stop_submission: Callable[[], None] | None = None,
        *,
        store: StoreSettings | None = None,
        watcher: ProgressLine | None = None,
    ) -> None:
        self._spark = spark
        self._watcher = watcher
        self._store = store
        self._run_submission = run_submission
        self._stop_submission = stop_submission
        self._stop: Callable[[], None] | None = None

    def submit(self, job_path: str) -> None:
        """Run the application that a job file is for, to its end."""
        if self._watcher is None:
            self._submit(job_path)
            return
        self._watcher.begin(*planned_work(job_path))
        try:
            self._submit(job_path)
        finally:
            self._watcher.end()

    def prepare(self) -> None:
        """Start this machine's warm driver for a job that comes soon, where one will be used.

        A failure is left to `submit`, which meets the failure again and tells it.
        """
        connection_id = self._spark.connection
        try:
            connection = find_connection(connection_id)
            if connection is not None and connect_url(connection_id, connection):
                return
            if (driver := self._driver(target_of(connection_id, connection))) is not None:
                driver.prepare()
        except (TidelineError, OSError, SubprocessError) as error:
            log.debug("no Spark driver was prepared: %s", error)

    def _driver(self, target: Target) -> LocalDriver | None:
        """The warm driver of this machine, where the connection means it."""
        if is_local(target.master) and is_plain():
            keep_seconds = self._spark.keep_warm_seconds
            return LocalDriver(target.master, keep_seconds, self._store, self._watcher)
        return None

    def _submit(self, job_path: str) -> None:
        connection_id = self._spark.connection
        connection = find_connection(connection_id)
        if connection is not None and (server := connect_url(connection_id, connection)):
            self._run(SparkConnect(server, connection.password, connection_id), job_path)
            return
        target = target_of(connection_id, connection)
        if (driver := self._driver(target)) is not None:
            self._run(driver, job_path)
            return
        if not target.master.startswith("local"):
            if self._store is not None:
                self._store.refuse_cluster()
            _warn_in_clear(connection_id)
        run, self._stop = self._run_submission, self._stop_submission
        if run is None:
            child = SparkSubmit()
            run, self._stop = child.run, child.stop
        submission = job_submission(target, job_path, self._store)
        if target.is_elsewhere:
            self._submit_elsewhere(run, submission, job_path)
        else:
            run(submission)

    def _submit_elsewhere(
        self, run: Callable[[Submission], None], submission: Submission, job_path: str
    ) -> None:
        # Imported here: other ways need neither delta-rs nor pyarrow.
        from tideline.launch.elsewhere import job_elsewhere, on_cluster

        options = {} if self._store is None else self._store.for_delta()
        with job_elsewhere(job_path, options) as remote:
            run(on_cluster(submission, remote, Path(job_path).parent))

    def stop(self) -> None:
        """End what was started; does nothing if nothing was."""
        if self._stop is not None:
            self._stop()

    def _run(self, client: SparkConnect | LocalDriver, job_path: str) -> None:
        self._stop = client.stop
        client.submit(job_path)


def _warn_in_clear(connection_id: str) -> None:
    """Say which of Spark's own properties is missing, if secrets travel to executors in clear."""
    site = site_properties()
    missing = [name for name in _ENCRYPTED if site.get(name) != "true"]
    if missing:
        log.warning(
            "connection %s: Spark sends the secrets of Kafka and of the store to its executors in"
            " clear; set %s to true in its spark-defaults.conf (docs/clusters.md)",
            connection_id,
            " and ".join(missing),
        )
