"""Which jar an executor's JVM has loaded lz4 from, in its own words."""

from __future__ import annotations

from pathlib import Path

_NAME = "classes-{}.log"
_LOADED = "net.jpountz.lz4.LZ4Factory source:"


def log_of_classes(folder: Path | str) -> dict[str, str]:
    """Spark properties with which executors write down the classes that they load.

    Args:
        folder: For the logs, which may have some from before; `.` for each executor's own.
    """
    log = f"{folder}/{_NAME.format('%p')}"
    return {
        "spark.executorEnv.JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={log}",
        "spark.io.compression.codec": "zstd",  # Spark's own messages would load its own lz4
    }


def lz4_jars(*folders: Path) -> set[str]:
    """The jars that the class is from which reads what producers have compressed with lz4."""
    logs = (log for folder in folders for log in folder.rglob(_NAME.format("*")))
    lines = (line for log in logs for line in log.read_text().splitlines())
    return {line.rpartition("/")[2] for line in lines if _LOADED in line}
