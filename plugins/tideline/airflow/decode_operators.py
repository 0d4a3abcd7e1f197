"""The two steps that decode, as operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowSkipException

from tideline.airflow.step_operators import PublishingOperator, SparkStep, airflow_run
from tideline.airflow.telemetry import publish_decoded
from tideline.contract.events import DecodeCommits, build_decoded_event
from tideline.decoding.decode_steps import decode_rows, verify_decoded
from tideline.stream.stream import Stream


class DecodeRows(SparkStep):
    """Decodes what is landed and not decoded yet; returns the commits' versions."""

    def execute(self, context: Any) -> Any:
        """Decode; skipped where there is nothing to decode."""
        with self.run_with_spark(context) as run:
            record = decode_rows(run)
        if record is None:
            raise AirflowSkipException("nothing to decode")
        return DecodeCommits.of(record, record.plan).data()


class VerifyDecoded(PublishingOperator):
    """Moves the decoding's head, then publishes the asset event of each typed table.

    Args:
        assets: The typed tables, by event type where there are several.
    """

    def __init__(self, *, stream: Stream, assets: Mapping[str, Asset], **arguments: Any) -> None:
        first, *_ = every = [*assets.values()]
        super().__init__(stream=stream, asset=first, **{"outlets": every, **arguments})
        self.assets = dict(assets)

    def execute(self, context: Any) -> Any:
        """Verify; a repetition moves nothing and publishes the event again."""
        with airflow_run(self.stream, context) as run:
            record = verify_decoded(run)
        if record is None:
            raise AirflowSkipException("nothing was decoded")
        event = self.publish(context, build_decoded_event(record), record)
        for name in filter(None, self.assets):
            outlet = context["outlet_events"][self.assets[name]]
            outlet.extra = build_decoded_event(record, name).data()
        publish_decoded(self.stream.stream, record)
        return event
