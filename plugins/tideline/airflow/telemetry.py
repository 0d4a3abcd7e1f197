"""What Airflow is told about a run beside its result: spans, metrics, the asset's page.

Spans: one for each step, below the task's own, where Airflow's tracing is on (`[traces] otel_on`);
otherwise the tracer of OpenTelemetry's API does nothing. Metrics: `model/metrics.py` has every
name. Of all this nothing is read back: the ledger is the authority.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Any, get_args

from airflow.sdk import Asset
from airflow.sdk.observability.stats import Stats
from opentelemetry import trace

from tideline.errors import Halted, TidelineError
from tideline.landing.context import RunContext, log
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model import metrics
from tideline.model.current import Folding, FoldRecord
from tideline.model.decoding import DecodeRecord, ErrorClass
from tideline.model.incident import Incident
from tideline.model.plan import BatchPlan, BatchProposal
from tideline.model.run import RunRecord, TableCommit
from tideline.model.verdicts import DECODING, FOLDING, HALTING
from tideline.stream.stream import Stream

_SHOWN = 500
"""Partitions; Airflow limits a value of the asset state store to 64 KiB by default."""


@contextmanager
def traced_step(run: RunContext, step: str) -> Iterator[None]:
    """A span of one step, which is a task's id; an error of ours is its status, by its class."""
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


def publish(metric: metrics.Metric, value: float, **tags: str) -> None:
    """Set a gauge, in the metric's unit and with exactly its tags."""
    assert tags.keys() == set(metric.tags), f"{metric.name}: tags {sorted(tags)}"
    # Airflow 3.2 has no functions beside this class; later ones have both.
    Stats.gauge(metric.name, value, tags=tags)


@contextmanager
def measured_step(run: RunContext, task: Any) -> Iterator[None]:
    """Publish how long a step works, its earlier tries, and what is open if it halts.

    `task` is Airflow's task instance.
    """
    place = {"stream": run.stream.stream, "step": task.task_id}
    publish(metrics.STEP_RETRIES, max(0, task.try_number - 1), **place)
    began = monotonic()
    try:
        yield
    except Halted:
        publish_incidents(run.stream.stream, run.ledger.read().open_incidents)
        raise
    finally:
        publish(metrics.STEP_SECONDS, round(monotonic() - began, 3), **place)


def publish_incidents(stream: str, incidents: Iterable[Incident]) -> None:
    """Publish how many incidents of each class are open: 0 as well, so that an alert ends."""
    kinds = [incident.finding.kind for incident in incidents]
    for kind in (*HALTING, *DECODING, *FOLDING):
        publish(metrics.OPEN_INCIDENTS, kinds.count(kind), stream=stream, **{"class": kind})


def _publish_state(file: Stream, state: LedgerState) -> None:
    """Publish what a stream's ledger tells; 0 for a section that was taken out of its file."""
    stream = file.stream
    publish_incidents(stream, state.open_incidents)
    if state.decoding.table_ids:
        left = (state.head.coverage - state.decoding.coverage).offsets
        publish(metrics.UNDECODED, 0 if file.decode is None else left, stream=stream)
    if names := state.head.names:
        wrong = sum(table.finding is not None for table in names)
        publish(metrics.WRONG_NAMES, 0 if file.catalog is None else wrong, stream=stream)
    if state.erasing.begun:
        late = sum(erasure.is_overdue(datetime.now(UTC)) for erasure in state.erasing.open)
        publish(metrics.ERASURES_OVERDUE, late, stream=stream)


def publish_unread(stream: str, record: RunRecord) -> None:
    """Publish what a live run has found unread; a backfill says nothing about the stream's lag."""
    if record.proposal is not None and record.lane == "live":
        publish(metrics.OFFSET_LAG, _unread(record.proposal), stream=stream)


def publish_detected(file: Stream, state: LedgerState, record: RunRecord) -> None:
    """Publish incidents, and for a live run how old what is unread is, and its headroom."""
    _publish_state(file, state)
    stream = file.stream
    if record.lane != "live":
        return
    if record.status == "nothing_to_do":  # the run ends here
        _publish_success(stream, record)
    if record.status in ("planned", "nothing_to_do"):  # otherwise cleared: not measured this time
        _publish_age(stream, state, record)


def _publish_age(stream: str, state: LedgerState, record: RunRecord) -> None:
    """Publish how old what is unread is, and the headroom."""
    planned = record.plan or record.proposal
    if planned is None or not _unread(planned):
        publish(metrics.LAG_SECONDS, 0, stream=stream)
        return
    now, headroom = datetime.now(UTC), state.head.headroom
    ages = [(now - h.written_at).total_seconds() for h in headroom if h.written_at is not None]
    if ages:
        publish(metrics.LAG_SECONDS, max(0, *ages), stream=stream)
    left = [seconds for h in headroom if (seconds := h.seconds_left(now)) is not None]
    if left:
        publish(metrics.HEADROOM_SECONDS, min(left), stream=stream)


def publish_landed(stream: str, record: RunRecord) -> None:
    """Publish what a run has landed, and for a live one what it has left unread."""
    assert record.plan is not None
    assert record.table_commit is not None
    publish(metrics.ROWS, sum(v.rows for v in record.verified), stream=stream)
    publish(metrics.BYTES, record.table_commit.bytes, stream=stream)
    if record.lane == "live":
        publish(metrics.OFFSET_LAG, record.plan.offset_lag, stream=stream)
        _publish_success(stream, record)


def _publish_success(stream: str, record: RunRecord) -> None:
    publish(metrics.SUCCEEDED_AT, int(record.updated_at.timestamp()), stream=stream)


def publish_decoded(stream: str, record: DecodeRecord) -> None:
    """Publish what was decoded, and what went into quarantine by error class."""
    publish(metrics.DECODED, record.decoded, stream=stream)
    quarantined = dict(record.classes)
    for name in get_args(ErrorClass):
        count = quarantined.get(name, 0)
        publish(metrics.QUARANTINED, count, stream=stream, **{"class": name})
    for name, count in record.failed:
        publish(metrics.EXPECTATION_FAILED, count, stream=stream, expectation=name)


def publish_folded(stream: str, record: FoldRecord, folding: Folding) -> None:
    """Publish what was folded, and how many rows there are now."""
    publish(metrics.FOLDED, record.changes, stream=stream)
    publish(metrics.CURRENT_ROWS, folding.live, stream=stream)


def _unread(planned: BatchPlan | BatchProposal) -> int:
    return planned.estimated_records + planned.offset_lag


def show_position(context: Any, asset: Asset, ledger: Ledger, offset_lag: int) -> None:
    """Put head and lag into the asset state store; an error is logged and fails no run.

    People see it on the asset's page. The store could not be the authority: it has no
    compare-and-set, and it loses its rows when a Dag file does not parse.
    """
    try:
        positions = ledger.read().head.positions
        shown = {f"{p.topic}-{p.partition}": p.next_offset for p in positions[:_SHOWN]}
        state = context["asset_state_store"][asset]
        state.set("next_offsets", shown)
        state.set("offset_lag", offset_lag)
        state.set("partitions", len(positions))
    except Exception as error:
        log.warning("the asset's page does not show the new position: %s", error)


def publish_run(run: RunContext, record: RunRecord | None) -> None:
    """Publish all that a run has to tell whose steps are no tasks of their own.

    Args:
        record: As it was closed; None for a run that halted or failed.
    """
    stream = run.stream.stream
    try:
        state = run.ledger.read()
    except TidelineError as error:  # what the run itself ended with says more
        log.warning("%s: no metrics: %s", stream, error)
        return
    _publish_state(run.stream, state)
    if record is None:
        return
    publish_unread(stream, record)
    if record.lane == "live":
        _publish_age(stream, state, record)
    if record.status == "nothing_to_do":
        _publish_success(stream, record)
    elif record.status == "done" and record.table_commit is not None:
        publish_landed(stream, record)
    for each in (*run.settled, run.decoded, run.folded):  # also what others had begun
        if isinstance(each, DecodeRecord):
            publish_decoded(stream, each)
        elif each is not None:
            publish_folded(stream, each, state.folding)
