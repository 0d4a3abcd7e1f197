"""Ways to run the Spark application without a JVM start for every run."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

import decode_rows
import ingest_range
from devstack.connect_server import ConnectServer
from tideline.errors import ServiceAway
from tideline.launch.connect import SparkConnect
from tideline.launch.jars import delta_jars, spark_jars
from tideline.launch.java import find_java
from tideline.launch.programs import DECODE, INGEST, application_for
from tideline.launch.submit import class_paths, configuration
from tideline.model.addresses import StoreKind, store_of
from tideline.model.spark_job import DecodeResult, SparkResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTER = "local[2]"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What a session needs for Delta's own reader and writer; a run needs none of it."""
DELTA_SESSION = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
}
"""For tests that read and change tables as others do; a run needs none of it."""


class InProcessSpark:
    """The Spark application in this process: real Spark, one JVM for all runs.

    Args:
        is_small: Whether the session has the settings of a small batch, as spark-submit would
            choose them.
        store: A kind of object store that it can read and write, for which more jars are fetched.

    `submits` counts the applications.
    """

    def __init__(self, *, is_small: bool = True, store: StoreKind | None = None) -> None:
        self.submits = 0
        self._is_small = is_small
        self._store = store or store_of(os.environ.get("TIDELINE_TEST_BUCKET", ""))
        self._session: SparkSession | None = None

    @property
    def session(self) -> SparkSession:
        """The session, started at first use."""
        if self._session is None:
            self._session = self._start()
        return self._session

    def _start(self) -> SparkSession:
        from tideline.spark.session import build_session  # imports pyspark

        logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs to closed files at the end
        jars = [*spark_jars(self._store), *delta_jars()]
        properties = {
            **class_paths(jars),
            **configuration(_MASTER, is_small=self._is_small),
            **DELTA,
            **DELTA_SESSION,
            "spark.ui.showConsoleProgress": "false",
        }
        options = [part for k, v in properties.items() for part in ("--conf", f'"{k}={v}"')]
        os.environ["JAVA_HOME"] = str(find_java().home)
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(
            ["--master", _MASTER, "--jars", ",".join(map(str, jars)), *options, "pyspark-shell"]
        )
        return build_session("tests")

    def submit(self, job_path: str) -> None:
        """Run the job file as spark-submit would.

        Raises:
            ServiceAway: The application failed; its result says why.
        """
        self.submits += 1
        programs = {INGEST: ingest_range, DECODE: decode_rows}
        program = programs[application_for(job_path)]
        result: SparkResult | DecodeResult = program.run(job_path, self.session)
        if result.error:
            raise ServiceAway("the application failed")

    def stop(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.stop()


class ConnectSpark(InProcessSpark):
    """The application as a client of a Spark Connect server.

    The session in this process only looks at tables.

    Args:
        server: It runs, and goes on when this is stopped.
        store: As above, of the session in this process.
    """

    def __init__(self, server: ConnectServer, *, store: StoreKind | None = None) -> None:
        super().__init__(store=store)
        self.server = server

    def submit(self, job_path: str) -> None:
        """Run the job file as a stream with such a connection would."""
        self.submits += 1
        SparkConnect(self.server.url, self.server.token).submit(job_path)


class NoSpark:
    """For runs that must not start Spark."""

    def submit(self, job_path: str) -> None:
        """Must not be called.

        Raises:
            AssertionError: It was called.
        """
        raise AssertionError(f"Spark was started for {job_path}")
