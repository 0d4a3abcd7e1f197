"""Dag files parsed as Airflow does it: in processes that are forked from one which has imported it.

Importing Airflow takes three seconds, and a test may want several files parsed.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IMPORTED = ["airflow.sdk", "deltalake", "numpy", "requests"]
"""What the real Dag processor has imported, but for Kafka's client: a Dag file must not need it."""
FORKED = multiprocessing.get_context("forkserver")


@contextmanager
def parsing_processes(home: Path) -> Iterator[ProcessPoolExecutor]:
    """Processes for `parsed`, one a call: none knows what another has imported.

    Args:
        home: Airflow's, which it reads while it is imported: before any process is forked.
    """
    before = os.environ.get("AIRFLOW_HOME")
    os.environ["AIRFLOW_HOME"] = str(home)
    FORKED.set_forkserver_preload(IMPORTED)
    try:
        with ProcessPoolExecutor(1, mp_context=FORKED, max_tasks_per_child=1) as pool:
            pool.submit(os.getpid).result()
            yield pool
    finally:
        os.environ.pop("AIRFLOW_HOME")
        if before is not None:
            os.environ["AIRFLOW_HOME"] = before


def refuse_connections(*args: object, **kwargs: object) -> None:
    """Stand in for `connect`."""
    raise AssertionError("a Dag file opened a connection")


def parsed(module: str, path: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """What Airflow would see of a Dag file where connecting raises.

    Args:
        module: The file's name, without its ending.
        path: Folders that are imported from before any other.
        variables: Of the environment.

    Returns:
        Facts of each Dag, by its id.
    """
    os.environ.update(variables)
    sys.path[:0] = path
    socket.socket.connect = socket.create_connection = refuse_connections  # type: ignore[assignment,method-assign]
    from airflow.sdk import DAG

    dags = {k: v for k, v in vars(importlib.import_module(module)).items() if isinstance(v, DAG)}
    heavy = sorted({"kafka", "pyarrow.compute", "pyspark"} & set(sys.modules))
    return {
        name: {
            "tasks": [t.task_id for t in dag.topological_sort()],
            "downstream": {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks},
            "rules": {
                t.task_id: str(getattr(t.trigger_rule, "value", t.trigger_rule)) for t in dag.tasks
            },
            "schedule": type(dag.timetable).__name__,
            "cron": getattr(dag.timetable, "expression", None),
            "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs,
            "tags": sorted(dag.tags),
            "params": sorted(dag.params),
            "doc": dag.doc_md,
            "outlets": [o.name for t in dag.tasks for o in t.outlets],
            "watchers": dict(_watchers(dag)),
            "loaded": heavy,
        }
        for name, dag in dags.items()
    }


def _watchers(dag: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Arguments of the triggers of a Dag's asset watchers, by their names."""
    condition = getattr(dag.timetable, "asset_condition", None)
    for asset in condition.objects if condition is not None else ():
        for watcher in asset.watchers:
            yield watcher.name, watcher.trigger.serialize()[1]


def _rule(task: Any) -> Any:
    """A mapped task has the text that it was given."""
    return getattr(task.trigger_rule, "value", task.trigger_rule)


def connected() -> None:
    """What a Dag file must not do, in such a process."""
    parsed("tests.dags.parsing", (), {})
    socket.create_connection(("127.0.0.1", 1))
