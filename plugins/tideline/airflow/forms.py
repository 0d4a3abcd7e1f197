"""What the Dags of streams and of fleets have in common: a run's form, settings, assets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, time, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.sdk import (
    Asset,
    AssetOrTimeSchedule,
    AssetWatcher,
    CronDataIntervalTimetable,
    Param,
)

from tideline.errors import BadInput
from tideline.page import docs
from tideline.stream.stream import Stream

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""Airflow checks every field's schema at each parse. The newest draft's own schema consists of many
documents, and checking them took half of the parse time."""


def schedule_of(stream: Stream, dag_id: str, folder: str | Path | None) -> Any:
    """When runs are due: by a clock with data intervals, and by lag; None for manual runs only.

    Args:
        stream: Whose schedule and trigger count.
        dag_id: Of the Dag that it is for.
        folder: Of the stream files, for the watch of lags.

    Raises:
        BadInput: This Airflow has no shared watchers.
    """
    if stream.schedule is None:
        return None
    clock = CronDataIntervalTimetable(stream.schedule, timezone=stream.timezone)
    if stream.trigger is None:
        return clock
    if find_spec("airflow.triggers.shared_stream") is None:
        raise BadInput("trigger: runs by lag need Airflow 3.3; here is an older one")
    # Imported here: other streams' tasks need no trigger.
    from tideline.airflow.lag_trigger import LagTrigger

    trigger = LagTrigger(dag_id, None if folder is None else str(folder))
    watcher = AssetWatcher(name=f"tideline/{dag_id}/lag", trigger=trigger)
    lag = Asset(name=f"tideline/{dag_id}/lag", watchers=[watcher])
    return AssetOrTimeSchedule(timetable=clock, assets=[lag])


def settings_of(stream: Stream) -> dict[str, Any]:
    """Arguments of a Dag that stand in a stream's file, but for its schedule."""
    settings = stream.airflow
    return {
        "start_date": datetime.combine(settings.start_date, time(), UTC),
        "catchup": False,
        "tags": sorted({"tideline", *settings.tags}),
        "access_control": _access(settings.access_control),
        "default_args": {
            "owner": settings.owner,
            "retries": settings.retries,
            "retry_delay": timedelta(seconds=settings.retry_delay_seconds),
        },
        # By the module's names alone: of two Dags of one id that register themselves, any may win.
        "auto_register": False,
    }


def asset_of(
    stream: Stream, table_uri: str, kind: str | None = None, event_type: str = ""
) -> Asset:
    """The asset of one of a stream's tables; kind and event type follow the stream in the name."""
    uri = f"file://{table_uri}" if table_uri.startswith("/") else table_uri
    name = "/".join(filter(None, ("tideline", stream.stream, kind, event_type)))
    holds = f"{_HOLDS[kind]} of {topics_text(stream)}"
    return Asset(name=name, uri=uri, group="tideline", extra={"description": holds})


_HOLDS = {None: "Raw rows", "decoded": "Typed rows", "current": "The latest row of each key"}


def topics_text(stream: Stream) -> str:
    """What a stream reads, for people."""
    return ", ".join(stream.kafka.topics) or f"topics matching {stream.kafka.topic_pattern}"


def topics_of(stream: Stream) -> list[Asset]:
    """The assets of a stream's topics: what its Dag reads. None where a pattern names them."""
    connection = stream.kafka.connection
    return [
        # Airflow leaves addresses of such a scheme as they are: where brokers are, no parse knows.
        Asset(
            name=f"kafka/{connection}/{topic}",
            uri=f"x-kafka://{connection}/{topic}",
            group="kafka",
            extra={"description": f"Topic {topic} of the connection {connection}"},
        )
        for topic in stream.kafka.topics
    ]


def links(stream: str | None = None) -> str:
    """Ways from a Dag's notes to the page, the runbook and the docs, as a line of Markdown.

    Args:
        stream: Of whose page; None: the page of all streams.
    """
    root = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    query, what = ("", "All streams") if stream is None else (f"?stream={stream}", "This stream")
    ways = [f"[{what}]({root}/tideline/{query})"]
    site = docs.site()
    if site == docs.OWN:
        ways.append(f"[runbook]({root}/tideline/docs/{docs.RUNBOOK})")
    elif site is not None:
        page = docs.RUNBOOK.removesuffix(".md")
        ways += [f"[runbook]({site.rstrip('/')}/{page}/)", f"[docs]({site})"]
    return " | ".join(ways)


def decoded_assets(stream: Stream) -> dict[str, Asset]:
    """The assets of a stream's typed tables, by event type where there are several."""
    found = {} if stream.decode is None else stream.decode.addresses
    return {name: asset_of(stream, uri, "decoded", name) for name, uri in found.items()}


def _access(
    given: Mapping[str, Mapping[Any, Collection[str]]] | None,
) -> dict[str, dict[str, set[str]]] | None:
    """Rights by role, as Airflow's Dags take them."""
    if given is None:
        return None
    return {
        role: {resource: set(actions) for resource, actions in resources.items()}
        for role, resources in given.items()
    }


_WINDOW = "Single run only: backfill a window or offsets"
"""A section that is closed at first: Airflow's own backfill form has a window of its own above."""


def run_form() -> dict[str, Param]:
    """The form of a manual trigger; a window or ranges make the run a backfill."""
    offset = {"type": "integer", "minimum": 0}
    one_range = {
        "topic": {"type": "string"},
        "partition": offset,
        "start_offset": offset,
        "end_offset": offset,
    }
    return {
        "plan_only": field_of(
            False, "Plan only", "Show what a run would read; store nothing.", type="boolean"
        ),
        "reason": field_of(None, "Reason", "Kept in the ledger.", type=["null", "string"]),
        **window_form(),
        "ranges": field_of(
            None,
            "Offsets to backfill",
            'A list as [{"topic": "orders", "partition": 0, "start_offset": 0, "end_offset": 100}],'
            " ends exclusive. The stream's page fills in what was skipped.",
            section=_WINDOW,
            type=["null", "array", "string"],
            format="multiline",  # a text field: the page loads its list editor from the internet
            items={
                "type": "object",
                "properties": one_range,
                "required": list(one_range),
                "additionalProperties": False,
            },
        ),
    }


def window_form() -> dict[str, Param]:
    """The fields that make a run the backfill of a window."""
    return {
        "from": field_of(
            None,
            "Records from",
            "Backfill records written from this time on.",
            section=_WINDOW,
            type=["null", "string"],
            format="date-time",
        ),
        "to": field_of(
            None,
            "Records to",
            "End of the backfill, exclusive; a time in the past.",
            section=_WINDOW,
            type=["null", "string"],
            format="date-time",
        ),
    }


def field_of(default: object, title: str, description: str, **schema: object) -> Param:
    """A field of a form; `schema` is JSON Schema of its value, and the `section` it stands in."""
    return Param(default, description, schema={"$schema": _DRAFT, "title": title, **schema})
