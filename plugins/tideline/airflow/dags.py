"""Dags for a Dag file: two lines there make a Dag of every stream file in a folder.

    from tideline.airflow.dags import stream_dags
    globals().update(stream_dags("/opt/streams"))

Airflow parses a file only if its text has both words, `airflow` and `dag`: these lines have them.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, get_parsing_context

from tideline.airflow import operation_dags as operations
from tideline.airflow import stream_dags as streams


def stream_dags(folder: str | Path | None = None) -> dict[str, DAG]:
    """A Dag for each stream file, by its id. It reads files and connects to no service.

    In a task's own process, it reads the file of that task's Dag alone.

    Args:
        folder: Folder of stream files; None: `TIDELINE_STREAMS`, otherwise the checkout's.

    Raises:
        BadInput: There is no such folder.
    """
    wanted = get_parsing_context().dag_id
    if wanted in operations.BUILDERS:
        return {}
    return {dag.dag_id: dag for dag in streams.stream_dags(wanted, folder)}


def operation_dags(folder: str | Path | None = None) -> dict[str, DAG]:
    """The Dags `tideline_audit`, `tideline_rewind`, `tideline_maintenance`, `tideline_redrive`.

    Their forms name a stream. Airflow allows each id once: call it in one Dag file only.

    Args:
        folder: As for `stream_dags`; their tasks look for the stream there.
    """
    wanted = get_parsing_context().dag_id
    return {
        dag_id: build(dag_id, folder)
        for dag_id, build in operations.BUILDERS.items()
        if wanted is None or wanted == dag_id
    }
