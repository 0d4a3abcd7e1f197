"""Where the Spark programs are, what stands for their text, and properties of every driver here.

A driver starts its JVM before it imports anything large, so nothing large is imported here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Properties of a driver on this machine: nothing listens beyond 127.0.0.1."""


def application() -> str:
    """Path of the Spark application: `TIDELINE_SPARK_JOBS`, else `spark_jobs/` beside plugins/."""
    folder = os.environ.get("TIDELINE_SPARK_JOBS")
    root = Path(folder) if folder else Path(__file__).parents[3] / "spark_jobs"
    return str(root / "ingest_range.py")


def log_settings() -> dict[str, str]:
    """The system property that makes a driver say warnings and worse only."""
    return {"log4j2.configurationFile": f"file:{Path(application()).parent}/log4j2.properties"}


def source_digest() -> str:
    """Stands for the package's and the application's text."""
    package, programs = Path(__file__).parents[1], Path(application()).parent
    both = (digest_of(folder, sorted(folder.rglob("*.py"))) for folder in (package, programs))
    return "-".join(both)


def digest_of(folder: Path, files: Sequence[Path]) -> str:
    """Stands for the names and the contents of files below a folder."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
