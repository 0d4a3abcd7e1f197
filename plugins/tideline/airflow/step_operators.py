"""What the operators of steps have in common: a run with its lease, its asset's event, Spark.

The only place where Tideline's errors become Airflow's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

from airflow.configuration import conf
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from tideline.airflow.approval import given_in, is_reprocessed, require_operator
from tideline.airflow.telemetry import measured_step, traced_step
from tideline.contract.parts import Shape
from tideline.errors import BadInput, ServiceAway, TidelineError
from tideline.landing.context import RunContext, hold_lane, log, now
from tideline.launch.job import SparkPort
from tideline.launch.launcher import Launcher
from tideline.launch.programs import spark_variables
from tideline.launch.runtime import PrivateFolder
from tideline.launch.submit import Submission, submission_variables
from tideline.model.current import FoldRecord
from tideline.model.decoding import DecodeRecord
from tideline.model.incident import with_entries
from tideline.model.request import FORM, RunRequest, make_window, read_form
from tideline.model.run import RunRecord
from tideline.model.wording import first_few, key_shown
from tideline.stream.stream import Stream
from tideline.wiring import find_store, open_run

_RETRY_LEASE_AFTER = timedelta(seconds=10)
"""A task that finds another at work leaves its process, and comes back after so long."""


@contextmanager
def airflow_run(
    stream: Stream, context: Any, spark: SparkPort | None = None
) -> Iterator[RunContext]:
    """A task's run: its user may operate, the lane is leased, errors are `translated_errors`."""
    with translated_errors():
        dag_run = context["dag_run"]
        by = require_operator(stream, dag_run)
        request = replace(request_of(dag_run), by=by)
        with open_run(stream, dag_run.run_id, request, spark) as run:
            run.can_ask = True  # Airflow has a form: `approve` can wait for its answer
            if plan_only(context):  # stores nothing: no lease, and nothing to measure
                yield run
                return
            task = context["ti"]
            with hold_lane(run), measured_step(run, task), traced_step(run, task.task_id):
                yield run


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise Airflow's errors in place of Tideline's; they name the runbook's entry.

    Raises:
        AirflowFailException: A retry cannot help.
        AirflowRescheduleException: Another run's task holds the lane; waiting uses up no try.
        AirflowException: A retry may help; Airflow's retries apply.
    """
    try:
        yield
    except TidelineError as error:
        if "lease" in error.facts:
            reschedule_task(str(error))
        if error.retriable:
            raise AirflowException(with_entries(error)) from error
        raise AirflowFailException(with_entries(error)) from error


def reschedule_task(why: str) -> NoReturn:
    """Leave the process, and have the task come back soon; no try is used up.

    Raises:
        AirflowRescheduleException: Always.
    """
    log.info("%s", why)
    raise AirflowRescheduleException(now() + _RETRY_LEASE_AFTER)  # type: ignore[no-untyped-call]


def skip_tasks(task_ids: Iterable[str | tuple[str, int]]) -> NoReturn:
    """Succeed, and have the scheduler skip tasks that come later: they get no process.

    Args:
        task_ids: Of a mapped task's instance with its number.

    Raises:
        DownstreamTasksSkipped: Always.
    """
    raise DownstreamTasksSkipped(tasks=list(task_ids))  # type: ignore[no-untyped-call]


def prepare_spark(stream: Stream) -> None:
    """Have this machine's Spark driver start now, where the task that needs Spark runs here too.

    Only Airflow's `LocalExecutor` promises that: others may run the task on another machine.
    """
    if conf.get("core", "executor") == "LocalExecutor":
        Launcher(stream.spark, store=find_store(stream)).prepare()


def plan_only(context: Any) -> bool:
    """Whether the trigger form asks only for a plan."""
    return bool(context["params"].get("plan_only"))


def request_of(dag_run: Any, form: Collection[str] = FORM) -> RunRequest:
    """What is asked of a run: its form, or the data interval of a backfill's run.

    A run that a backfill reprocesses has what it was created for, and nothing of the backfill's.

    Args:
        form: Keys of the Dag's form.

    Raises:
        BadInput: The form or a backfill's conf has a key or a value that is not allowed.
    """
    if is_reprocessed(dag_run) and (given := given_in(dag_run)):
        keys = first_few(map(key_shown, given))
        raise BadInput(
            f"run {dag_run.run_id}: a backfill runs it again: got {keys} in its conf; allowed:"
            " nothing. Trigger a new run with it"
        )
    asked = read_form(dag_run.conf or {}, now(), form)
    if dag_run.run_type != "backfill" or is_reprocessed(dag_run):
        return asked
    if asked.lane == "backfill":
        others = [key for key in form if key not in ("from", "to", "ranges")]
        raise BadInput(
            f"run {dag_run.run_id}: a backfill's data interval is its window: got {asked} as well;"
            f" allowed in its conf: {', '.join(others) or 'nothing'}"
        )
    window = make_window(dag_run.data_interval_start, dag_run.data_interval_end, now())
    return replace(asked, window=window)


class StreamOperator(BaseOperator):
    """A step of one stream."""

    def __init__(self, *, stream: Stream, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.stream = stream


class PublishingOperator(StreamOperator):
    """A step that publishes a table's asset event, and tells OpenLineage about what it published.

    Args:
        asset: The table. It is the outlet, unless `outlets` names another.
    """

    def __init__(self, *, stream: Stream, asset: Asset, **arguments: Any) -> None:
        super().__init__(stream=stream, **{"outlets": [asset], **arguments})
        self.asset = asset
        self.published: RunRecord | DecodeRecord | FoldRecord | None = None

    def publish(
        self, context: Any, event: Shape, record: RunRecord | DecodeRecord | FoldRecord
    ) -> Any:
        """Publish the event of what is closed; its data, which the task returns."""
        data = event.data()
        context["outlet_events"][self.asset].extra = data
        self.published = record
        return data

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Called by Airflow's OpenLineage provider, if it is installed, when the task is done."""
        if self.published is None:
            return None
        from tideline.airflow.lineage import lineage_of

        return lineage_of(self.stream, self.published)


class SparkStep(SparkSubmitOperator):
    """A step that runs an application on the stream's Spark connection.

    The type of the connection says how: see `Launcher`. With spark-submit this operator is the
    provider's, so that its settings, logs and ways to end a job on a cluster apply.
    """

    def __init__(self, *, stream: Stream, **arguments: Any) -> None:
        # Not durable: each attempt writes under a token of its own (R5), so a retry has no use for
        # the job of an earlier one.
        super().__init__(conn_id=stream.spark.connection, durable=False, **arguments)
        self.stream = stream
        self._launcher: Launcher | None = None

    @contextmanager
    def run_with_spark(self, context: Any) -> Iterator[RunContext]:
        """The run, with Spark started as the connection says, once a step needs it."""
        if plan_only(context):
            raise AirflowSkipException("plan_only: nothing is stored")
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
            with _variables(submission), PrivateFolder() as folder:
                hook = self._get_hook()  # made anew: a replay submits twice, with other arguments
                child: dict[str, Any] = {"env": spark_variables(os.environ), "cwd": folder}
                hook.submit = partial(hook.submit, **child)  # type: ignore[method-assign]
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
    try:
        with submission_variables(submission, before) as wanted:
            _set_variables(wanted)
            yield
    finally:
        _set_variables(before)


def _set_variables(wanted: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)
