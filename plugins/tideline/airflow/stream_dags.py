"""From a folder of stream files to a Dag each, and from a stream to its Dag.

It runs at every parse, so it connects to no service. A file that is refused becomes a Dag that says
so: one bad file never takes the other Dags away.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, CronDataIntervalTimetable, Param, chain

from tideline.airflow.approval import COMMENT
from tideline.airflow.decode_operators import DecodeRows, VerifyDecoded
from tideline.airflow.fold_operators import FoldChanges, VerifyCurrent
from tideline.airflow.operators import (
    AdvanceOffsets,
    DetectEarliestReset,
    IngestRanges,
    PlanOffsetRanges,
    ResolveReset,
    VerifyRanges,
)
from tideline.errors import StreamFileError
from tideline.stream.files import by_name, find_stream, read_stream, stream_paths
from tideline.stream.settings import OPERATION_DAGS
from tideline.stream.stream import Stream

log = logging.getLogger(__name__)
_LONGEST = 2000
"""Characters of an error that is not ours, in a Dag's notes."""
_DRAFT = "http://json-schema.org/draft-07/schema#"
"""Airflow checks every field's schema at each parse. The newest draft's own schema consists of many
documents, and checking them took half of the parse time."""


def stream_dags(wanted: str | None, folder: str | Path | None = None) -> list[DAG]:
    """Dags of the stream files.

    Args:
        wanted: The only Dag that a task's process needs; then only its file is read. None: all.
        folder: Folder of stream files; None: `streams_folder` says which.

    Raises:
        BadInput: There is no such folder.
    """
    if wanted is None:
        return _all_dags(folder)
    try:
        return [build_dag(find_stream(wanted, folder))]
    except Exception:  # its file is refused, or is not found; all files say which
        return _all_dags(folder)


def _all_dags(folder: str | Path | None) -> list[DAG]:
    """A Dag per file; of files that name one stream, `by_name` says which one is its Dag.

    Good streams come first: a refused file's Dag takes an id that none of them has.
    """
    streams: list[tuple[Path, Stream]] = []
    problems: list[tuple[str, str]] = []
    for path in stream_paths(folder):
        try:
            streams.append((path, read_stream(path)))
        except StreamFileError as error:
            problems.append((path.stem, str(error)))
    dags: dict[str, DAG] = {}
    for name, file in by_name(streams).items():
        for path in file.others:
            what = f"{path}: stream {name} is in another file already: {file.path} is what counts"
            problems.append((f"{path.stem}.refused", what))
        try:
            dags[name] = build_dag(file.stream, file.warning)
        except Exception as error:  # whatever it is, the other streams go on
            log.exception("%s", file.path)
            what = f"{file.path}: no Dag can be made of it: {type(error).__name__}: {error}"
            problems.append((file.path.stem, what[:_LONGEST]))
    for name, problem in problems:
        dag = _refused(name, problem, dags)
        dags[dag.dag_id] = dag
    return list(dags.values())


def _refused(name: str, message: str, taken: Collection[str]) -> DAG:
    """A Dag without a schedule that shows what is wrong; its id is like `name`, and not taken."""
    log.error("%s", message)
    dag_id = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:200]
    while dag_id in taken or dag_id in OPERATION_DAGS:
        dag_id += ".refused"
    tags = ["tideline", "refused"]
    notes = f"{message}\n"  # Airflow opens notes that end in .md as a file
    with DAG(dag_id=dag_id, schedule=None, tags=tags, doc_md=notes, auto_register=False) as dag:
        RefusedStream(task_id="read_stream_file", message=message)
    return dag


class RefusedStream(BaseOperator):
    """Shows what is wrong with a stream file."""

    def __init__(self, *, message: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.message = message

    def execute(self, context: Any) -> None:
        """Fail with the file's problems."""
        raise StreamFileError(self.message)


def build_dag(stream: Stream, warning: str | None = None) -> DAG:
    """One stream's Dag: plan, detect, resolve, ingest, verify, advance; then decode, if asked.

    `warning` stands first in its notes.
    """
    settings = stream.airflow
    timetable = None
    if stream.schedule is not None:
        timetable = CronDataIntervalTimetable(stream.schedule, timezone=stream.timezone)
    with DAG(
        dag_id=stream.stream,
        description=f"{_topics(stream)} -> {stream.table.uri}",
        schedule=timetable,
        start_date=datetime.combine(settings.start_date, time(), UTC),
        catchup=False,
        # With `proceed`, other runs go on while one waits for an answer.
        max_active_runs=16 if stream.on_incident == "proceed" else 1,
        tags=sorted({"tideline", *settings.tags}),
        access_control=_access(settings.access_control),
        default_args={
            "owner": settings.owner,
            "retries": settings.retries,
            "retry_delay": timedelta(seconds=settings.retry_delay_seconds),
        },
        params=_form(),
        doc_md=_documentation(stream, warning),
        # By the module's names alone: of two Dags of one id that register themselves, any may win.
        auto_register=False,
    ) as dag:
        table = Asset(name=f"tideline/{stream.stream}", uri=_asset_uri(stream.table.uri))
        chain(
            PlanOffsetRanges(task_id="plan_offset_ranges", stream=stream, asset=table),
            DetectEarliestReset(task_id="detect_earliest_reset", stream=stream),
            # Airflow fails a try that is answered within a second after it parks: ask again.
            ResolveReset(
                task_id="resolve_reset",
                stream=stream,
                retries=max(1, settings.retries),
                retry_delay=timedelta(seconds=min(5, settings.retry_delay_seconds)),
                params={COMMENT: Param("", type="string", description="Why; kept in the ledger.")},
            ),
            # resolve_reset is usually skipped: run anyway, unless something failed.
            IngestRanges(task_id="ingest_ranges", stream=stream, trigger_rule="none_failed"),
            VerifyRanges(task_id="verify_ranges", stream=stream),
            AdvanceOffsets(task_id="advance_offsets", stream=stream, asset=table),
            *_decoding(stream),
            *_folding(stream),
        )
    return dag


def _decoding(stream: Stream) -> list[BaseOperator]:
    """The tasks that decode; none where the stream has no typed tables."""
    if stream.decode is None:
        return []
    typed = Asset(name=f"tideline/{stream.stream}/decoded", uri=_asset_uri(stream.decode.table.uri))
    return [
        # A run that lands nothing may have to catch up: run anyway, unless something failed.
        DecodeRows(task_id="decode_rows", stream=stream, trigger_rule="none_failed"),
        VerifyDecoded(task_id="verify_decoded", stream=stream, asset=typed),
    ]


def _folding(stream: Stream) -> list[BaseOperator]:
    """The tasks that fold; none where the stream has no current table."""
    if stream.current is None:
        return []
    uri = _asset_uri(stream.current.table.uri)
    table = Asset(name=f"tideline/{stream.stream}/current", uri=uri)
    return [
        # A run that decodes nothing may have to catch up: run anyway, unless something failed.
        FoldChanges(task_id="fold_changes", stream=stream, trigger_rule="none_failed"),
        VerifyCurrent(task_id="verify_current", stream=stream, asset=table),
    ]


def _form() -> dict[str, Param]:
    """The form of a manual trigger; a window or ranges make the run a backfill."""
    offset = {"type": "integer", "minimum": 0}
    one_range = {
        "topic": {"type": "string"},
        "partition": offset,
        "start_offset": offset,
        "end_offset": offset,
    }
    return {
        "from": _field(
            None,
            "Backfill records written from this time on.",
            type=["null", "string"],
            format="date-time",
        ),
        "to": _field(
            None,
            "End of the backfill, exclusive; a time in the past.",
            type=["null", "string"],
            format="date-time",
        ),
        "ranges": _field(
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
        "plan_only": _field(False, "Show what a run would read; store nothing.", type="boolean"),
        "reason": _field(None, "Why; kept in the ledger.", type=["null", "string"]),
    }


def _field(default: object, description: str, **schema: object) -> Param:
    return Param(default, description, schema={"$schema": _DRAFT, **schema})


def _topics(stream: Stream) -> str:
    return ", ".join(stream.kafka.topics) or f"topics matching {stream.kafka.topic_pattern}"


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


def _asset_uri(table_uri: str) -> str:
    return f"file://{table_uri}" if table_uri.startswith("/") else table_uri


def _documentation(stream: Stream, warning: str | None) -> str:
    above = f"**Two files**: {warning}.\n\n" if warning is not None else ""
    return f"""{above}Lands **{_topics(stream)}** in `{stream.table.uri}`.

Ledger: `{stream.ledger_location}`.
A run reads at most {stream.limits.max_records_per_run:,} offsets.
To read a run's ranges again, clear `ingest_ranges`: it reads the same offsets and keeps one copy.
"""
