"""From a fleet file to its own Dag: it looks for topics, and with `shards` it lands them as well.

Without `shards` each topic has a Dag of its own, as any other stream. With them there is one Dag
with one task a shard, however many topics there are: a task for each would keep the scheduler busy
longer than landing takes (docs/adr/0065-a-fleet-is-streams-and-shards-of-them.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, AssetAlias, BaseOperator, CronDataIntervalTimetable
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tideline.airflow.approval import acting_user, require_operator
from tideline.airflow.forms import asset_of, schedule_of, settings_of, window_form
from tideline.airflow.step_operators import request_of, translated_errors
from tideline.airflow.telemetry import publish_run
from tideline.contract.events import build_landed_event
from tideline.errors import NotEntitled
from tideline.fleet.batch import Batch, StreamRun, shard_of, summary
from tideline.fleet.discovery import discover
from tideline.model.incident import with_entries
from tideline.model.wording import first_few
from tideline.stream.contents import FileContents
from tideline.stream.files import read_fleet
from tideline.stream.stream import Stream

_LANDED = AssetAlias("tideline/fleet")
"""The outlet of all shards: which tables get rows is known when they have."""
_SHOWN = 20
"""Errors in a task's message."""


def build_fleet_dag(contents: FileContents, path: Path, folder: str | Path | None = None) -> DAG:
    """The Dag of a fleet.

    Args:
        contents: What is in its file.
        path: The file; its tasks read it when they run.
        folder: Of the stream files, for the watch of lags.
    """
    fleet, template = contents.fleet, contents.template
    assert fleet is not None
    assert template is not None
    if fleet.shards is not None:
        schedule = schedule_of(template, fleet.fleet, folder)
    else:
        looks = fleet.discover if fleet.topic_pattern is not None else None
        schedule = None if looks is None else CronDataIntervalTimetable(looks, timezone="UTC")
    with DAG(
        dag_id=fleet.fleet,
        description=f"{len(contents.streams)} topics of {fleet.topic_pattern or 'a list'}",
        max_active_runs=1,
        params=window_form() if fleet.shards is not None else {},
        doc_md=_documentation(contents, path),
        schedule=schedule,
        **settings_of(template),
    ) as dag:
        look = DiscoverTopics(task_id="discover_topics", file=str(path))
        if fleet.shards is not None:
            # Topics that are known land also where nobody can say whether there are new ones.
            land = LandShard.partial(
                task_id="land_shard", file=str(path), trigger_rule="all_done", outlets=[_LANDED]
            ).expand(shard=list(range(fleet.shards)))
            look >> land
    return dag


def _documentation(contents: FileContents, path: Path) -> str:
    fleet = contents.fleet
    assert fleet is not None
    topics = f"{len(contents.topics):,} topics: {first_few(contents.topics, 50)}"
    if not contents.is_discovered:
        topics = "No topics yet: the first run looks for them"
    lands = "Each topic has a Dag of its own."
    if fleet.shards is not None:
        lands = f"{fleet.shards} tasks land all topics; `tideline status {path.name}` has each."
    return f"Fleet **{fleet.fleet}**. {lands}\n\n{topics}\n"


class DiscoverTopics(BaseOperator):
    """Looks for the topics of a fleet; returns those that are new, gone and back.

    Args:
        file: Path of the fleet's file.
    """

    def __init__(self, *, file: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.file = file

    def execute(self, context: Any) -> dict[str, list[str]] | None:
        """Ask the cluster; a fleet that names its topics has nothing to ask."""
        with translated_errors():
            found = discover(self.file)
        if found is None:
            return None
        self.log.info("%s", found)
        changes = {"new": found.new, "gone": found.gone, "back": found.back}
        return {name: list(topics[:50]) for name, topics in changes.items()}


class LandShard(BaseOperator):
    """Lands the topics of one shard of a fleet, one after the other in each of its threads.

    A topic that halts, fails or is held by another run holds up no other. The task fails at the end
    if one has halted or failed, and names it; a retry, or a clear, lands only what is not closed.

    Args:
        file: Path of the fleet's file.
        shard: Number of the shard, from 0.
    """

    def __init__(self, *, file: str, shard: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.file = file
        self.shard = shard
        self._batch: Batch | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Land; an asset's event for each table that has new rows."""
        dag_run = context["dag_run"]
        with translated_errors():
            contents = read_fleet(self.file)
            fleet = contents.fleet
            assert fleet is not None
            request = replace(request_of(dag_run), by=acting_user(dag_run))
        self._batch = Batch(
            dag_run.run_id,
            request,
            threads=fleet.threads,
            only_left=context["ti"].try_number > 1,
            tell=publish_run,
        )
        shards = fleet.shards or 1
        mine = {s.stream: s for s in contents.streams if shard_of(s, shards) == self.shard}
        runs = _not_entitled(mine.values(), dag_run)
        barred = {run.stream for run in runs}
        for run in self._batch.run([s for name, s in mine.items() if name not in barred]):
            runs.append(run)
            self.log.info("%s", run)
            if run.state == "done" and run.record is not None:
                asset = asset_of(mine[run.stream].table.uri, run.stream)
                event = build_landed_event(run.record).data()
                context["outlet_events"][_LANDED].add(asset, extra=event)
        problems = [str(problem) for problem in contents.problems] if self.shard == 0 else []
        if not contents.is_discovered:
            problems.append(f"{self.file}: no topics are known: discover_topics has not ended well")
        return {"streams": len(runs), "summary": _told(runs, problems)}

    def on_kill(self) -> None:
        """End what this task has started."""
        if self._batch is not None:
            self._batch.stop()


def _not_entitled(streams: Iterable[Stream], dag_run: Any) -> list[StreamRun]:
    """Streams that whoever has triggered the run may not operate."""
    found = []
    for stream in streams:
        try:
            require_operator(stream, dag_run)
        except NotEntitled as error:
            found.append(StreamRun(stream.stream, "failed", error=error))
    return found


def _told(runs: Sequence[StreamRun], problems: Sequence[str]) -> str:
    """The summary of a shard that has landed all of its topics.

    Raises:
        AirflowException: Some have not ended, and a retry may help.
        AirflowFailException: Some have not ended, and it cannot.
    """
    told = summary(runs)
    errors = [f"{r.stream}: {with_entries(r.error)}" for r in runs if r.is_wrong and r.error]
    if not errors and not problems:
        return told
    text = "\n".join([told, first_few([*problems, *errors], _SHOWN, "\n")])
    if any(run.state == "retry" for run in runs):
        raise AirflowException(text)
    raise AirflowFailException(text)
