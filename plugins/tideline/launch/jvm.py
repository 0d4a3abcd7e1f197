"""The JVM of a Spark driver on this machine, started without spark-submit.

spark-submit is a shell script that starts a JVM, which works out the command of the driver's JVM.
On one machine that command is known. Started directly, the class path is the same each time,
which class-data sharing asks for (`launch.archive`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tideline.launch.jars import ahead_of_spark, spark_jars
from tideline.launch.java import Java, find_java

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


def class_path(*, s3a: bool = False) -> list[Path]:
    """Spark's jars and ours, in the same order each time; first what stands in for Spark's.

    Args:
        s3a: Whether tables are in an object store.

    Raises:
        BadInput: Our jars have not been fetched yet.
    """
    ours = spark_jars(s3a=s3a)
    first = ahead_of_spark(ours)
    last = [jar for jar in ours if jar not in first]
    return [*first, *sorted((spark_home() / "jars").glob("*.jar")), *last]


def base_command(java: Java, *, s3a: bool = False) -> list[str]:
    """The JVM with Spark's options and class path; archive, properties and class come behind it.

    Args:
        java: Which one.
        s3a: Whether tables are in an object store.
    """
    jars = ":".join(map(str, class_path(s3a=s3a)))
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
