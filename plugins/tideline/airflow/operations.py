"""Tasks beside the runs: decide about incidents, audit, rewind, erase, maintain, redrive."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, AssetAlias, BaseOperator

from tideline.airflow import operation_forms as forms
from tideline.airflow.approval import (
    NOBODY,
    acting_user,
    require_decider,
    require_operator,
)
from tideline.airflow.operation_forms import check_form, classes_in, listed
from tideline.airflow.step_operators import translated_errors
from tideline.contract.building import build_erased, build_maintenance, build_redriven
from tideline.contract.events import AuditedEvent, build_rewind_report
from tideline.errors import BadInput, NotEntitled, TidelineError
from tideline.landing.context import now
from tideline.launch.launcher import Launcher
from tideline.model.incident import Decision
from tideline.model.request import RunRequest, read_time
from tideline.model.wording import how_many, shown
from tideline.operations.deciding import decide
from tideline.operations.erase_finding import AskedKeys, keys_below, read_keys
from tideline.operations.erasing import EraseRequest, erase, finish_erasures, plan_erasure
from tideline.operations.maintaining import maintain_stream
from tideline.operations.questions import require_clean
from tideline.operations.redrive import redrive
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.stream.files import find_stream, find_streams
from tideline.stream.stream import Stream
from tideline.wiring import find_store, open_ledger, open_run, open_tables

Folder = str | Path | None


class _Operation(BaseOperator):
    """A task of an operation; killed, it ends what it has started.

    Args:
        folder: Folder of stream files; None: `streams_folder` says which.
    """

    def __init__(self, *, folder: Folder = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.folder = folder
        self._launcher: Launcher | None = None

    def launcher(self, stream: Stream) -> Launcher:
        """Starts the stream's Spark for this task."""
        self._launcher = Launcher(stream.spark, store=find_store(stream))
        return self._launcher

    def on_kill(self) -> None:
        """End what this task has started."""
        if self._launcher is not None:
            self._launcher.stop()


class AuditStream(_Operation):
    """Fails where table, ledger and broker do not agree, so that no later task runs.

    A clean audit publishes an event of the asset `tideline/<stream>/audited` with rows and table
    version, so that Dags can be scheduled on it. An alias is the outlet, since the stream may be a
    parameter of the run.

    Args:
        stream: Name of a stream in the streams folder.
        buckets: Of so many of the current table's all rows are read, each day of others in turn,
            unless the form says how many; 0 for none.
        form: The keys that a run's conf may have, and their types; None: the conf is not checked.
        folder: Folder of stream files; None: `streams_folder` says which.
    """

    template_fields = ("stream",)

    def __init__(
        self,
        *,
        stream: str,
        buckets: int = 0,
        form: forms.Form | None = None,
        folder: Folder = None,
        **arguments: Any,
    ) -> None:
        self.buckets = buckets
        self.alias = AssetAlias("tideline/audited")
        super().__init__(folder=folder, outlets=[self.alias], **arguments)
        self.stream = stream
        self._is_chosen = "{{" in stream  # by the run's form; rendered before `execute`
        self.form = form

    def execute(self, context: Any) -> dict[str, Any]:
        """Audit; publish the event, or fail with every flaw named."""
        with translated_errors():
            buckets = self.buckets
            if self.form is not None:
                conf = context["dag_run"].conf or {}
                check_form(conf, self.form)
                buckets = conf.get("buckets", buckets)
            if buckets < 0:
                raise BadInput(f"buckets: got {buckets}; allowed: 0 or more")
            stream = find_stream(self.stream, self.folder)
            by = require_operator(
                stream, context.get("dag_run"), context.get("ti"), from_form=self._is_chosen
            )
            if stream.current is None:
                buckets = 0
            launcher = self.launcher(stream) if buckets else None
            with open_run(stream, "audit", RunRequest(by=by), launcher) as run:
                audit = require_clean(run, buckets)
        event = AuditedEvent.of(audit).data()
        audited = Asset(name=f"tideline/{stream.stream}/audited")
        context["outlet_events"][self.alias].add(audited, extra=event)
        rows = how_many(audit.rows, "row")
        self.log.info("clean: %s, table version %s", rows, audit.table_version)
        return event


class ResolveIncidents(_Operation):
    """Records a decision about open incidents; the stream's next run carries it out.

    Args:
        folder: Folder of stream files; None: `streams_folder` says which.
    """

    def execute(self, context: Any) -> list[str]:
        """Check the form, and decide; the ids of the incidents."""
        dag_run = context["dag_run"]
        with translated_errors():
            form = check_form(dag_run.conf, forms.RESOLVE)
            stream = find_stream(form["stream"], self.folder)
            by = require_decider(stream, dag_run, context.get("ti"))
            decision = Decision(form["choice"], by or NOBODY, now(), form["reason"])
            decided = decide(open_ledger(stream), listed("incident", form["incident"]), decision)
        for incident in decided:
            self.log.info("%s: %s by %s", incident, decision.choice, decision.by)
        return [incident.incident_id for incident in decided]


class RewindStream(_Operation):
    """Puts table and ledger of a stream back to the state after a run.

    The form's `confirm` must repeat the stream's name. Clearing the task finishes an interrupted
    rewind; where the stream names operators, the same form in a new run does. A run has one rewind:
    cleared when that is finished, it does nothing.

    Args:
        folder: Folder of stream files; None: `streams_folder` says which.
    """

    def execute(self, context: Any) -> dict[str, Any]:
        """Check the form, and rewind."""
        dag_run = context["dag_run"]
        with translated_errors():
            form = check_form(dag_run.conf, forms.REWIND)
            if form["confirm"] != form["stream"]:
                raise BadInput(
                    f"confirm: got {shown(form['confirm'])}; allowed: {shown(form['stream'])}, the"
                    " stream's name once more. Nothing has moved"
                )
            stream = find_stream(form["stream"], self.folder)
            by = require_operator(
                stream, dag_run, context.get("ti"), from_form=True, decides=form["accept_loss"]
            )
            asked = RewindRequest(
                form["to_run"],
                form["reason"],
                by or NOBODY,
                form["accept_loss"],
                asked_in=f"{dag_run.dag_id} {dag_run.run_id}",
            )
            with open_run(stream, "rewind", RunRequest(by=asked.by)) as run:
                rewind = rewind_stream(run, asked)
        if rewind is None:
            self.log.info("nothing to do: this is the state after run %s", asked.to_run)
        else:
            self.log.info("%s", rewind)
        return build_rewind_report(asked.to_run, rewind).data()


class EraseRecords(_Operation):
    """Erases the records of keys out of streams' tables, and keeps them out.

    The keys stand in a file below a folder of the worker's that `TIDELINE_ERASE_KEYS` names: what a
    form says stays in Airflow's database.
    One stream that cannot be erased from holds up no other; the task fails in the end. Cleared, it
    goes on.

    Args:
        folder: Folder of stream files; None: `streams_folder` says which.
    """

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Check the form, and erase; of each stream what `tideline erase --json` prints."""
        dag_run = context["dag_run"]
        answers, failed = [], dict[str, TidelineError]()
        with translated_errors():
            form = check_form(dag_run.conf, forms.ERASE)
            is_plan = form["plan"]
            if not is_plan and form["confirm"] != form["stream"]:
                raise BadInput(
                    f"confirm: got {shown(form['confirm'])}; allowed: {shown(form['stream'])},"
                    " as `stream` says it. Nothing was changed"
                )
            streams = find_streams(form["stream"], self.folder)
            people = _people(streams, dag_run, context.get("ti"), listed("stream", form["stream"]))
            self.log.info("streams: %s", ", ".join(stream.stream for stream in streams))
            keys = AskedKeys(
                read_keys(keys_below(form["keys_from"])),
                by_bytes=form["quarantine_by_bytes"],
                whole_keys=form["whole_keys"],
            )
            for stream, by in zip(streams, people, strict=True):
                asked = EraseRequest(
                    keys, form["reason"], by or NOBODY, form["future"], form["now"], form["most"]
                )
                launcher = self.launcher(stream)
                run_id = f"erase__{dag_run.run_id}"
                act = plan_erasure if is_plan else erase
                try:
                    with open_run(stream, run_id, RunRequest(by=by), launcher) as run:
                        plan = act(run, open_tables(stream), asked)
                except TidelineError as error:
                    self.log.error("%s: %s", stream.stream, error)
                    failed[stream.stream] = error
                    continue
                answer = build_erased(stream.stream, plan, now(), is_plan=is_plan)
                self.log.info("%s: %s", stream.stream, answer.status)
                for warning in plan.warnings:
                    self.log.warning("%s: %s", stream.stream, warning)
                answers.append(answer.data())
            if failed:
                self.log.error("not erased from: %s", ", ".join(failed))
                raise next(iter(failed.values()))
        return answers


class MaintainStream(_Operation):
    """Merges small files of a stream's tables, and deletes those that nobody needs; no row changes.

    While another task writes the tables, it waits, which uses up no try.

    Args:
        stream: Name of a stream in the streams folder; None: the form names it.
        folder: Folder of stream files; None: `streams_folder` says which.
    """

    def __init__(
        self, *, stream: str | None = None, folder: Folder = None, **arguments: Any
    ) -> None:
        super().__init__(folder=folder, **arguments)
        self.stream = stream

    def execute(self, context: Any) -> dict[str, Any]:
        """Maintain; what was done, as `tideline maintain --json` prints it."""
        name, dry_run = self.stream, False
        with translated_errors():
            if name is None:
                form = check_form(context["dag_run"].conf, forms.MAINTENANCE)
                name, dry_run = form["stream"], form["dry_run"]
            stream = find_stream(name, self.folder)
            chosen = self.stream is None
            by = require_operator(
                stream, context.get("dag_run"), context.get("ti"), from_form=chosen
            )
            with open_run(stream, "maintain", RunRequest(by=by)) as run:
                tables = open_tables(stream)
                upkeeps = maintain_stream(run, tables, dry_run=dry_run)
                erased = () if dry_run else finish_erasures(run, tables)
        for upkeep in (*upkeeps, *erased):
            self.log.info("%s", upkeep)
        return build_maintenance(stream.stream, upkeeps, dry_run=dry_run).data()


class RedriveRecords(_Operation):
    """Decodes quarantined records again, with the schemas and the stream file as they are now.

    While another task decodes, it waits, which uses up no try.

    Args:
        stream: Name of a stream in the streams folder; None: the form names it.
        classes: Only these error classes, unless the form says so; all if empty.
        folder: Folder of stream files; None: `streams_folder` says which.
    """

    def __init__(
        self,
        *,
        stream: str | None = None,
        classes: Collection[str] = (),
        folder: Folder = None,
        **arguments: Any,
    ) -> None:
        super().__init__(folder=folder, **arguments)
        self.stream = stream
        self.classes = classes

    def execute(self, context: Any) -> dict[str, Any]:
        """Redrive; what it came to, as `tideline redrive --json` prints it."""
        name, classes, since = self.stream, tuple(self.classes), None
        # A run id of its own in the ledger: the stream's Dag may have a run with the same one.
        run_id = f"redrive__{context['dag_run'].run_id}"
        with translated_errors():
            if name is None:
                form = check_form(context["dag_run"].conf, forms.REDRIVE)
                name, classes = form["stream"], classes_in(form["class"])
                since = read_time("since", form["since"]) if form["since"] else None
            stream = find_stream(name, self.folder)
            chosen = self.stream is None
            by = require_operator(stream, context["dag_run"], context.get("ti"), from_form=chosen)
            with open_run(stream, run_id, RunRequest(by=by), self.launcher(stream)) as run:
                answer = build_redriven(run_id, redrive(run, classes, since))
        asked = how_many(answer.asked, "record")
        self.log.info("%s of %s in quarantine became typed rows", answer.moved, asked)
        return answer.data()


def _people(
    streams: Collection[Stream], dag_run: Any, task: Any, named: Collection[str]
) -> list[str | None]:
    """Who has asked, of each stream; they have to be an operator and an approver of all.

    Args:
        named: Those that the form names; what else a pattern means is told to nobody who may not.

    Raises:
        NotEntitled: They are not.
    """
    people, others = list[str | None](), list[str]()
    for stream in streams:
        try:
            people.append(require_operator(stream, dag_run, task, from_form=True, decides=True))
        except NotEntitled as error:
            if stream.stream in named:
                raise
            others.append(error.message.removeprefix(f"stream {stream.stream}: "))
    if others:
        what = f"{len(others)} of the {len(streams)} streams that are meant are not theirs"
        raise NotEntitled(f"stream: {what}: {others[0]}", user=acting_user(dag_run))
    return people
