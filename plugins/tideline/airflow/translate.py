"""The only place where Tideline's errors become Airflow's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    DownstreamTasksSkipped,
)

from tideline.airflow.metrics import measured_step
from tideline.airflow.rights import require_operator
from tideline.airflow.tracing import traced_step
from tideline.errors import BadInput, TidelineError
from tideline.launch.job import SparkPort
from tideline.model.request import RunRequest, make_window, read_form
from tideline.model.runbook import with_entries
from tideline.model.stream import Stream
from tideline.pipeline.context import RunContext, log, now
from tideline.pipeline.lane import hold_lane
from tideline.wiring import open_run

_RETRY_LEASE_AFTER = timedelta(seconds=10)


@contextmanager
def airflow_run(
    stream: Stream, context: Any, spark: SparkPort | None = None
) -> Iterator[RunContext]:
    """A task's run: the lane is leased and errors are translated.

    Raises:
        AirflowFailException: A retry cannot help.
        AirflowException: A retry may help; Airflow's retries apply.
    """
    with translated_errors():
        dag_run = context["dag_run"]
        request = replace(_request(dag_run), by=require_operator(stream, dag_run))
        with open_run(stream, dag_run.run_id, request, spark) as run:
            run.can_ask = True
            if plan_only(context):
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
            log.info("%s", error)
            again_at = now() + _RETRY_LEASE_AFTER
            raise AirflowRescheduleException(again_at) from error  # type: ignore[no-untyped-call]
        if error.retriable:
            raise AirflowException(with_entries(error)) from error
        raise AirflowFailException(with_entries(error)) from error


def skip_tasks(task_ids: Iterable[str]) -> NoReturn:
    """Succeed, and have the scheduler skip tasks that come later: they get no process.

    Raises:
        DownstreamTasksSkipped: Always.
    """
    raise DownstreamTasksSkipped(tasks=list(task_ids))  # type: ignore[no-untyped-call]


def plan_only(context: Any) -> bool:
    """Whether the trigger form asks only for a plan."""
    return bool(context["params"].get("plan_only"))


def _request(dag_run: Any) -> RunRequest:
    """What is asked of a run: its form, or the data interval of a backfill's run.

    When a backfill reprocesses a scheduled run, Airflow changes that run's type to `backfill`. The
    run id still says what the run was created for.

    Raises:
        BadInput: The form or a backfill's conf has a key or a value that is not allowed.
    """
    asked = read_form(dag_run.conf or {}, now())
    if dag_run.run_type != "backfill" or not dag_run.run_id.startswith("backfill__"):
        return asked
    if asked.lane == "backfill":
        raise BadInput(
            f"run {dag_run.run_id}: a backfill's data interval is its window: got {asked} as well;"
            " allowed in its conf: plan_only, reason"
        )
    window = make_window(dag_run.data_interval_start, dag_run.data_interval_end, now())
    return replace(asked, window=window)
