"""One Dag per stream file. Parsing reads files and touches no service."""

from __future__ import annotations

import logging
import re
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


def _refused(path: Path, message: str) -> DAG:
    """A Dag without a schedule that says what is wrong; the other streams go on."""
    log.error("%s", message)
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)
    with DAG(dag_id=name, schedule=None, tags=["tideline", "refused"], doc_md=message) as dag:
        RefusedStream(task_id="read_stream_file", message=message)
    return dag


def _dags(paths: list[Path]) -> dict[str, DAG]:
    dags: dict[str, DAG] = {}
    for path in paths:
        try:
            dag = build_dag(read_stream(path))
            if dag.dag_id in dags:
                dag = _refused(path, f"{path}: stream {dag.dag_id} is in another file already")
        except StreamFileError as error:
            dag = _refused(path, str(error))
        dags.setdefault(dag.dag_id, dag)
    return dags


_folder = streams_folder()
_wanted = get_parsing_context().dag_id
_usual = _folder / f"{_wanted}.yaml"
# In a task's own process its file is enough, if it is named as usual.
_found = _dags([_usual]) if _wanted and _usual.exists() else {}
globals().update(_found if _wanted in _found else _dags(sorted(_folder.glob("*.yaml"))))
