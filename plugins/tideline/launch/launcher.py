"""How Spark is started: chosen here, by the type of the stream's Spark connection."""

from __future__ import annotations

from collections.abc import Callable

from tideline.connections import connect_url, find_connection
from tideline.launch.connect import SparkConnect
from tideline.launch.submit import SparkSubmit, Submission, ingest_submission


class Launcher:
    """Runs the ingest application (the steps' `SparkPort`).

    A connection of type `spark_connect` leads to a server, any other one to spark-submit with its
    master; an undefined one to spark-submit with `local[*]`.

    The connection is looked up when Spark is needed: most runs have nothing to land.

    Args:
        connection_id: Id of an Airflow connection.
        run_submission: Executes spark-submit, to its end; in a child process unless given.
        stop_submission: Ends what `run_submission` has started.
    """

    def __init__(
        self,
        connection_id: str,
        run_submission: Callable[[Submission], None] | None = None,
        stop_submission: Callable[[], None] | None = None,
    ) -> None:
        self._connection_id = connection_id
        self._run_submission = run_submission
        self._stop_submission = stop_submission
        self._stop: Callable[[], None] | None = None

    def submit(self, job_path: str) -> None:
        """Run the application on a job file, to its end.

        Raises:
            ConnectionMissing: The connection cannot be used.
            ServiceAway: Spark could not be started or reached, or ended badly.
        """
        connection = find_connection(self._connection_id)
        server = connect_url(self._connection_id, connection)
        if server is not None:
            client = SparkConnect(server)
            self._stop = client.stop
            client.submit(job_path)
            return
        run, self._stop = self._run_submission, self._stop_submission
        if run is None:
            child = SparkSubmit()
            run, self._stop = child.run, child.stop
        run(ingest_submission(connection, job_path))

    def stop(self) -> None:
        """End what was started; does nothing if nothing was."""
        if self._stop is not None:
            self._stop()
