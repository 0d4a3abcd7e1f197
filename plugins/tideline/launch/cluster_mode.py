"""A submission whose driver runs on the cluster (deploy mode `cluster`).

Nothing that the driver reads lies on this machine: spark-submit sends application, package and
jars; the job lies in the table's store (`launch.elsewhere`). Secrets are variables of the driver's
process. On YARN, they are properties in a file that only spark-submit reads. On Kubernetes, they
are references to secrets of the site: a property would stand in plain text in the driver's pod.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tideline.launch.elsewhere import RemoteJob
from tideline.launch.jvm import spark_home
from tideline.launch.submit import (
    DRIVER_OPTIONS,
    DRIVER_PYTHON,
    EXECUTOR_OPTIONS,
    Submission,
    defaults_file,
)
from tideline.launch.target import SPARK_SUBMIT, private_file

_ONCE = {
    # spark-submit ends when the application has ended, and with its status.
    "spark.yarn.submit.waitAppCompletion": "true",
    "spark.kubernetes.submission.waitAppCompletion": "true",
    # An attempt has one driver: a second one would write into the same folder (R5).
    "spark.yarn.maxAppAttempts": "1",
}


def on_cluster(submission: Submission, remote: RemoteJob, folder: Path) -> Submission:
    """The same application, with a driver on the cluster.

    Args:
        submission: With a driver on this machine.
        remote: What the driver gets.
        folder: For a file with secrets; gone with the job.
    """
    conf = {key: value for key, value in submission.conf.items() if key != DRIVER_PYTHON}
    store = {f"spark.hadoop.{key}": value for key, value in remote.store_options.items()}
    secrets = dict(remote.secrets)
    if submission.store is not None:
        secrets |= submission.store.environment()
    return replace(
        submission,
        arguments=(remote.address,),
        conf={**conf, DRIVER_OPTIONS: conf[EXECUTOR_OPTIONS], **_ONCE, **store},
        environment=_without_python(submission),
        options={**submission.options, "--deploy-mode": "cluster", "--name": remote.name},
        properties_file=_for_yarn(secrets, folder) if submission.master == "yarn" else "",
    )


def _without_python(submission: Submission) -> dict[str, str]:
    """The variables without our Python, which YARN would ask the cluster for."""
    kept = {k: v for k, v in submission.environment.items() if not k.startswith("PYSPARK_")}
    if submission.binary == SPARK_SUBMIT:  # pip's; it asks the cluster's Python for its folder
        kept["SPARK_HOME"] = _spark_home()
    return kept


def _spark_home() -> str:
    return os.environ.get("SPARK_HOME") or str(spark_home())


def _for_yarn(secrets: Mapping[str, str], folder: Path) -> str:
    """A file of properties that give the driver its variables; empty if it needs none.

    Spark then reads no other file of properties, so the site's own come along.
    """
    if not secrets:
        return ""
    site = defaults_file()
    own = (f"spark.yarn.appMasterEnv.{name}={_escaped(v)}\n" for name, v in secrets.items())
    return private_file(folder, "spark.properties", "".join([site, "\n", *own]).encode())


def _escaped(value: str) -> str:
    """As a value in a file of Java properties, on one line and in ASCII.

    Whatever Java could read otherwise is its number (`java.util.Properties.load`).
    """
    units = value.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(
        chr(unit) if " " < chr(unit) <= "~" and unit != ord("\\") else f"\\u{unit:04x}"
        for unit in pairs
    )
