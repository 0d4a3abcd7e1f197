"""One thin operator per step. Airflow's run id is the run's key in the ledger."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowSkipException

from tideline.airflow import approval
from tideline.airflow.step_operators import (
    PublishingOperator,
    SparkStep,
    StreamOperator,
    airflow_run,
    plan_only,
    prepare_spark,
    skip_tasks,
    translated_errors,
)
from tideline.airflow.telemetry import (
    publish_detected,
    publish_landed,
    publish_unread,
    show_position,
    tell_commit,
    tell_plan,
)
from tideline.contract.events import TableCommit, build_landed_event
from tideline.errors import Halted, ResetDetected
from tideline.failpoints import reach
from tideline.landing.context import RunContext
from tideline.model.wording import kept_reason
from tideline.operations.deciding import answer, asked_incidents
from tideline.operations.questions import dry_run
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import ask, resolve_reset
from tideline.pipeline.run_batch import (
    AFTER_DETECTION,
    DECODING_STEPS,
    FOLDING_STEPS,
    decodes_nothing,
    folds_nothing,
    steps_without_work,
)
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger


class PlanOffsetRanges(PublishingOperator):
    """Returns the ranges that the run will read, as text.

    If planning recovers an earlier run whose rows are in the table, this task publishes that run's
    asset event. An alias is the outlet, because an asset would get an event from every run.
    """

    def __init__(self, *, stream: Stream, asset: Asset, **arguments: Any) -> None:
        self.alias = AssetAlias(f"{asset.name}/settled")
        super().__init__(stream=stream, asset=asset, outlets=[self.alias], **arguments)

    def execute(self, context: Any) -> list[str]:
        """Plan; with `plan_only`, store nothing."""
        with airflow_run(self.stream, context) as run:
            if plan_only(context):
                ranges = dry_run(run).proposal.ranges
            else:
                record = plan_offset_ranges(run)
                if run.recovered is not None:
                    event = build_landed_event(run.recovered).data()
                    context["outlet_events"][self.alias].add(self.asset, extra=event)
                    self.published = run.recovered
                planned = record.plan or record.proposal
                ranges = planned.ranges if planned is not None else ()
                publish_unread(self.stream.stream, record)
                tell_plan(record)
                if ranges:
                    prepare_spark(self.stream)
            shown = [str(item) for item in ranges]
            for text in shown:
                self.log.info("%s", text)
            return shown


class DetectEarliestReset(StreamOperator):
    """Returns the frozen plan's id; None where nothing was frozen.

    It has the scheduler skip the tasks that would find nothing to do: no process is started for
    them. One that is cleared later decides for itself.
    """

    def execute(self, context: Any) -> str | None:
        """Detect and freeze, or fail: the error names each finding, its place and the next step."""
        with airflow_run(self.stream, context) as run:
            if plan_only(context):
                result = dry_run(run)
                if result.halts:
                    reasons = (*result.findings, *result.incidents)
                    raise ResetDetected("\n".join(map(str, reasons)))
                skip_tasks((*AFTER_DETECTION, *self._decoding_steps, *self._folding_steps))
            record = detect_earliest_reset(run)
            state = run.ledger.read()
            publish_detected(self.stream, state, record)
            tell_plan(record)
            plan_id = record.plan.plan_id if record.plan is not None else None
        needless = steps_without_work(record, state.control.incidents)
        if self._decoding_steps and decodes_nothing(record, state.head, state.decoding):
            needless += self._decoding_steps
        if self.stream.current is not None and folds_nothing(record, state, self.stream):
            needless += self._folding_steps
        if needless:
            # Skipping leaves by an exception, which has no return value to keep.
            context["ti"].xcom_push(key="return_value", value=plan_id)
            self.log.info("nothing to do for %s: skipped", ", ".join(needless))
            skip_tasks(needless)
        return plan_id

    @property
    def _decoding_steps(self) -> tuple[str, ...]:
        return DECODING_STEPS if self.stream.decode is not None else ()

    @property
    def _folding_steps(self) -> tuple[str, ...]:
        return FOLDING_STEPS if self.stream.current is not None else ()


class ResolveReset(HITLOperator):
    """Executes decisions; asks a person where a finding's policy is `approve`.

    Skipped where nothing was found. While it waits for an answer the task is parked: it holds no
    process and no lease.
    """

    def __init__(self, *, stream: Stream, **arguments: Any) -> None:
        super().__init__(
            subject=stream.stream,
            options=approval.ALL_OPTIONS,
            response_timeout=timedelta(seconds=stream.airflow.approval_timeout_seconds),
            **arguments,
        )
        self.stream = stream

    def execute(self, context: Any) -> Any:
        """Ask, or execute what is decided already."""
        if plan_only(context):
            raise AirflowSkipException("plan_only: nothing is stored")
        with airflow_run(self.stream, context) as run:
            asked = ask(run)
            if not asked and not resolve_reset(run):
                raise AirflowSkipException("nothing was found")
            _publish_resolved(run)
        if not asked:
            return None
        # Only now is it known what to ask; the provider's operator parks the task with it.
        self.subject = approval.subject_for(self.stream.stream, asked)
        self.body = approval.body_for(asked, self.stream.airflow.deciders)
        self.options = approval.options_for(asked)
        self.multiple = len({i.finding.kind for i in asked}) > 1
        self.log.info("%s\n%s", self.subject, self.body)
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the answer and execute it."""
        # Record it before leasing the lane: a busy lane must not lose the answer.
        with translated_errors():
            if "error" in event:
                raise Halted(
                    f"nobody answered: {event['error_type']}: {event['error']}. The incidents stay"
                    " open. Clear this task to ask again, or use tideline resolve"
                )
            by = approval.answering_user(event)
            if not approval.may_decide(self.stream, by):
                # Not every auth manager keeps others from answering, and tasks cannot name users
                # by the ids that it would need for that.
                self.log.warning("%s may not decide about %s: asking again", by, self.stream.stream)
                return self.execute(context)
            ledger, run_id = open_ledger(self.stream), context["dag_run"].run_id
            asked = asked_incidents(ledger.read(), run_id)
            choices = approval.choices_from(event["chosen_options"], asked)
            comment = (event.get("params_input") or {}).get(approval.COMMENT)
            reason = kept_reason(str(comment or ""))
            answer(ledger, run_id, choices, by=by, reason=reason)
        with airflow_run(self.stream, context) as run:
            resolve_reset(run)
            _publish_resolved(run)
        return None


def _publish_resolved(run: RunContext) -> None:
    """Incidents as decisions have left them, and what is known of a plan that is frozen now."""
    state, record = run.snapshot()
    if record is not None:
        publish_detected(run.stream, state, record)


class IngestRanges(SparkStep):
    """Lands the plan's ranges; returns the commit."""

    def execute(self, context: Any) -> Any:
        """Land; skipped where there is nothing to land."""
        with self.run_with_spark(context) as run:
            table_commit = ingest_ranges(run)
            tell_commit(table_commit)
        if table_commit is None:
            raise AirflowSkipException("nothing to land")
        return TableCommit.of(table_commit).data()


class VerifyRanges(StreamOperator):
    """Returns the verified table version."""

    def execute(self, context: Any) -> int | None:
        """Reconcile the committed version with the plan."""
        with airflow_run(self.stream, context) as run:
            verified = verify_ranges(run)
            return verified[0].version if verified is not None else None


class AdvanceOffsets(PublishingOperator):
    """Moves the head, then publishes the asset event."""

    def execute(self, context: Any) -> Any:
        """Advance; a repetition moves nothing and publishes the event again."""
        with airflow_run(self.stream, context) as run:
            record = advance_offsets(run)
            tell_plan(record)
            tell_commit(record.table_commit)
        if record.plan is None or record.table_commit is None:
            raise AirflowSkipException("nothing was landed")
        # The head has moved: whatever is cut off from here on, a cleared task publishes again.
        reach("event:ready")
        event = self.publish(context, build_landed_event(record), record)
        publish_landed(self.stream.stream, record)
        show_position(context, self.asset, run.ledger, record.plan.offset_lag)
        return event
