"""The two steps that fold, as operators."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowSkipException

from tideline.airflow.step_operators import PublishingOperator, SparkStep, airflow_run
from tideline.airflow.telemetry import publish_folded
from tideline.contract.events import FoldCommit, build_folded_event
from tideline.folding.fold_steps import fold_changes, verify_current
from tideline.model.current import FoldRecord
from tideline.stream.stream import Stream


class FoldChanges(SparkStep):
    """Folds what is decoded and not folded yet; returns the commit's version.

    If it closes the fold of another run, it publishes that fold's event, by an alias.

    Args:
        asset: The current table.
    """

    def __init__(self, *, stream: Stream, asset: Asset, **arguments: Any) -> None:
        self.asset = asset
        self.alias = AssetAlias(f"{asset.name}/settled")
        super().__init__(stream=stream, outlets=[self.alias], **arguments)

    def execute(self, context: Any) -> Any:
        """Fold; skipped where there is nothing to fold, or not yet."""
        with self.run_with_spark(context) as run:
            record = fold_changes(run)
            settled = [each for each in run.settled if isinstance(each, FoldRecord)]
            for each in settled:  # one at most
                folding = run.ledger.read().folding
                publish_folded(self.stream.stream, each, folding)
                event = build_folded_event(each, folding).data()
                context["outlet_events"][self.alias].add(self.asset, extra=event)
        newest = record or next(reversed(settled), None)
        if newest is None:
            raise AirflowSkipException("nothing to fold, or not yet")
        return FoldCommit.of(newest, newest.plan).data()


class VerifyCurrent(PublishingOperator):
    """Moves the fold's head, then publishes the asset event of the current table."""

    def execute(self, context: Any) -> Any:
        """Verify; a repetition moves nothing and publishes the event again."""
        with airflow_run(self.stream, context) as run:
            record = verify_current(run)
            folding = run.ledger.read().folding
        if record is None:
            raise AirflowSkipException("nothing was folded")
        publish_folded(self.stream.stream, record, folding)
        return self.publish(context, build_folded_event(record, folding), record)
