"""The trigger of Airflow's asset watchers that starts runs by lag. Needs Airflow 3.3.

All instances share one poll (`shared_stream_key`), and a poll is given the arguments of one of them
only: so each joins the folder's watch by itself. Arguments never change: a change would take every
watcher away until Dags are parsed again. Thresholds are read from the stream file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from tideline.airflow.lag_watch import watch_of

_CLASS = "tideline.airflow.lag_trigger.LagTrigger"


class LagTrigger(BaseEventTrigger):
    """Tells of each time that a run of a Dag is due, by what the Dag's streams have not read.

    Args:
        dag_id: Of the Dag that lands the streams.
        folder: Of the stream files; None: `streams_folder` says which.
    """

    def __init__(self, dag_id: str, folder: str | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dag_id = dag_id
        self.folder = folder

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class and arguments, from which the triggerer makes it anew."""
        return _CLASS, {"dag_id": self.dag_id, "folder": self.folder}

    def shared_stream_key(self) -> Hashable:
        """One poll for all streams of a folder."""
        return ("tideline", "lag", self.folder or "")

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """The one poll."""
        async for due in watch_of(kwargs["folder"]).events():
            yield due

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Any]
    ) -> AsyncIterator[TriggerEvent]:
        """What is told of this trigger's Dag."""
        watch = watch_of(self.folder)
        watch.join(self.dag_id)
        try:
            async for due in shared_stream:
                if self.dag_id in due:
                    yield TriggerEvent(due[self.dag_id])  # type: ignore[no-untyped-call]
        finally:
            watch.leave(self.dag_id)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Never called: the poll is shared."""
        raise NotImplementedError
        yield  # so that it is a generator
