"""One Dag per stream file. Parsing reads files and touches no service."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, get_parsing_context

from tideline.adapters.stream_files import read_stream, streams_folder
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


def _refused(path: Path, error: StreamFileError) -> DAG:
    """A Dag without a schedule that says what is wrong; the other streams go on."""
    log.error("%s", error)
    with DAG(
        dag_id=path.stem, schedule=None, tags=["tideline", "refused"], doc_md=str(error)
    ) as dag:
        RefusedStream(task_id="read_stream_file", message=str(error))
    return dag


def _files(wanted: str | None) -> list[Path]:
    """All stream files; in a task's own process only its file, if it is named as usual."""
    folder = streams_folder()
    usual = folder / f"{wanted}.yaml"
    return [usual] if wanted and usual.exists() else sorted(folder.glob("*.yaml"))


for _path in _files(get_parsing_context().dag_id):
    try:
        _dag = build_dag(read_stream(_path))
    except StreamFileError as _error:
        _dag = _refused(_path, _error)
    globals()[_dag.dag_id] = _dag
