"""The two steps that decode, as operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowSkipException

from tideline.airflow.step_operators import PublishingOperator, SparkStep, airflow_run
from tideline.airflow.telemetry import publish_decoded
from tideline.contract.events import DecodeCommits, build_decoded_event
from tideline.decoding.decode_steps import decode_rows, verify_decoded
from tideline.model.decoding import DecodeRecord
from tideline.stream.stream import Stream


class DecodeRows(SparkStep):
    """Decodes what is landed and not decoded yet; returns the commits' versions.

    If it finishes the plan of another run, it publishes that plan's events. Aliases are the
    outlets, because an asset would get an event from every run.

    Args:
        assets: The typed tables, by event type where there are several.
    """

    def __init__(self, *, stream: Stream, assets: Mapping[str, Asset], **arguments: Any) -> None:
        self.assets = dict(assets)
        self.aliases = {n: AssetAlias(f"{asset.name}/settled") for n, asset in assets.items()}
        super().__init__(stream=stream, outlets=[*self.aliases.values()], **arguments)

    def execute(self, context: Any) -> Any:
        """Decode; skipped where there is nothing to decode."""
        with self.run_with_spark(context) as run:
            record = decode_rows(run)
        settled = [each for each in run.settled if isinstance(each, DecodeRecord)]
        for each in settled:
            publish_decoded(self.stream.stream, each)
            for name, alias in self.aliases.items():
                event = build_decoded_event(each, name).data()
                context["outlet_events"][alias].add(self.assets[name], extra=event)
        newest = record or next(reversed(settled), None)
        if newest is None:
            raise AirflowSkipException("nothing to decode")
        return DecodeCommits.of(newest, newest.plan).data()


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
