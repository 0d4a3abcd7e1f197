"""Where the Spark programs are, the properties of every driver, and which variables they may see.

A task of Airflow has the keys of its database, of its tokens and of its connections in its
environment. Whatever runs beside Spark could read them there, so Spark's processes get the
variables that are named here, and no others.

A driver starts its JVM before it imports anything large, so nothing large is imported here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tideline.children import child_env

LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Properties of a driver on this machine: nothing listens beyond 127.0.0.1."""
ASKING = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}
"""Properties of a Spark of one JVM, which makes the secret itself: its ports for objects and blocks
ask who is there. Every user of the machine reaches them, and Spark cannot do without."""
INGEST, DECODE = "ingest_range", "decode_rows"
SECRETS = "TIDELINE_SECRETS"
"""A driver on another machine has the secret options of Spark's Kafka source in this variable."""
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - a variable's name
"""Spark Connect's servers and clients take their token from this variable."""
CONNECTION = "TIDELINE_SPARK_CONNECTION"
"""A client of Spark Connect has the id of the Airflow connection here, for its messages."""

SITE = "TIDELINE_SPARK_VARIABLES"
"""Names more of them, with commas between; `*` at the end of one stands for any rest."""
_DECIDE = (
    *("AWS_*", "AZURE_*", "GOOGLE_*", "HADOOP_*", "PYSPARK_*", "SPARK_*", "YARN_*"),
    *("TIDELINE_CACHE", "TIDELINE_FAILPOINT", "TIDELINE_SPARK_*", "TIDELINE_TRACE"),
    *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "LD_*"),
    *("KRB5*", "KUBECONFIG", "KUBERNETES_*", "PYTHONPATH", "SSL_CERT_FILE", "TMPDIR", "TZ"),
)
"""They change what a driver does."""
_BESIDE = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "HOSTNAME", "VIRTUAL_ENV"),
    *("GRPC_*", "XDG_*", "SSL_CERT_DIR", "PYTHON*", "TIDELINE_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
)
"""A process may need them; two runs that differ in them share a driver."""


def jobs_folder() -> Path:
    """Where the Spark programs are: `TIDELINE_SPARK_JOBS`, else `spark_jobs/` in the package.

    There it is a link to the checkout's `spark_jobs/`; a wheel has the files themselves (ADR 30).
    """
    folder = os.environ.get("TIDELINE_SPARK_JOBS")
    return Path(folder).absolute() if folder else Path(__file__).parents[1] / "spark_jobs"


def application(name: str) -> str:
    """Path of a Spark application: `INGEST` or `DECODE`."""
    return str(jobs_folder() / f"{name}.py")


def application_for(job_path: str) -> str:
    """Name of the application that a job file is for; the file itself says so.

    Raises:
        ValueError: It is for none that we have.
    """
    name = json.loads(Path(job_path).read_bytes()).get("application", INGEST)
    if name not in (INGEST, DECODE):
        raise ValueError(f"{job_path}: no such application: {name!r}")
    return str(name)


def log_settings() -> dict[str, str]:
    """The system property that makes a driver say warnings and worse only."""
    return {"log4j2.configurationFile": f"file:{jobs_folder()}/log4j2.properties"}


def source_digest() -> str:
    """Stands for the package's and the applications' text."""
    package, programs = Path(__file__).parents[1], jobs_folder()
    both = (digest_of(folder, sorted(folder.rglob("*.py"))) for folder in (package, programs))
    return "-".join(both)


def digest_of(folder: Path, files: Sequence[Path]) -> str:
    """Stands for the names and the contents of files below a folder."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def spark_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """What a process of Spark's is started with, of this process's variables.

    None of Airflow's, not even where a site names them, or `*`.
    """
    wanted = (*_DECIDE, *_BESIDE, *_of_the_site(variables))
    return child_env({name: v for name, v in variables.items() if _is_among(name, wanted)})


def decisive(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that make two drivers different; what Airflow sets for each task is not among them."""
    wanted = (*_DECIDE, *_of_the_site(variables))
    return {name: value for name, value in variables.items() if _is_among(name, wanted)}


def _of_the_site(variables: Mapping[str, str]) -> tuple[str, ...]:
    named = variables.get(SITE, "")
    return tuple(filter(None, (name.strip() for name in named.split(","))))


def _is_among(name: str, wanted: tuple[str, ...]) -> bool:
    return any(
        name == one or (one.endswith("*") and name.startswith(one.removesuffix("*")))
        for one in wanted
    )
