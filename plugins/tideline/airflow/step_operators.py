"""What the steps' operators have in common: a stream, and a way to run Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from tideline.airflow.translate import airflow_run, plan_only, translated_errors
from tideline.errors import ServiceAway
from tideline.launch.environment import spark_variables
from tideline.launch.launcher import Launcher
from tideline.launch.submit import Submission
from tideline.model.stream import Stream
from tideline.pipeline.context import RunContext
from tideline.wiring import find_store


class StreamOperator(BaseOperator):
    """A step of one stream.

    Args:
        stream: The checked stream file.
    """

    def __init__(self, *, stream: Stream, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.stream = stream


class SparkStep(SparkSubmitOperator):
    """A step that runs an application on the stream's Spark connection.

    The type of the connection says how: see `Launcher`. With spark-submit this operator is the
    provider's, so that its settings, logs and ways to end a job on a cluster apply.

    Args:
        stream: The checked stream file.
    """

    def __init__(self, *, stream: Stream, **arguments: Any) -> None:
        super().__init__(conn_id=stream.spark.connection, durable=False, **arguments)
        self.stream = stream
        self._launcher: Launcher | None = None

    @contextmanager
    def run_with_spark(self, context: Any) -> Iterator[RunContext]:
        """The run, with Spark started as the connection says, once a step needs it."""
        if plan_only(context):
            raise AirflowSkipException("plan_only")
        with translated_errors():
            store = find_store(self.stream)
        self._launcher = Launcher(
            self.stream.spark,
            run_submission=partial(self._execute_submission, context),
            stop_submission=super().on_kill,
            store=store,
        )
        with airflow_run(self.stream, context, spark=self._launcher) as run:
            yield run

    def _execute_submission(self, context: Any, submission: Submission) -> None:
        """Have the provider's operator execute a submission, to its end."""
        connection = self.stream.spark.connection
        if submission.is_default_master:
            # Without a connection the provider submits to YARN, and takes no master.
            os.environ[f"AIRFLOW_CONN_{connection.upper()}"] = json.dumps(
                {"conn_type": "spark", "host": submission.master}
            )
        self.name = f"tideline {self.stream.stream}"
        self.application = submission.application
        self.application_args = list(submission.arguments)
        self.jars = ",".join(submission.jars) or None
        self.py_files = ",".join(submission.py_files)
        self.conf = dict(submission.conf)
        self.properties_file = submission.properties_file or None
        try:
            with _variables(submission):
                hook = self._get_hook()  # made anew: a replay submits twice, with other arguments
                variables = spark_variables(os.environ)
                hook.submit = partial(hook.submit, env=variables)  # type: ignore[method-assign]
                self._hook = hook
                super().execute(context)
        except AirflowException as error:
            raise ServiceAway(f"spark-submit failed: {error}") from error

    def on_kill(self) -> None:
        """End what this task has started."""
        if self._launcher is not None:
            self._launcher.stop()


@contextmanager
def _variables(submission: Submission) -> Iterator[None]:
    """Let this process have a submission's variables: the provider's ways to end it need them.

    The provider's own way, `env_vars`, puts them into arguments for YARN and Kubernetes.
    """
    before = dict(os.environ)
    wanted = {**before, **submission.environment}
    if submission.store is not None:
        wanted = submission.store.within(wanted)
    try:
        _set_variables(wanted)
        yield
    finally:
        _set_variables(before)


def _set_variables(wanted: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)
