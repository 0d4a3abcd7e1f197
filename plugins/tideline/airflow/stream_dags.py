"""From the folder of stream files to Dags. Touches no service: it runs at every parse."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator

from tideline.airflow.dag_factory import build_dag
from tideline.errors import BadInput, StreamFileError
from tideline.model.stream import Stream
from tideline.stream_files import find_stream, read_stream, stream_paths

log = logging.getLogger(__name__)


class RefusedStream(BaseOperator):
    """Shows what is wrong with a stream file."""

    def __init__(self, *, message: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.message = message

    def execute(self, context: Any) -> None:
        """Fail with the file's problems."""
        raise StreamFileError(self.message)


def _refused(name: str, message: str) -> DAG:
    """A Dag without a schedule that says what is wrong; the other streams go on."""
    log.error("%s", message)
    dag_id = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    with DAG(dag_id=dag_id, schedule=None, tags=["tideline", "refused"], doc_md=message) as dag:
        RefusedStream(task_id="read_stream_file", message=message)
    return dag


def _all_dags() -> list[DAG]:
    """A Dag for every file; of two with one stream, the one that bears its name has it."""
    dags: list[DAG] = []
    found: list[tuple[Path, Stream]] = []
    for path in stream_paths():
        try:
            found.append((path, read_stream(path)))
        except StreamFileError as error:
            dags.append(_refused(path.stem, str(error)))
    streams: set[str] = set()
    for path, stream in sorted(found, key=lambda item: item[0].stem != item[1].stream):
        if stream.stream in streams:
            message = f"{path}: stream {stream.stream} is in another file already"
            dags.append(_refused(f"{path.stem}.refused", message))
        else:
            dags.append(build_dag(stream))
        streams.add(stream.stream)
    return dags


def stream_dags(wanted: str | None) -> list[DAG]:
    """Dags of the stream files.

    Args:
        wanted: The only one that a task's own process needs, whose file alone is read then.
    """
    if wanted is None:
        return _all_dags()
    try:
        return [build_dag(find_stream(wanted))]
    except BadInput:
        return _all_dags()
