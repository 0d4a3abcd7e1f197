"""What a rewind takes away, and which of it Kafka can no longer give back."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import ReplayUnavailable, ServiceAway
from tideline.model.plan import ClusterRanges, ReadRange
from tideline.model.rewind import Lost, Rewind
from tideline.model.wording import first_few
from tideline.pipeline.context import RunContext, log
from tideline.pipeline.landed import obstacles_to
from tideline.rules.replay import Obstacle
from tideline.rules.rewind import layers


def with_losses(
    run: RunContext, rewind: Rewind, ranges: dict[str, tuple[ReadRange, ...]], version: int
) -> Rewind:
    """How many rows go, and which of them Kafka can no longer serve, by the plans' own epochs.

    Args:
        run: This run.
        rewind: What is meant.
        ranges: Whose rows go, by the cluster that served them.
        version: Of the table.
    """
    rows, lost = 0, []
    for cluster_id, group in ranges.items():
        for layer in layers(group):
            landed = run.table.landed(layer, version)
            rows += sum(part.rows for part in landed.values())
            there = ClusterRanges(cluster_id, tuple(r for r in layer if r.identity in landed))
            for obstacle in _obstacles(run, there) if there.ranges else ():
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


def _obstacles(run: RunContext, asked: ClusterRanges) -> tuple[Obstacle, ...]:
    """What is gone for good, or may be: nothing tells what compaction has taken."""
    gone = obstacles_to(run, asked)
    known = {r.identity for obstacle in gone for r in obstacle.lost}
    rest = tuple(r for r in asked.ranges if r.identity not in known)
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
    return ReplayUnavailable(
        f"replay_unavailable: rewinding to run {rewind.to_run} would take away {rewind.rows} rows,"
        f" {rewind.lost_rows} of which Kafka can no longer give back:"
        f" {first_few(gone, 10, '; ')}. Nothing has moved. Choose a later run, or"
        " accept that these rows are lost for good (--accept-loss)",
        lost=gone,
        rows=rewind.rows,
    )
