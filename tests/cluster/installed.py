"""Tideline in a folder that only its owner can enter, as a machine of its own would have it."""

from __future__ import annotations

import shutil
from pathlib import Path

from devstack.command_line import ROOT
from tideline.launch.jars import spark_jars


class Installed:
    """A copy of package, applications and jars.

    Args:
        folder: A private one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for name in ("plugins", "spark_jobs"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        (folder / "jars").mkdir()
        for jar in spark_jars(s3a=True):
            shutil.copy(jar, folder / "jars")

    @property
    def variables(self) -> dict[str, str]:
        """Of a process that uses it."""
        return {
            "PYTHONPATH": str(self.folder / "plugins"),
            "TIDELINE_CACHE": str(self.folder / "cache"),
            "TIDELINE_SPARK_JARS": str(self.folder / "jars"),
            "TIDELINE_SPARK_JOBS": str(self.folder / "spark_jobs"),
            "TMPDIR": str(self.folder),
        }
