"""From the folder of stream files to Dags. It runs at every parse, so it connects to no service."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator

from tideline.airflow.dag_factory import build_dag
from tideline.errors import StreamFileError
from tideline.stream.files import find_stream, read_stream, stream_paths
from tideline.stream.settings import OPERATION_DAGS
from tideline.stream.stream import Stream

log = logging.getLogger(__name__)
_LONGEST = 2000
"""Characters of an error that is not ours, in a Dag's notes."""


class RefusedStream(BaseOperator):
    """Shows what is wrong with a stream file."""

    def __init__(self, *, message: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.message = message

    def execute(self, context: Any) -> None:
        """Fail with the file's problems."""
        raise StreamFileError(self.message)


def _refused(name: str, message: str, taken: Collection[str]) -> DAG:
    """A Dag without a schedule that shows what is wrong; other streams are not affected.

    Args:
        name: What the Dag is called like: its file.
        message: What is wrong.
        taken: Ids of other Dags.
    """
    log.error("%s", message)
    dag_id = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:200]
    while dag_id in taken or dag_id in OPERATION_DAGS:
        dag_id += ".refused"
    tags = ["tideline", "refused"]
    # Airflow opens notes that end in .md as a file.
    notes = f"{message}\n"
    with DAG(dag_id=dag_id, schedule=None, tags=tags, doc_md=notes, auto_register=False) as dag:
        RefusedStream(task_id="read_stream_file", message=message)
    return dag


def _all_dags(folder: str | Path | None) -> list[DAG]:
    """A Dag per file. If two files name one stream, the file named like the stream wins."""
    streams: list[tuple[Path, Stream]] = []
    problems: list[tuple[str, str]] = []
    for path in stream_paths(folder):
        try:
            streams.append((path, read_stream(path)))
        except StreamFileError as error:
            problems.append((path.stem, str(error)))
    dags: dict[str, DAG] = {}
    named: set[str] = set()
    for path, stream in sorted(streams, key=lambda item: item[0].stem != item[1].stream):
        if stream.stream in named:
            what = f"{path}: stream {stream.stream} is in another file already"
            problems.append((f"{path.stem}.refused", what))
            continue
        named.add(stream.stream)
        try:
            dags[stream.stream] = build_dag(stream)
        except Exception as error:  # whatever it is, the other streams go on
            log.exception("%s", path)
            what = f"{path}: no Dag can be made of it: {type(error).__name__}: {error}"
            problems.append((path.stem, what[:_LONGEST]))
    for name, problem in problems:
        dag = _refused(name, problem, dags)
        dags[dag.dag_id] = dag
    return list(dags.values())


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
