"""The two steps that decode, as operators."""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from tideline.airflow.step_operators import PublishingOperator, SparkStep, airflow_run
from tideline.airflow.telemetry import publish_decoded
from tideline.contract.events import build_decode_commits, build_decoded_event
from tideline.decoding.steps import decode_rows, verify_decoded


class DecodeRows(SparkStep):
    """Decodes what is landed and not decoded yet; returns the commits' versions."""

    def execute(self, context: Any) -> Any:
        """Decode; skipped where there is nothing to decode."""
        with self.run_with_spark(context) as run:
            record = decode_rows(run)
        if record is None:
            raise AirflowSkipException("nothing to decode")
        return build_decode_commits(record).data()


class VerifyDecoded(PublishingOperator):
    """Moves the decoding's head, then publishes the asset event of the typed table."""

    def execute(self, context: Any) -> Any:
        """Verify; a repetition moves nothing and publishes the event again."""
        with airflow_run(self.stream, context) as run:
            record = verify_decoded(run)
        if record is None:
            raise AirflowSkipException("nothing was decoded")
        event = self.publish(context, build_decoded_event(record), record)
        publish_decoded(self.stream.stream, record)
        return event
