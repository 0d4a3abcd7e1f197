"""From a folder of stream files to a Dag each, and from a stream to its Dag.

It runs at every parse, so it connects to no service. A file that is refused becomes a Dag that says
so: one bad file never takes the other Dags away.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, TaskGroup, chain

from tideline.airflow.approval import COMMENT
from tideline.airflow.decode_operators import DecodeRows, VerifyDecoded
from tideline.airflow.fleet_dags import build_fleet_dag
from tideline.airflow.fold_operators import FoldChanges, VerifyCurrent
from tideline.airflow.forms import (
    asset_of,
    decoded_assets,
    field_of,
    links,
    run_form,
    schedule_of,
    settings_of,
    topics_of,
    topics_text,
)
from tideline.airflow.operators import (
    AdvanceOffsets,
    DetectEarliestReset,
    IngestRanges,
    PlanOffsetRanges,
    ResolveReset,
    VerifyRanges,
)
from tideline.errors import StreamFileError
from tideline.model.wording import first_few
from tideline.stream.contents import FileContents, FleetContents
from tideline.stream.files import (
    Rank,
    by_name,
    claimed_names,
    find_fleet,
    find_stream,
    read_files,
    stream_paths,
)
from tideline.stream.sections import OPERATION_DAGS
from tideline.stream.stream import Stream

log = logging.getLogger(__name__)
_GROUP = "Tasks without work are skipped: a run with nothing new ends after detect_earliest_reset"
_LONGEST = 2000
"""Characters of an error that is not ours, in a Dag's notes."""


def stream_dags(wanted: str | None, folder: str | Path | None = None) -> list[DAG]:
    """Dags of the stream files.

    Args:
        wanted: The only Dag that a task's process needs; then only its file is read. None: all.
        folder: Folder of stream files; None: `streams_folder` says which.
    """
    if wanted is None:
        return _all_dags(folder)
    for find in (_dag_of_stream, _dag_of_fleet):
        with suppress(Exception):  # its file is refused, or is not found; all files say which
            return [find(wanted, folder)]
    return _all_dags(folder)


def _dag_of_stream(name: str, folder: str | Path | None) -> DAG:
    return build_dag(find_stream(name, folder), folder=folder)


def _dag_of_fleet(name: str, folder: str | Path | None) -> DAG:
    return build_fleet_dag(*find_fleet(name, folder), folder)


def _all_dags(folder: str | Path | None) -> list[DAG]:
    """A Dag for each stream and fleet; of files that name one stream, `by_name` says which counts.

    Good streams come first: a refused file's Dag takes an id that none of them has.
    """
    files, refused = read_files(stream_paths(folder))
    problems = [(path.stem, str(error)) for path, error in refused.items()]
    dags: dict[str, DAG] = {}
    doubled: dict[Path, list[str]] = {}
    left = claimed_names(refused)
    named = by_name(files, left)
    problems += _behind_refused(files, named, left)
    for name, file in named.items():
        for path in file.others:
            what = f"{path}: stream {name} is in another file already: {file.path} is what counts"
            doubled.setdefault(path, []).append(what)
        if file.dag_id == name:
            problems += _added(
                dags, name, file.path, partial(build_dag, file.stream, file.warning, folder)
            )
    for path, contents in sorted(files.items(), key=_is_named_otherwise):
        if contents.problems:
            problems.append((f"{path.stem}.refused", "\n".join(map(str, contents.problems))))
        if not isinstance(contents, FleetContents):
            continue
        fleet = contents.fleet.fleet
        if fleet in dags:
            what = (
                f"{path}: fleet {fleet}: a stream has that name, or a fleet of another file;"
                " give the fleet another one"
            )
            problems.append((path.stem, what))
        else:
            build = partial(build_fleet_dag, contents, path, folder)
            problems += _added(dags, fleet, path, build)
    problems += [(f"{path.stem}.refused", first_few(w, 20, "\n")) for path, w in doubled.items()]
    for name, problem in problems:
        dag = _refused(name, problem, dags)
        dags[dag.dag_id] = dag
    return list(dags.values())


def _behind_refused(
    files: Mapping[Path, FileContents], named: Collection[str], left: Mapping[str, Rank]
) -> list[tuple[str, str]]:
    """What is wrong with files of streams that a refused file would be the one of."""
    return [
        (
            f"{path.stem}.refused",
            f"{path}: stream {s.stream}: {left[s.stream][-1]} goes before, and is refused: mend"
            " that, or delete one of both",
        )
        for path, contents in files.items()
        for s in contents.streams
        if contents.fleet is None and s.stream not in named
    ]


def _is_named_otherwise(file: tuple[Path, FileContents]) -> bool:
    """Of two fleets of one name the one whose file is called so counts, as for `find_fleet`."""
    path, contents = file
    return contents.fleet is not None and contents.fleet.fleet != path.stem


def _added(
    dags: dict[str, DAG], name: str, path: Path, build: Callable[[], DAG]
) -> list[tuple[str, str]]:
    """Add a Dag, or say why none can be made, and of which file."""
    try:
        dags[name] = build()
    except Exception as error:  # whatever it is, the other streams go on
        log.exception("%s", path)
        what = f"{path}: no Dag can be made of it: {type(error).__name__}: {error}"
        return [(path.stem, what[:_LONGEST])]
    return []


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


def build_dag(stream: Stream, warning: str | None = None, folder: str | Path | None = None) -> DAG:
    """One stream's Dag: plan, detect, resolve, ingest, verify, advance; then decode, if asked.

    `warning` stands first in its notes.
    """
    with DAG(
        dag_id=stream.stream,
        description=f"{topics_text(stream)} -> {stream.table.uri}",
        # With `proceed`, other runs go on while one waits for an answer.
        max_active_runs=16 if stream.on_incident == "proceed" else 1,
        params=run_form(),
        schedule=schedule_of(stream, stream.stream, folder),
        **settings_of(stream),
        doc_md=_documentation(stream, warning),
    ) as dag:
        table = asset_of(stream, stream.table.uri)
        settings = stream.airflow
        plan = PlanOffsetRanges(
            task_id="plan_offset_ranges", stream=stream, asset=table, inlets=topics_of(stream)
        )
        # Folded, a group shows success before skips: a run with nothing to read is green.
        with TaskGroup("land", prefix_group_id=False, tooltip=_GROUP):
            chain(
                plan,
                DetectEarliestReset(task_id="detect_earliest_reset", stream=stream),
                # Airflow fails a try that is answered within a second after it parks: ask again.
                ResolveReset(
                    task_id="resolve_reset",
                    stream=stream,
                    retries=max(1, settings.retries),
                    retry_delay=timedelta(seconds=min(5, settings.retry_delay_seconds)),
                    params={COMMENT: field_of("", "Reason", "Kept in the ledger.", type="string")},
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
    typed = decoded_assets(stream)
    return [
        # A run that lands nothing may have to catch up: run anyway, unless something failed.
        DecodeRows(task_id="decode_rows", stream=stream, assets=typed, trigger_rule="none_failed"),
        VerifyDecoded(task_id="verify_decoded", stream=stream, assets=typed),
    ]


def _folding(stream: Stream) -> list[BaseOperator]:
    """The tasks that fold; none where the stream has no current table."""
    if stream.current is None:
        return []
    table = asset_of(stream, stream.current.table.uri, "current")
    return [
        # A run that decodes nothing may have to catch up: run anyway, unless something failed.
        FoldChanges(task_id="fold_changes", stream=stream, asset=table, trigger_rule="none_failed"),
        VerifyCurrent(task_id="verify_current", stream=stream, asset=table),
    ]


def _documentation(stream: Stream, warning: str | None) -> str:
    above = f"**Two files**: {warning}.\n\n" if warning is not None else ""
    return f"""{above}Lands **{topics_text(stream)}** in `{stream.table.uri}`.

{links(stream.stream)}

Ledger: `{stream.ledger_location}`.
A run reads at most {stream.limits.max_records_per_run:,} offsets.
To read a run's ranges again, clear `ingest_ranges`: it reads the same offsets and keeps one copy.
"""
