"""Import once, before processes are forked, what each task would import for itself.

Airflow's local executor forks a process for each task from one that the scheduler has forked, and
the Dag processor one for each parse. Importing was nine tenths of the work of an idle run's tasks
(docs/adr/0022-no-process-without-work.md). This module is a listener of Airflow's, registered by
`tideline.airflow.plugin`.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.listeners import hookimpl

_LIBRARIES = (
    "airflow.providers.apache.spark.operators.spark_submit",
    "airflow.providers.standard.operators.hitl",
    "airflow.sdk.observability.stats",
    "deltalake.fs",
    "kafka.admin",
    "pyarrow.fs",
    "pyarrow.parquet",
)
_OURS = (
    "tideline.airflow.dags",
    "tideline.kafka.kafka_cluster",
)
_PACKAGE = Path(__file__).parents[1]
log = logging.getLogger(__name__)
_loaded_as: frozenset[tuple[str, int, int]] | None = None
"""The package's files when its modules were imported; None where they were not."""


@hookimpl
def on_starting(component: Any) -> None:
    """A service of Airflow's or a task's process starts; this comes before any Dag file.

    The Dag processor gets the libraries only: nothing tells its children to import ours anew.
    """
    if type(component).__name__ == "TaskRunnerMarker":
        forget_if_changed()
    elif "scheduler" in sys.argv:
        preload(_LIBRARIES)
        load_ours()
    elif "dag-processor" in sys.argv:
        preload(_LIBRARIES)


def preload(names: tuple[str, ...]) -> None:
    """Import modules; what cannot be imported is left to whoever needs it, with its error."""
    for name in names:
        try:
            import_module(name)
        except Exception as error:
            log.warning("%s is not imported ahead: %s", name, error)


def load_ours() -> None:
    """Import Tideline, and note of which files."""
    global _loaded_as
    _loaded_as = _files()
    preload(_OURS)


def forget_if_changed() -> None:
    """In a task's process: after an update in place, import the new files and no old ones."""
    if _loaded_as is None or _loaded_as == _files():
        return
    log.info("%s has changed since the scheduler started: importing it again", _PACKAGE)
    # All of them: a new module beside an old one would be a version that nobody has tested.
    for name in [n for n in sys.modules if n.split(".")[0] == "tideline"]:
        del sys.modules[name]


def _files() -> frozenset[tuple[str, int, int]]:
    found = ((path, path.stat()) for path in _PACKAGE.rglob("*.py"))
    return frozenset((str(path), stat.st_mtime_ns, stat.st_size) for path, stat in found)
