"""spark-submit: what it is given, as data, and a child process that never outlives its wait."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from subprocess import Popen
from typing import IO

from tideline.children import start
from tideline.errors import ServiceAway
from tideline.launch.jars import ahead_of_spark, spark_jars
from tideline.launch.java import find_java
from tideline.launch.job import read_job
from tideline.launch.jvm import is_local, spark_home
from tideline.launch.programs import (
    ASKING,
    LOCAL,
    application,
    application_for,
    digest_of,
    log_settings,
    spark_variables,
)
from tideline.launch.runtime import (
    SPILLS,
    PrivateFolder,
    own_folder,
    refuse_foreign,
    replaced,
)
from tideline.launch.target import SPARK_SUBMIT, Target
from tideline.model.spark_job import SparkJob
from tideline.store.google import with_key_file
from tideline.store.store_settings import StoreSettings

log = logging.getLogger("tideline")

_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM options for a short job: starting takes most of its time, so compile once and quickly."""
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
DRIVER_PATH, _EXECUTOR_PATH = "spark.driver.extraClassPath", "spark.executor.extraClassPath"
_OWN_FIRST = "spark.executor.userClassPathFirst"
DRIVER_PYTHON = "spark.pyspark.driver.python"
_HAVE_JARS = ("local", "yarn")
"""Masters whose executors have the jars of `--jars` when they start."""
_MANY = 1_000_000
"""Offsets; from here on the optimizing compiler pays."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What spark-submit is given; data only, so that Airflow's operator can run it as well.

    Args:
        master: Spark master URL.
        application: Path of a Python file or a jar, or `spark-internal`.
        arguments: The application's own arguments.
        jars: Paths of jars for driver and executors.
        py_files: Paths for `--py-files`.
        conf: Spark properties.
        environment: Variables that spark-submit needs besides what it gets of this process's.
        store: How the object store is reached that holds the tables, with its secrets; None for
            file systems.
        java_class: Main class; None for a Python application.
        is_default_master: Whether no connection names the master.
        binary: Name of the command; Airflow's operator takes it from the connection, as well as
            the options.
        options: More options of the command, by name.
        properties_file: With Spark properties that are secret, and the site's own; empty for none.
    """

    master: str
    application: str
    arguments: tuple[str, ...]
    jars: tuple[str, ...]
    py_files: tuple[str, ...]
    conf: Mapping[str, str]
    environment: Mapping[str, str]
    java_class: str | None = None
    is_default_master: bool = False
    store: StoreSettings | None = None
    binary: str = SPARK_SUBMIT
    options: Mapping[str, str] = field(default_factory=dict)
    properties_file: str = ""


def job_submission(target: Target, job_path: str, store: StoreSettings | None = None) -> Submission:
    """The application that a job file is for, on that file, with a driver on this machine.

    Args:
        job_path: Path of the job file; into its folder come a keytab, and the driver's blocks
            unless the site says where.
        store: How the object store is reached that holds the tables; None for file systems.
    """
    conf = {**configuration(target.master, is_small=is_small(job_path)), **target.conf}
    program = application(application_for(job_path))
    submission = build_submission(target.master, conf, program, job_path, store=store)
    return replace(
        submission,
        environment={**_spills(Path(job_path).parent), **submission.environment},
        is_default_master=target.is_default,
        binary=target.binary,
        options=target.options_with_files(Path(job_path).parent),
    )


def _spills(folder: Path) -> dict[str, str]:
    has_place = os.environ.get(SPILLS) or "spark.local.dir" in site_properties()
    return {} if has_place else {SPILLS: str(folder)}


def build_submission(
    master: str,
    conf: Mapping[str, str],
    application: str,
    *arguments: str,
    java_class: str | None = None,
    store: StoreSettings | None = None,
) -> Submission:
    """A submission with our jars and our package.

    Args:
        application: Path of a Python file or a jar, or `spark-internal` for a class of Spark.
        java_class: Main class; None for a Python application.
        store: How the object store is reached; None for file systems.
    """
    jars = spark_jars(None if store is None else store.kind)
    return Submission(
        master=master,
        application=application,
        arguments=arguments,
        jars=tuple(map(str, jars)),
        py_files=(package_zip(),),
        conf={**class_paths(jars, master), **conf},
        environment=environment(master),
        java_class=java_class,
        store=store,
    )


def is_small(job_path: str) -> bool:
    """Whether starting Spark will be most of a job's time."""
    job = read_job(job_path)
    ranges = job.ranges if isinstance(job, SparkJob) else job.plan.ranges
    return sum(len(planned.offsets) for planned in ranges) < _MANY


def configuration(master: str, *, is_small: bool) -> dict[str, str]:
    """Spark properties for a master; on one machine nothing listens beyond 127.0.0.1.

    What the site's `spark-defaults.conf` says about authentication and encryption holds.

    Args:
        is_small: Whether the job is short; on one machine the driver does all the work itself.
    """
    driver = _java_options(log_settings())
    if not master.startswith("local"):
        return {
            DRIVER_OPTIONS: driver,
            DRIVER_PYTHON: sys.executable,  # what the executors' machines have is theirs
        }
    site = site_properties()
    asking = ASKING if is_local(master) else {}  # several JVMs need a secret of the site's
    asking = {key: value for key, value in asking.items() if key not in site}
    return {**LOCAL, **asking, DRIVER_OPTIONS: f"{driver} {_QUICK_START}" if is_small else driver}


def _java_options(properties: Mapping[str, str]) -> str:
    return " ".join(f"-D{name}={value}" for name, value in properties.items())


def class_paths(jars: Sequence[Path], master: str = "local") -> dict[str, str]:
    """Spark properties that put jars of ours ahead of Spark's own, and the site's behind them.

    The driver's on this machine names no file of a folder that it stands in.
    A container of YARN has them in its folder before its JVM starts. Other executors fetch them
    afterwards, when a class path is no longer looked at: they are told to look there first.

    Args:
        jars: Those that Spark is given by `--jars`.
    """
    first = ahead_of_spark(jars)
    if not first:
        return {}
    site, here, there = site_properties(), [*map(str, first)], [jar.name for jar in first]
    found = {
        key: os.pathsep.join(filter(None, (*places, site.get(key))))
        for key, places in ((DRIVER_PATH, here), (_EXECUTOR_PATH, [*here, *there]))
    }
    if not master.startswith(_HAVE_JARS):
        found[_OWN_FIRST] = site.get(_OWN_FIRST, "true")
    return found


def site_properties() -> dict[str, str]:
    """What the site's `spark-defaults.conf` says; empty where there is none."""
    lines = map(str.strip, defaults_file().splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def defaults_file() -> str:
    """The content of `spark-defaults.conf`; empty where there is none."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(spark_folder(), "conf"))
    try:
        return (folder / "spark-defaults.conf").read_text()
    except FileNotFoundError:
        return ""


def spark_folder() -> str:
    """Where Spark is: the site's own, or else pyspark's."""
    return os.environ.get("SPARK_HOME") or str(spark_home())


def environment(master: str) -> dict[str, str]:
    """Variables that spark-submit needs on this machine."""
    scripts = Path(sys.executable).parent  # pyspark's spark-submit lies beside the interpreter
    variables = {
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "JAVA_HOME": str(find_java().home),
    }
    if master.startswith("local"):
        return {**variables, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    executors = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return {**variables, "PYSPARK_PYTHON": executors, "PYSPARK_DRIVER_PYTHON": sys.executable}


@cache
def package_zip() -> str:
    """The package as one zip for `--py-files`, named by its content.

    Raises:
        BadInput: The one in the cache could be somebody else's.
    """
    package = Path(__file__).parents[1]
    sources = sorted(file for kind in ("*.py", "*.java") for file in package.rglob(kind))
    target = own_folder("packages") / f"tideline-{digest_of(package, sources)}.zip"
    if not target.exists():
        with (
            replaced(target) as draft,
            zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for source in sources:
                archive.write(source, Path("tideline", source.relative_to(package)))
    refuse_foreign(target)
    return str(target)


@contextmanager
def submission_variables(
    submission: Submission, variables: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """What spark-submit's process gets, secrets of the store included, for a block.

    Args:
        variables: Of this process, those that it gets as well.
    """
    wanted = {**variables, **submission.environment}
    if submission.store is not None:
        wanted = submission.store.within(wanted)
    with PrivateFolder() as folder:
        yield with_key_file(wanted, folder)


class SparkSubmit:
    """Runs submissions by spark-submit in a child process."""

    def __init__(self) -> None:
        self._child = Child()

    def run(self, submission: Submission) -> None:
        """Run it to its end; its output goes to standard error.

        Raises:
            ServiceAway: It could not be started, or ended with another status than 0.
        """
        try:
            with submission_variables(submission, spark_variables(os.environ)) as variables:
                status = self._child.run(submit_command(submission), variables)
        except OSError as error:
            raise ServiceAway(f"spark-submit cannot be started: {error}") from error
        if status != 0:
            raise ServiceAway(f"spark-submit ended with status {status}; see its output")

    def stop(self) -> None:
        """End spark-submit, and with it a driver on this machine."""
        self._child.stop()


def submit_command(submission: Submission) -> Sequence[str]:
    """The command line of spark-submit, which is found by the submission's PATH."""
    options = {
        "--master": submission.master,
        **submission.options,
        "--properties-file": submission.properties_file,
        "--jars": ",".join(submission.jars),
        "--py-files": ",".join(submission.py_files),
        "--class": submission.java_class or "",
    }
    return [
        submission.binary,
        *(part for option, value in options.items() if value for part in (option, value)),
        *(part for item in submission.conf.items() for part in ("--conf", "=".join(item))),
        submission.application,
        *submission.arguments,
    ]


class Child:
    """One child process at a time."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command to its end.

        What it says goes to standard error: with `--verbose` at once, otherwise after its end, and
        only if it has failed. Spark's start says dozens of lines that nobody needs.

        Returns:
            The exit status; negative is the number of the signal that ended it.
        """
        with ExitStack() as after:
            kept: IO[bytes] | None = None
            if not log.isEnabledFor(logging.DEBUG):
                kept = after.enter_context(tempfile.TemporaryFile())
            output = sys.stderr.fileno() if kept is None else kept.fileno()
            folder = after.enter_context(PrivateFolder())
            self._process = start(command, environment, folder, stdout=output, stderr=output)
            try:
                status = self._process.wait()
            except BaseException:
                self._end()
                raise
            if kept is not None and status != 0:
                _say(kept)
            return status

    def _end(self) -> None:
        assert self._process is not None
        self.stop()
        self._process.wait()

    def stop(self) -> None:
        """Kill the process if it runs, without waiting: a signal handler may call this.

        A handler interrupts `run` while it holds the lock of `Popen.wait`: waiting here as well
        would never end.
        """
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


def _say(kept: IO[bytes]) -> None:
    """Copy what a child has said to standard error, which may be no file with a buffer.

    Where that takes nothing, the child's failure stays what it is.
    """
    kept.seek(0)
    with suppress(OSError), open(sys.stderr.fileno(), "wb", closefd=False) as errors:
        shutil.copyfileobj(kept, errors)
