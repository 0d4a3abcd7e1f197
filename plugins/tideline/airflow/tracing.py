"""A span for each step, below the task's own, where Airflow's tracing is on; otherwise nothing.

Airflow makes a span for each task and says where spans go (`[traces] otel_on`). Without that, the
tracer of OpenTelemetry's API does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace

from tideline.errors import TidelineError
from tideline.model.run import RunRecord, TableCommit
from tideline.pipeline.context import RunContext


@contextmanager
def traced_step(run: RunContext, step: str) -> Iterator[None]:
    """A span of one step; an error of ours is its status, by its class.

    Args:
        run: The run.
        step: The task's id.
    """
    facts = {
        "tideline.stream": run.stream.stream,
        "tideline.run_id": run.run_id,
        "tideline.lane": run.request.lane,
    }
    with trace.get_tracer("tideline").start_as_current_span(
        f"tideline.{step}", attributes=facts, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except TidelineError as error:
            # Not its message: it may be long, and the task's log has it.
            span.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise


def tell_plan(record: RunRecord) -> None:
    """Say in the step's span what the run reads."""
    planned = record.plan or record.proposal
    if planned is None:
        return
    span = trace.get_current_span()
    span.set_attribute("tideline.ranges", len(planned.ranges))
    span.set_attribute("tideline.offsets", planned.estimated_records)
    if record.plan is not None:
        span.set_attribute("tideline.plan_id", record.plan.plan_id)


def tell_commit(commit: TableCommit | None) -> None:
    """Say in the step's span what is in the table."""
    if commit is None:
        return
    span = trace.get_current_span()
    span.set_attribute("tideline.rows", commit.rows)
    span.set_attribute("tideline.bytes", commit.bytes)
    span.set_attribute("tideline.table_version", commit.version)
