"""One Dag per stream file. Parsing reads files and touches no service."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, get_parsing_context

from tideline.adapters.stream_files import read_stream, stream_paths
from tideline.airflow.dag_factory import build_dag
from tideline.errors import StreamFileError

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


def _dags(paths: list[Path]) -> dict[str, DAG]:
    dags: list[DAG] = []
    streams = {}
    for path in paths:
        try:
            stream = read_stream(path)
        except StreamFileError as error:
            dags.append(_refused(path.stem, str(error)))
            continue
        if stream.stream in streams:
            message = f"{path}: stream {stream.stream} is in another file already"
            dags.append(_refused(f"{path.stem}.refused", message))
        else:
            streams[stream.stream] = stream
    wanted = get_parsing_context().dag_id  # a task's own process needs one Dag only
    built = [build_dag(s) for name, s in streams.items() if wanted in (None, name)]
    return {dag.dag_id: dag for dag in [*dags, *built]}


globals().update(_dags(stream_paths()))
