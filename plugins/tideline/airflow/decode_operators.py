"""The two steps that decode, as operators."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowSkipException

from tideline.airflow.step_operators import SparkStep, StreamOperator, airflow_run
from tideline.airflow.telemetry import publish_decoded
from tideline.contract.events import build_decode_commits, build_decoded_event
from tideline.decoding.steps import decode_rows, verify_decoded
from tideline.model.decoding import DecodeRecord
from tideline.stream.stream import Stream


class DecodeRows(SparkStep):
    """Decodes what is landed and not decoded yet; returns the commits' versions."""

    def execute(self, context: Any) -> Any:
        """Decode; skipped where there is nothing to decode."""
        with self.run_with_spark(context) as run:
            record = decode_rows(run)
        if record is None:
            raise AirflowSkipException("nothing to decode")
        return build_decode_commits(record).data()


class VerifyDecoded(StreamOperator):
    """Moves the decoding's head, then publishes the asset event of the typed table.

    Args:
        asset: The typed table.
    """

    def __init__(self, *, stream: Stream, asset: Asset, **arguments: Any) -> None:
        super().__init__(stream=stream, outlets=[asset], **arguments)
        self.asset = asset
        self.decoded: DecodeRecord | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Verify; a repetition moves nothing and publishes the event again."""
        with airflow_run(self.stream, context) as run:
            record = verify_decoded(run)
        if record is None:
            raise AirflowSkipException("nothing was decoded")
        event = build_decoded_event(record).data()
        context["outlet_events"][self.asset].extra = event
        self.decoded = record
        publish_decoded(self.stream.stream, record)
        return event

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Called by Airflow's OpenLineage provider, if it is installed, when the task is done."""
        if self.decoded is None:
            return None
        from tideline.airflow.lineage import decoded_lineage

        return decoded_lineage(self.stream, self.decoded)
