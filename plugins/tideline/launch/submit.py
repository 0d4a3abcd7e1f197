"""spark-submit, spelled once: what every way of running the ingest application needs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tideline.errors import ServiceAway
from tideline.json_codec import from_json
from tideline.launch.cache import cache_folder
from tideline.launch.jars import spark_jars
from tideline.launch.java import find_java
from tideline.launch.job import SparkJob

_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that ends soon, whose start is most of its time: its code is compiled once, quickly."""
_MANY = 1_000_000
"""From so many offsets on, compiling well pays."""


def application() -> str:
    """Path of the Spark application: `TIDELINE_SPARK_JOBS`, else `spark_jobs/` beside plugins/."""
    folder = os.environ.get("TIDELINE_SPARK_JOBS")
    root = Path(folder) if folder else Path(__file__).parents[3] / "spark_jobs"
    return str(root / "ingest_range.py")


def is_small(job_path: str) -> bool:
    """Whether starting Spark will be most of a job's time."""
    job = from_json(SparkJob, Path(job_path).read_bytes())
    return sum(len(planned.offsets) for planned in job.ranges) < _MANY


def configuration(master: str, *, is_small: bool) -> dict[str, str]:
    """Spark properties for a master; on one machine nothing listens beyond 127.0.0.1.

    Args:
        master: Spark master URL.
        is_small: Whether the driver, which reads and writes itself on one machine, ends soon.
    """
    log_settings = f"-Dlog4j2.configurationFile=file:{Path(application()).parent}/log4j2.properties"
    if not master.startswith("local"):
        return {"spark.driver.extraJavaOptions": log_settings}
    options = f"{log_settings} {_QUICK_START}" if is_small else log_settings
    return {**_LOCAL, "spark.driver.extraJavaOptions": options}


def environment(master: str) -> dict[str, str]:
    """Variables that spark-submit needs on this machine."""
    variables = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}
    if master.startswith("local"):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


@cache
def package_zip() -> str:
    """The package as one zip for `--py-files`, named by its content."""
    package = Path(__file__).parents[1]
    sources = sorted(package.rglob("*.py"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(str(source.relative_to(package)).encode() + b"\0" + source.read_bytes())
    target = cache_folder() / "packages" / f"tideline-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for source in sources:
                archive.write(source, Path("tideline", source.relative_to(package)))
        draft.replace(target)
    return str(target)


class SparkSubmit:
    """Runs the application through spark-submit in a process of its own.

    Args:
        master: Spark master URL.
    """

    def __init__(self, master: str) -> None:
        self._master = master

    def submit(self, job_path: str) -> None:
        """Run it to its end; its output goes to standard error.

        Raises:
            ServiceAway: It could not be started, or ended with another status than 0.
        """
        settings = configuration(self._master, is_small=is_small(job_path))
        command = submit_command(self._master, settings, application(), job_path)
        variables = {**os.environ, **environment(self._master)}
        try:
            done = subprocess.run(command, env=variables, stdout=sys.stderr.fileno(), check=False)
        except OSError as error:
            raise ServiceAway(f"spark-submit cannot be started: {error}") from error
        if done.returncode != 0:
            raise ServiceAway(f"spark-submit ended with status {done.returncode}; see its output")


def submit_command(master: str, settings: Mapping[str, str], *what: str) -> Sequence[str]:
    """The command line, with our jars and package.

    Args:
        master: Spark master URL.
        settings: Spark properties.
        what: Options of this application, the application and its arguments.
    """
    jars = ",".join(str(jar) for jar in spark_jars())
    return [
        _spark_submit(),
        *("--master", master),
        *(("--jars", jars) if jars else ()),
        *("--py-files", package_zip()),
        *(part for item in settings.items() for part in ("--conf", "=".join(item))),
        *what,
    ]


def _spark_submit() -> str:
    beside = Path(sys.executable).parent / "spark-submit"
    return str(beside) if beside.exists() else shutil.which("spark-submit") or "spark-submit"
