"""Gauges of Airflow's own metrics, tagged with the stream."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from airflow.sdk.observability.stats import Stats

from tideline.model.headroom import Headroom


def publish_gauge(stream: str, name: str, value: float) -> None:
    """Set a gauge of a stream."""
    # Airflow 3.2 has no functions beside this class; later ones have both.
    Stats.gauge(name, value, tags={"stream": stream})


def publish_headroom(stream: str, headroom: Iterable[Headroom]) -> None:
    """Publish the shortest time until retention reaches an unread offset, if one is known."""
    now = datetime.now(UTC)
    left = [seconds for h in headroom if (seconds := h.seconds_left(now)) is not None]
    if left:
        publish_gauge(stream, "tideline.retention_headroom_seconds", min(left))
