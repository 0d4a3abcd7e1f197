"""Child processes: all are started here, none where its caller stands, none with Airflow's secrets.

A child takes code from the folder that it stands in: Spark's launcher from `hive-jackson/`, Python
with `-m` from any module there, a JVM from every relative entry of a class path. Whoever fills a
folder would have their code run by who only looks at a file of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path("/")
"""A folder for children that write nothing: nobody but root fills it."""
_NEVER = ("AIRFLOW_", "_AIRFLOW_")
"""The keys of Airflow's database and its connections are there."""
_PATHS = (
    *("PYTHONPATH", "TIDELINE_CACHE", "TIDELINE_RUNTIME", "TIDELINE_SPARK_JARS"),
    *("TIDELINE_SPARK_JOBS", "JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH"),
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KRB5_CONFIG", "SSL_CERT_FILE"),
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS"),
)
"""They hold paths, with colons between; an empty one would stand for the child's folder."""


def child_env(variables: Mapping[str, str]) -> dict[str, str]:
    """What a child gets of these variables: none of Airflow's, and only absolute paths."""
    found = {k: v for k, v in variables.items() if not k.startswith(_NEVER)}
    for name in set(_PATHS) & set(found):
        parts = filter(None, found[name].split(os.pathsep))
        found[name] = os.pathsep.join(map(os.path.abspath, parts))
    return found


def start(
    command: Sequence[str | Path], variables: Mapping[str, str], folder: Path, **how: Any
) -> subprocess.Popen[bytes]:
    """Start a child process.

    Args:
        variables: All that it gets, but for what `child_env` leaves out.
        folder: Where it stands; this user's alone, or `ROOT`.
        how: As of `subprocess.Popen`.
    """
    return subprocess.Popen(command, env=child_env(variables), cwd=folder.absolute(), **how)


def run(
    command: Sequence[str | Path], variables: Mapping[str, str], folder: Path, **how: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a child process to its end; arguments as of `start`, and of `subprocess.run`."""
    how = {"check": False, **how}
    return subprocess.run(command, env=child_env(variables), cwd=folder.absolute(), **how)
