"""The span of a step, below the one that Airflow has made for its task."""

from types import SimpleNamespace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.worlds.contract_objects import DONE
from tideline.airflow import telemetry as tracing
from tideline.errors import ResetDetected

RUN = SimpleNamespace(
    stream=SimpleNamespace(stream="orders"), run_id="run-1", request=SimpleNamespace(lane="live")
)


@pytest.fixture
def spans(monkeypatch):
    """Where ended spans are."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing.trace, "get_tracer", provider.get_tracer)
    return exporter


def test_a_step_says_what_it_did(spans):
    """Stream, run, plan, offsets and rows; its parent is the task's span."""
    airflow = tracing.trace.get_tracer("airflow")
    with (
        airflow.start_as_current_span("worker.advance_offsets"),
        tracing.traced_step(RUN, "advance_offsets"),
    ):
        tracing.tell_plan(DONE)
        tracing.tell_commit(DONE.table_commit)
        tracing.tell_commit(None)
    step, task = spans.get_finished_spans()
    assert step.name == "tideline.advance_offsets"
    assert step.parent.span_id == task.context.span_id
    assert dict(step.attributes) == {
        "tideline.stream": "orders",
        "tideline.run_id": "run-1",
        "tideline.lane": "live",
        "tideline.ranges": 1,
        "tideline.offsets": 4,
        "tideline.plan_id": "plan-1",
        "tideline.rows": 3,
        "tideline.bytes": 99,
        "tideline.table_version": 4,
    }
    assert step.status.status_code is StatusCode.UNSET


def test_an_error_is_the_status_of_its_step(spans):
    """By its class; the message is in the task's log."""
    with pytest.raises(ResetDetected), tracing.traced_step(RUN, "detect_earliest_reset"):
        raise ResetDetected("orders-0: retention_loss")
    (step,) = spans.get_finished_spans()
    assert (step.status.status_code, step.status.description) == (StatusCode.ERROR, "ResetDetected")
    assert not step.events


def test_without_tracing_nothing_is_recorded():
    """Airflow sets a provider only where `[traces] otel_on` is set."""
    with tracing.traced_step(RUN, "verify_ranges"):
        assert not tracing.trace.get_current_span().is_recording()
        tracing.tell_plan(DONE)
