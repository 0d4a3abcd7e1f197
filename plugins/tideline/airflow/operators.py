"""One thin operator per step; each finds its run in the ledger by Airflow's run id."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Asset, AssetAlias, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException
from airflow.sdk.observability import stats

from tideline.airflow import approval
from tideline.airflow.mirror import show_position
from tideline.airflow.translate import airflow_run, plan_only, translated_errors
from tideline.connections import connect_url, find_connection, spark_master
from tideline.errors import Halted, ResetDetected, ServiceAway
from tideline.failpoints import reach
from tideline.json_codec import to_data
from tideline.launch.connect import SparkConnect
from tideline.launch.jars import spark_jars
from tideline.launch.submit import application, configuration, environment, is_small, package_zip
from tideline.model.headroom import Headroom
from tideline.model.run import RunRecord
from tideline.model.stream import Stream
from tideline.operations.dry_run import dry_run
from tideline.pipeline.advance_offsets import advance_offsets
from tideline.pipeline.asking import answer, ask, asked_incidents
from tideline.pipeline.detect_earliest_reset import detect_earliest_reset
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.plan_offset_ranges import plan_offset_ranges
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.verify_ranges import verify_ranges
from tideline.wiring import open_ledger


class StreamOperator(BaseOperator):
    """A step of one stream.

    Args:
        stream: The checked stream file.
    """

    def __init__(self, *, stream: Stream, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.stream = stream


class PlanOffsetRanges(StreamOperator):
    """Returns the ranges that the run would read, or has frozen.

    Publishes the asset event of an earlier run that it found landed and closed. The alias makes
    that conditional: an asset among the outlets would get an event from every run.

    Args:
        asset: The stream's table.
    """

    def __init__(self, *, stream: Stream, asset: Asset, **arguments: Any) -> None:
        self.alias = AssetAlias(f"{asset.name}/settled")
        super().__init__(stream=stream, outlets=[self.alias], **arguments)
        self.asset = asset

    def execute(self, context: Any) -> list[str]:
        """Plan; with plan_only nothing is stored."""
        with airflow_run(self.stream, context) as run:
            if plan_only(context):
                ranges = dry_run(run).proposal.ranges
            else:
                record = plan_offset_ranges(run)
                if run.recovered is not None:
                    event = asset_event(run.recovered)
                    context["outlet_events"][self.alias].add(self.asset, extra=event)
                found = record.plan or record.proposal
                ranges = found.ranges if found is not None else ()
                if record.proposal is not None:
                    unread = record.proposal.estimated_records + record.proposal.offset_lag
                    tags = {"stream": self.stream.stream}
                    stats.gauge("tideline.offset_lag", unread, tags=tags)
            for planned in ranges:
                self.log.info("%s", planned)
            return [str(planned) for planned in ranges]


class DetectEarliestReset(StreamOperator):
    """Returns the frozen plan's id."""

    def execute(self, context: Any) -> str | None:
        """Detect and freeze; fails with what was found, where and what to do."""
        with airflow_run(self.stream, context) as run:
            if plan_only(context):
                found = dry_run(run)
                if found.halts:
                    said = (*found.findings, *found.incidents)
                    raise ResetDetected("\n".join(map(str, said)))
                return None
            record = detect_earliest_reset(run)
            headroom = run.ledger.read().head.headroom
            tell_headroom(self.stream.stream, headroom)
            return record.plan.plan_id if record.plan is not None else None


class ResolveReset(HITLOperator):
    """Carries out decisions; asks a person where a finding's policy is `approve`.

    Skipped unless something was found whose policy lets the run go on. While it waits for an
    answer the task is parked: no process, no lease.

    Args:
        stream: The checked stream file.
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
        """Ask, or carry out what is decided already."""
        if plan_only(context):
            raise AirflowSkipException("plan_only")
        with airflow_run(self.stream, context) as run:
            asked = ask(run)
            if not asked and not resolve_reset(run):
                raise AirflowSkipException("nothing was found")
        if not asked:
            return None
        self.subject = approval.subject_for(self.stream.stream, asked)
        self.body = approval.body_for(asked)
        self.options = approval.options_for(asked)
        self.multiple = len({i.finding.kind for i in asked}) > 1
        self.log.info("%s\n%s", self.subject, self.body)
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the answer and carry it out."""
        # Recorded before the lane is leased: a busy lane must not lose somebody's answer.
        with translated_errors():
            if "error" in event:
                raise Halted(
                    f"nobody answered: {event['error_type']}: {event['error']}; the incidents stay"
                    " open. Clear this task to ask again, or use tideline resolve"
                )
            ledger, run_id = open_ledger(self.stream), context["dag_run"].run_id
            asked = asked_incidents(ledger, run_id)
            choices = approval.choices_from(event["chosen_options"], asked)
            comment = (event.get("params_input") or {}).get(approval.COMMENT)
            answer(ledger, run_id, choices, by=approval.who(event), reason=str(comment or ""))
        with airflow_run(self.stream, context) as run:
            resolve_reset(run)


class IngestRanges(SparkSubmitOperator):
    """The ingest application, by spark-submit or as a client of a Spark Connect server.

    The type of the stream's Spark connection says which.

    Args:
        stream: The checked stream file.
    """

    def __init__(self, *, stream: Stream, **arguments: Any) -> None:
        super().__init__(conn_id=stream.spark.connection, durable=False, **arguments)
        self.stream = stream
        self._context: Any = None
        self._client: SparkConnect | None = None

    def execute(self, context: Any) -> Any:
        """Land the plan; skipped where there is nothing to land."""
        if plan_only(context):
            raise AirflowSkipException("plan_only")
        self._context = context
        with airflow_run(self.stream, context, spark=self) as run:
            table_commit = ingest_ranges(run)
        if table_commit is None:
            raise AirflowSkipException("nothing to land")
        return to_data(table_commit)

    def submit(self, job_path: str) -> None:
        """Run the application on a job file (the steps' `SparkPort`)."""
        connection = self.stream.spark.connection
        server = connect_url(connection)
        if server is not None:
            self._client = SparkConnect(server)
            self._client.submit(job_path)
            return
        if find_connection(connection) is None:
            local = '{"conn_type": "spark", "host": "local[*]"}'
            os.environ[f"AIRFLOW_CONN_{connection.upper()}"] = local
        master = spark_master(connection)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        self._hook = None  # a replay submits twice, with other arguments
        self.name = f"tideline {self.stream.stream}"
        self.application = application()
        self.application_args = [job_path]
        self.jars = ",".join(str(jar) for jar in spark_jars()) or None
        self.py_files = package_zip()
        self.conf = configuration(master, is_small=is_small(job_path))
        self.env_vars = {**environment(master), "PATH": path}
        try:
            super().execute(self._context)
        except AirflowException as error:
            raise ServiceAway(f"spark-submit failed: {error}") from error

    def on_kill(self) -> None:
        """End what this task has started."""
        if self._client is not None:
            self._client.stop()
        else:
            super().on_kill()


class VerifyRanges(StreamOperator):
    """Returns the verified table version."""

    def execute(self, context: Any) -> int | None:
        """Reconcile the committed version with the plan."""
        with airflow_run(self.stream, context) as run:
            verified = verify_ranges(run)
            return verified[0].version if verified is not None else None


class AdvanceOffsets(StreamOperator):
    """Moves the head, then publishes the asset event.

    Args:
        asset: The stream's table.
    """

    def __init__(self, *, stream: Stream, asset: Asset, **arguments: Any) -> None:
        super().__init__(stream=stream, outlets=[asset], **arguments)
        self.asset = asset

    def execute(self, context: Any) -> dict[str, Any]:
        """Advance; repeating it moves nothing and publishes the event again."""
        with airflow_run(self.stream, context) as run:
            record = advance_offsets(run)
        if record.plan is None or record.table_commit is None:
            raise AirflowSkipException("nothing was landed")
        event = asset_event(record)
        reach("event:ready")
        context["outlet_events"][self.asset].extra = event
        tags = {"stream": self.stream.stream}
        stats.gauge("tideline.offset_lag", record.plan.offset_lag, tags=tags)
        stats.gauge("tideline.rows", event["rows"], tags=tags)
        show_position(context, self.asset, run.ledger, record.plan.offset_lag)
        return event


def tell_headroom(stream: str, headroom: Iterable[Headroom]) -> None:
    """Publish the least time until retention reaches something unread, if any is known."""
    left = [s for h in headroom if (s := h.seconds_left(datetime.now(UTC))) is not None]
    if left:
        stats.gauge("tideline.retention_headroom_seconds", min(left), tags={"stream": stream})


def asset_event(record: RunRecord) -> dict[str, Any]:
    """What a closed run tells those who wait for its table."""
    assert record.plan is not None
    assert record.table_commit is not None
    names = ("topic", "topic_id", "generation", "partition", "start_offset", "end_offset")
    return {
        "plan_id": record.plan.plan_id,
        "lane": record.lane,
        "rows": sum(v.rows for v in record.verified),
        "table_version": record.table_commit.version,
        "ranges": [
            {**{n: getattr(v.planned, n) for n in names}, "rows": v.rows} for v in record.verified
        ],
    }
