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

from airflow.sdk import (
    DAG,
    AssetAlias,
    BaseOperator,
    CronDataIntervalTimetable,
    TaskInstanceState,
)
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)

from tideline.airflow.approval import acting_user, require_operator
from tideline.airflow.forms import (
    asset_of,
    decoded_assets,
    links,
    schedule_of,
    settings_of,
    window_form,
)
from tideline.airflow.step_operators import (
    request_of,
    reschedule_task,
    skip_tasks,
    translated_errors,
)
from tideline.airflow.telemetry import publish_run
from tideline.contract.events import (
    build_decoded_event,
    build_folded_event,
    build_landed_event,
)
from tideline.errors import NotEntitled, StreamBusy
from tideline.fleet.batch import Batch, StreamRun, shard_of, summary
from tideline.fleet.discovery import discover
from tideline.model.decoding import DecodeRecord
from tideline.model.incident import with_entries
from tideline.model.wording import first_few, how_many
from tideline.stream.contents import FleetContents
from tideline.stream.files import read_fleet
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

_LANDED = AssetAlias("tideline/fleet")
"""The outlet of all shards: which tables get rows is known when they have."""
_SHOWN = 20
"""Errors in a task's message."""
LOOK, LAND, TELL = "discover_topics", "land_shard", "tell_shard"
_LOOKED = "looked"
"""What a look that has found nothing wrong leaves."""
_IN_A_RUN = ["null", *(s.value for s in TaskInstanceState if s != TaskInstanceState.REMOVED)]
"""States of tasks that a run still has: after a clear it may have fewer than it began with."""
_TOLD = "landed"
"""What a shard that fails leaves for `TELL`: streams that its run has landed all the same."""


def build_fleet_dag(contents: FleetContents, path: Path, folder: str | Path | None = None) -> DAG:
    """The Dag of a fleet.

    Args:
        contents: What is in its file.
        path: The file; its tasks read it when they run.
        folder: Of the stream files, for the watch of lags.
    """
    fleet, template = contents.fleet, contents.template
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
        look = DiscoverTopics(task_id=LOOK, file=str(path))
        if fleet.shards is not None:
            numbers, given = list(range(fleet.shards)), {"file": str(path), "outlets": [_LANDED]}
            # Topics that are known land also where nobody can say whether there are new ones.
            lands = LandShard.partial(task_id=LAND, trigger_rule="all_done", **given)
            tell = TellShard.partial(task_id=TELL, retries=0, **given)
            # As a teardown it follows whatever becomes of landing, and the run is what landing is.
            look >> lands.expand(shard=numbers) >> tell.expand(shard=numbers).as_teardown()
    return dag


def _documentation(contents: FleetContents, path: Path) -> str:
    fleet = contents.fleet
    topics = f"{how_many(len(contents.topics), 'topic')}: {first_few(contents.topics, 50)}"
    if not contents.is_discovered:
        topics = "No topics yet: the first run looks for them"
    lands = "Each topic has a Dag of its own."
    if fleet.shards is not None:
        lands = f"{fleet.shards} tasks land all topics; `tideline status {path.name}` has each."
    return f"Fleet **{fleet.fleet}**. {lands}\n\n{links()}\n\n{topics}\n"


class DiscoverTopics(BaseOperator):
    """Looks for the topics of a fleet; returns those that are new, gone and back.

    Args:
        file: Path of the fleet's file.
    """

    def __init__(self, *, file: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.file = file

    def execute(self, context: Any) -> dict[str, list[str]] | None:
        """Ask the cluster; a fleet that names its topics has nothing to ask.

        What is wrong with topics fails the task once the list is kept: without shards nobody else
        would say so.
        """
        with translated_errors():
            found = discover(self.file)
            refused = () if found is None else found.refused
            problems = [*map(str, read_fleet(self.file).problems), *refused]
        self.log.info("%s", found or "the fleet file names its topics: nothing to look for")
        if problems:
            raise AirflowFailException(first_few(problems, _SHOWN, "\n"))
        context["ti"].xcom_push(_LOOKED, True)
        if found is None:
            return None
        changes = {"new": found.new, "gone": found.gone, "back": found.back}
        return {name: list(topics[:50]) for name, topics in changes.items()}


class ShardOperator(BaseOperator):
    """A task of one shard of a fleet.

    Args:
        file: Path of the fleet's file.
        shard: Number of the shard, from 0.
    """

    def __init__(self, *, file: str, shard: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.file = file
        self.shard = shard

    def streams_of(self, contents: FleetContents, context: Any) -> dict[str, Stream]:
        """The streams of this shard, by name.

        How many shards there are only the run says: Airflow has made its tasks of the Dag that was
        parsed before, and this process has parsed the file as it is now.
        """
        run = context["dag_run"]
        shards = context["ti"].get_ti_count(
            dag_id=run.dag_id, task_ids=[LAND], run_ids=[run.run_id], states=_IN_A_RUN
        )
        mine = (s for s in contents.streams if shard_of(s, shards) == self.shard)
        return {stream.stream: stream for stream in mine}


class LandShard(ShardOperator):
    """Lands the topics of one shard of a fleet, one after the other in each of its threads.

    A topic that halts, fails or is held by another run holds up no other. The task fails at the end
    if one has halted or failed, and names it; a retry, or a clear, lands only what is not closed.
    Airflow publishes nothing of a task that fails: `TellShard` tells of what it has landed.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._batch: Batch | None = None

    def execute(self, context: Any) -> None:
        """Land; an asset's event for each table that has new rows."""
        dag_run, task = context["dag_run"], context["ti"]
        with translated_errors():
            contents = read_fleet(self.file)
            request = replace(request_of(dag_run, [*window_form()]), by=acting_user(dag_run))
        self._batch = Batch(
            dag_run.run_id,
            request,
            threads=contents.fleet.threads,
            only_left=task.try_number > 1 or task.get_first_reschedule_date(context) is not None,
            tell=publish_run,
        )
        mine = self.streams_of(contents, context)
        runs = _not_entitled(mine.values(), dag_run)
        barred = {run.stream for run in runs}
        for run in self._batch.run([s for name, s in mine.items() if name not in barred]):
            runs.append(run)
            self.log.info("%s", run)
        problems = [str(problem) for problem in contents.problems] if self.shard == 0 else []
        if self.shard == 0 and not task.xcom_pull(task_ids=LOOK, key=_LOOKED):
            problems.append(
                f"{self.file}: {LOOK} has not ended well, its log says why: new topics may be left"
                " out. Clear it with what follows, once that is mended"
            )
        landed = [run for run in runs if run.has_landed]
        task.xcom_push(_TOLD, [run.stream for run in landed])
        told_all = _told(runs, problems)
        self.log.info("%s", told_all)
        task.xcom_push("return_value", {"streams": len(runs), "summary": told_all})
        for run in landed:
            _publish(context, mine[run.stream], run)
        skip_tasks([(TELL, self.shard)])

    def on_kill(self) -> None:
        """End what this task has started."""
        if self._batch is not None:
            self._batch.stop()


class TellShard(ShardOperator):
    """Publishes the assets' events of what a shard has landed whose task has failed."""

    def execute(self, context: Any) -> None:
        """Ask the ledger of each stream what the run has left there; of all after a killed task."""
        run_id, task = context["dag_run"].run_id, context["ti"]
        names = task.xcom_pull(task_ids=LAND, map_indexes=self.shard, key=_TOLD)
        if names is not None and not names:
            raise AirflowSkipException("nothing was landed")
        with translated_errors():
            for name, stream in self.streams_of(read_fleet(self.file), context).items():
                if names is not None and name not in names:
                    continue
                ledger = open_ledger(stream)
                run = StreamRun(
                    name,
                    "closed_before",
                    record=ledger.find_run(run_id),
                    decoded=ledger.find_decoding(run_id),
                    folded=ledger.find_fold(run_id),
                )
                _publish(context, stream, run)
                self.log.info("%s: its event is published", name)


def _publish(context: Any, stream: Stream, run: StreamRun) -> None:
    """An event for each table of a stream that has rows of a run, as from a Dag of its own."""
    outlet = context["outlet_events"][_LANDED]
    if run.record is not None and run.record.table_commit is not None:
        outlet.add(asset_of(stream, stream.table.uri), build_landed_event(run.record).data())
    for record in (*run.settled, run.decoded, run.folded):
        if isinstance(record, DecodeRecord):
            for of_type, typed in decoded_assets(stream).items():
                outlet.add(typed, build_decoded_event(record, of_type).data())
        elif record is not None and stream.current is not None:
            folding = open_ledger(stream).read().folding
            current = asset_of(stream, stream.current.table.uri, "current")
            outlet.add(current, build_folded_event(record, folding).data())


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
        AirflowRescheduleException: Others hold what is left of a window.
        AirflowException: Some have not ended, and a retry may help.
        AirflowFailException: Some have not ended, and it cannot.
    """
    line = summary(runs)
    errors = [f"{r.stream}: {with_entries(r.error)}" for r in runs if r.is_wrong and r.error]
    if not errors and not problems:
        return line
    text = "\n".join([line, first_few([*problems, *errors], _SHOWN, "\n")])
    left = [run.error for run in runs if run.state == "retry"]
    if left and all(isinstance(error, StreamBusy) for error in left):
        reschedule_task(text)
    if left:
        raise AirflowException(text)
    raise AirflowFailException(text)
