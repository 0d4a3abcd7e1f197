"""What a rewind takes away, and which of it Kafka can no longer give back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tideline.errors import ReplayUnavailable, ServiceAway
from tideline.model.head import Head
from tideline.model.plan import BatchPlan, PlannedRange
from tideline.model.rewind import Lost, Rewind
from tideline.pipeline.context import RunContext, log, now
from tideline.pipeline.landed import plan_obstacles
from tideline.rules.replay import Obstacle
from tideline.rules.rewind import layers

_SHOWN = 10


def with_losses(
    run: RunContext,
    head: Head,
    rewind: Rewind,
    ranges: dict[str, tuple[PlannedRange, ...]],
    version: int,
) -> Rewind:
    """How many rows go, and which of them Kafka can no longer serve, by the plans' own epochs."""
    rows, lost = 0, []
    for cluster_id, group in ranges.items():
        for layer in layers(group):
            landed = run.table.landed(layer, version)
            rows += sum(found.rows for found in landed.values())
            there = tuple(r for r in layer if r.identity in landed)
            plan = replace(as_plan(run, head, there), cluster_id=cluster_id)
            for obstacle in _obstacles(run, plan) if there else ():
                counts = run.table.landed(obstacle.lost, version)
                lost += [
                    Lost(
                        planned=gone,
                        rows=counts[gone.identity].rows if gone.identity in counts else 0,
                        expired=obstacle.expired,
                        reason=obstacle.text,
                    )
                    for gone in obstacle.lost
                ]
    return replace(rewind, rows=rows, lost=tuple(lost))


def _obstacles(run: RunContext, plan: BatchPlan) -> tuple[Obstacle, ...]:
    """What of a plan is gone for good, or may be: nothing tells what compaction has taken."""
    gone = plan_obstacles(run, plan)
    known = {r.identity for obstacle in gone for r in obstacle.lost}
    rest = tuple(r for r in plan.ranges if r.identity not in known)
    try:
        compacted = run.kafka.compacted({r.topic for r in rest}) if rest else set()
    except ServiceAway as error:  # a missing right to read settings must not forbid a rewind
        log.warning("whether the topics are compacted is unknown: %s", error)
        return gone
    maybe = tuple(r for r in rest if r.topic in compacted)
    text = "the topic is compacted, which may have taken any of them"
    return (*gone, Obstacle("gone", text, maybe)) if maybe else gone


def unavailable(rewind: Rewind) -> ReplayUnavailable:
    """The refusal, naming partition, offsets and rows that would be lost for good."""
    gone = [item for item in rewind.lost if item.rows]
    more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
    return ReplayUnavailable(
        f"replay_unavailable: rewinding to run {rewind.to_run} would take away {rewind.rows} rows,"
        f" {rewind.lost_rows} of which Kafka can no longer give back:"
        f" {'; '.join(map(str, gone[:_SHOWN]))}{more}. Nothing has moved. Choose a later run, or"
        " accept that these rows are lost for good (--accept-loss)",
        lost=gone,
        rows=rewind.rows,
    )


def as_plan(run: RunContext, head: Head, ranges: Iterable[PlannedRange]) -> BatchPlan:
    """Ranges in the form in which Kafka and Spark are asked about them; never frozen."""
    wanted = tuple(ranges)
    return BatchPlan(
        plan_id="rewind",
        run_id=run.run_id,
        stream=run.stream.stream,
        lane="live",
        frozen_at=now(),
        request_digest=run.request.digest,
        cluster_id=str(head.cluster_id),
        isolation_level=run.stream.kafka.isolation_level,
        ranges=wanted,
        offset_lag=0,
        estimated_records=sum(len(r.offsets) for r in wanted),
        estimated_bytes=None,
        table_uri=run.stream.table.uri,
        table_id=head.table_id,
        table_version=head.table_version,
    )
