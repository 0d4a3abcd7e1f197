"""The one place where our errors become Airflow's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
)

from tideline.core.plan import RunRequest
from tideline.core.stream import Stream
from tideline.errors import BadInput, StreamBusy, TidelineError
from tideline.ports import SparkPort
from tideline.steps.context import RunContext, log, now
from tideline.wiring import open_run

_LOOK_AGAIN_AFTER = timedelta(seconds=10)
FORM = ("plan_only", "reason")


@contextmanager
def airflow_run(
    stream: Stream, context: Any, spark: SparkPort | None = None
) -> Iterator[RunContext]:
    """One task's view of its run: errors translated, the lane leased.

    Raises:
        AirflowFailException: Trying again cannot help.
        AirflowException: It may; Airflow's retries apply.
    """
    with translated_errors():
        dag_run = context["dag_run"]
        if dag_run.run_type == "backfill":
            raise BadInput(
                f"run {dag_run.run_id}: backfills are not there yet; a live run would ignore the"
                " window, so this one does nothing"
            )
        _check_form(dag_run.conf or {})
        with open_run(stream, dag_run.run_id, RunRequest(), spark) as run:
            run.can_ask = True
            if plan_only(context):
                yield run
                return
            with _lane(run):
                yield run


@contextmanager
def translated_errors() -> Iterator[None]:
    """Our errors become Airflow's.

    Raises:
        AirflowFailException: Trying again cannot help.
        AirflowException: It may; Airflow's retries apply.
    """
    try:
        yield
    except TidelineError as error:
        if error.retriable:
            raise AirflowException(str(error)) from error
        raise AirflowFailException(str(error)) from error


@contextmanager
def _lane(run: RunContext) -> Iterator[None]:
    """Hold the lane's lease; while another run's task has it, wait without using up a try."""
    with ExitStack() as held:
        try:
            held.enter_context(run.ledger.lease(run.request.lane))
        except StreamBusy as busy:
            log.info("%s", busy)
            again_at = now() + _LOOK_AGAIN_AFTER
            raise AirflowRescheduleException(again_at) from busy  # type: ignore[no-untyped-call]
        yield


def plan_only(context: Any) -> bool:
    """Whether the trigger form asked for a plan and nothing else."""
    return bool(context["params"].get("plan_only"))


def _check_form(conf: dict[str, Any]) -> None:
    """Airflow takes unknown keys and checks types only in its own form: check here too."""
    unknown = sorted(set(conf) - set(FORM))
    if unknown:
        raise BadInput(f"the run's conf: {unknown[0]}: unknown key; allowed: {', '.join(FORM)}")
    if not isinstance(conf.get("plan_only", False), bool):
        raise BadInput(
            f"the run's conf: plan_only: got {conf['plan_only']!r}; allowed: true, false"
        )
    if not isinstance(conf.get("reason") or "", str):
        raise BadInput(f"the run's conf: reason: got {conf['reason']!r}; allowed: text")
