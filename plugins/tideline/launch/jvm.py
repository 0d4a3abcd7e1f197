"""The JVM of a Spark driver on this machine, started without spark-submit, and its class archive.

spark-submit is a shell script that starts a JVM, which works out the command of the driver's JVM.
On one machine that command is known. Started directly, the class path is the same each time,
which class-data sharing asks for.

Loading classes takes most of Spark's start. An archive has them parsed and checked; JVMs with the
same Java, jars and options map it into memory ("Class Data Sharing" in Oracle's guide to the Java
virtual machine). Which classes those are comes with the package (`CLASSES`), so `tideline fetch`
and `make setup` write the archive before the first run. Where nobody did, the first driver notes
what it loads besides, and writes the archive when it ends. A JVM that finds that an archive does
not fit goes on without it.

Usage: python -m tideline.launch.jvm    writes the archive, unless it is there
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import lzma
import os
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, SubprocessError

from tideline.children import ROOT, run
from tideline.errors import BadInput
from tideline.launch.jars import ahead_of_spark, spark_jars
from tideline.launch.java import Java, find_java
from tideline.launch.programs import spark_variables
from tideline.launch.progress import working
from tideline.launch.runtime import cache_folder, foreign, own_folder
from tideline.model.addresses import StoreKind

GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
"""Opens a port for PySpark, says which, and ends when its standard input does."""

_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark 4.0 gives every JVM (`org.apache.spark.launcher.JavaModuleOptions`)."""

_HEAP = (
    *("-Xmx1g", "-Xmn340m", "-XX:+UseSerialGC"),
    *("-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=30"),
)
"""Spark's default heap, its young part as large as it could become from the start: with what a
small one let survive, collecting took a fifth of a large job. The old part is given back when
little of it is used: the driver is kept."""
_COMPILERS = ("-XX:CompileThresholdScaling=5",)
"""Code is compiled later than usual: starting Spark runs much code a few hundred times only. With
the quick compiler alone a small job took less, but three million records took half as long again.
"""
_DEATH = ("-XX:+ExitOnOutOfMemoryError", "-XX:+ErrorFileToStderr", "-XX:-CreateCoredumpOnCrash")
"""A driver that has run out of memory is not kept. A crash is told in its log, and leaves no file.
"""

_OVERRIDES = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_SUBMIT_OPTS",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)


def is_local(master: str) -> bool:
    """Whether driver and executors are one JVM; `local-cluster[...]` starts others."""
    return master == "local" or master.startswith("local[")


def is_plain() -> bool:
    """Whether Spark is pyspark's own, and nobody has set it up: then its JVM's command is known.

    Everything else is left to spark-submit, which reads those files and variables.
    """
    return not any(os.environ.get(name) for name in _OVERRIDES) and not any(
        (spark_home() / "conf" / name).exists() for name in ("spark-defaults.conf", "spark-env.sh")
    )


def spark_home() -> Path:
    """The folder of pyspark, found without importing it."""
    from importlib.util import find_spec

    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def class_path(store: StoreKind | None = None) -> list[Path]:
    """Spark's jars and ours, in the same order each time; first what stands in for Spark's.

    Args:
        store: The object store that tables are in; None for file systems.

    Raises:
        BadInput: Our jars have not been fetched yet.
    """
    ours = spark_jars(store)
    first = ahead_of_spark(ours)
    last = [jar for jar in ours if jar not in first]
    return [*first, *_sparks_own(), *last]


def _sparks_own() -> list[Path]:
    """Spark's jars but for MLlib, which nothing here uses.

    That one has each session load the functions of its own (`SparkSessionExtensionsProvider`), by
    Scala's reflection, which takes a second.
    """
    found = (spark_home() / "jars").glob("*.jar")
    return sorted(jar for jar in found if not jar.name.startswith("spark-mllib_"))


def base_command(
    java: Java, store: StoreKind | None = None, *, is_plain: bool = False
) -> list[str]:
    """The JVM with Spark's options and class path; archive, properties and class come behind it.

    Args:
        java: Which one.
        store: The object store that tables are in; None for file systems.
        is_plain: Whether it has Spark's jars alone.
    """
    jars = ":".join(map(str, _sparks_own() if is_plain else class_path(store)))
    modules = [o for o in MODULES if not (java.brings_own_trust and o.startswith("--add-modules"))]
    return [str(java.binary), "-cp", jars, *_HEAP, *_COMPILERS, *_DEATH, *modules]


def gateway_command(
    base: Sequence[str], archive: Sequence[str], properties: Mapping[str, str]
) -> list[str]:
    """The command of a driver's JVM.

    Args:
        base: Of `base_command`.
        archive: Options for class-data sharing.
        properties: Spark's and other system properties.
    """
    return [*base, *archive, *(f"-D{k}={v}" for k, v in properties.items()), GATEWAY]


def gateway_environment(connection_file: Path) -> dict[str, str]:
    """Variables of the driver's JVM, besides this process's.

    Args:
        connection_file: The JVM writes port and secret of its gateway there.
    """
    return {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file),
    }


CLASSES = Path(__file__).with_name("spark-classes.xz")
"""The classes that a driver loads which lands, decodes every format, and folds: `make classes`."""
_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:class+path=off")
_UNUSED_SECONDS = 14 * 86_400
_WRITING_SECONDS = 900
_SAID = 500
"""Bytes of what a JVM says that could not write."""


class ClassArchive:
    """The archive for one command of a JVM.

    Args:
        command: Java, class path and options. The archive's name is made of them and of each
            file's size and time, which the JVM checks as well.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self.path = cache_folder() / "archives" / f"spark-{files_digest(command)}.jsa"
        self._classes = self.path.with_suffix(f".{uuid.uuid4().hex}.classes")

    def options(self) -> list[str]:
        """Options of a JVM: use the archive, or else note the classes for it.

        None of both where somebody else could have written the archive.
        """
        if foreign(self.path) is not None:
            return []
        if self.path.exists():
            with suppress(OSError):
                os.utime(self.path)  # `_drop_unused` looks at it
            return [f"-XX:SharedArchiveFile={self.path}", *_QUIET]
        try:
            own_folder("archives")
            self._classes.touch(mode=0o600, exist_ok=False)
        except (OSError, BadInput):
            return []  # a cache that nobody can write, or everybody
        return [f"-XX:DumpLoadedClassList={self._classes}", *_QUIET]

    def prepare(self) -> None:
        """Write the archive before any JVM has noted something, unless it is there."""
        if not self.path.exists() and self.options():
            with working("writing the archive of Spark's classes, about half a minute"):
                self.write()

    def write(self) -> None:
        """Write the archive of `CLASSES`, and of what a JVM with `options` has noted until its end.

        Does nothing if it has noted nothing, or if the archive cannot be written: that costs time
        only. Takes about half a minute of a processor.
        """
        if not self._classes.exists():
            return
        try:
            with suppress(OSError), open(self.path.parent / "lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # or somebody else writes it now
                if not self.path.exists():
                    self._dump()
        finally:
            self.forget()

    def discard(self) -> None:
        """Remove an archive with which a JVM has crashed: it would stop all that come after."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Remove what the JVM has noted."""
        with suppress(OSError):
            self._classes.unlink(missing_ok=True)

    def _dump(self) -> None:
        """Write it; called with the lock, so drafts that lie there are of writers that died."""
        for left in self.path.parent.glob("spark-*.draft"):
            left.unlink(missing_ok=True)
        draft = self._classes.with_suffix(".draft")
        java, *options = self._command
        noted = self._classes.read_text().splitlines()
        known = lzma.decompress(CLASSES.read_bytes()).decode().splitlines()
        self._classes.write_text("\n".join([*noted, *classes_not_noted(noted, known), ""]))
        dump = [java, "-Xshare:dump", f"-XX:SharedArchiveFile={draft}", *options, *_QUIET[1:]]
        try:
            run(
                [*dump, f"-XX:SharedClassListFile={self._classes}"],
                spark_variables(os.environ),
                ROOT,
                check=True,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=PIPE,
                timeout=_WRITING_SECONDS,
            )
            draft.replace(self.path)
            _drop_unused(self.path.parent)
        except (OSError, SubprocessError) as error:
            output = (getattr(error, "stderr", None) or str(error).encode())[-_SAID:]
            print(f"no class archive: {output.decode(errors='replace')}", flush=True)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def classes_not_noted(noted: Iterable[str], known: Iterable[str]) -> list[str]:
    """The known classes that a JVM has not noted; a line of a JVM's list begins with the name."""
    names = {line.partition(" ")[0] if line[:1] != "@" else line for line in noted}
    return [line for line in known if line not in names]


def files_digest(command: Sequence[str]) -> str:
    """Stands for a JVM's command, and for the content of its Java and jars."""
    digest = hashlib.sha256("\0".join(command).encode())
    for file in (os.path.realpath(command[0]), *command[command.index("-cp") + 1].split(":")):
        found = os.stat(file)
        digest.update(f"{file}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _drop_unused(folder: Path) -> None:
    """Remove what no JVM has used for two weeks: archives of old jars, notes of killed drivers."""
    for file in folder.glob("spark-*"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _UNUSED_SECONDS:
                file.unlink()


def prepare_archives(stores: Iterable[StoreKind] = ()) -> None:
    """Write the archives for drivers of this machine; those that are there stay.

    Args:
        stores: For drivers that reach these object stores; without one, for those of file systems.
    """
    if is_plain():
        for store in tuple(stores) or (None,):
            ClassArchive(base_command(find_java(), store)).prepare()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    prepare_archives()
