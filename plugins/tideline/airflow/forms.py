"""What the Dags of streams and of fleets have in common: a run's form, settings, assets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, time, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.sdk import (
    Asset,
    AssetOrTimeSchedule,
    AssetWatcher,
    CronDataIntervalTimetable,
    Param,
)

from tideline.errors import BadInput
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


def asset_of(table_uri: str, stream: str, *more: str) -> Asset:
    """The asset of a stream's table; `more` follows the stream in its name."""
    uri = f"file://{table_uri}" if table_uri.startswith("/") else table_uri
    return Asset(name="/".join(("tideline", stream, *more)), uri=uri)


def decoded_assets(stream: Stream) -> dict[str, Asset]:
    """The assets of a stream's typed tables, by event type where there are several."""
    found = {} if stream.decode is None else stream.decode.addresses
    return {
        name: asset_of(uri, stream.stream, "decoded", *filter(None, [name]))
        for name, uri in found.items()
    }


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
        **window_form(),
        "ranges": field_of(
            None,
            'Or backfill these offsets: [{"topic": "orders", "partition": 0,'
            ' "start_offset": 0, "end_offset": 100}], the end exclusive.',
            type=["null", "array", "string"],
            format="multiline",  # a text field: the page loads its list editor from the internet
            items={
                "type": "object",
                "properties": one_range,
                "required": list(one_range),
                "additionalProperties": False,
            },
        ),
        "plan_only": field_of(False, "Show what a run would read; store nothing.", type="boolean"),
        "reason": field_of(None, "Why; kept in the ledger.", type=["null", "string"]),
    }


def window_form() -> dict[str, Param]:
    """The fields that make a run the backfill of a window."""
    return {
        "from": field_of(
            None,
            "Backfill records written from this time on.",
            type=["null", "string"],
            format="date-time",
        ),
        "to": field_of(
            None,
            "End of the backfill, exclusive; a time in the past.",
            type=["null", "string"],
            format="date-time",
        ),
    }


def field_of(default: object, description: str, **schema: object) -> Param:
    """A field of a form; `schema` is JSON Schema of its value."""
    return Param(default, description, schema={"$schema": _DRAFT, **schema})
