"""Tideline in a folder that only its owner can enter, as a machine of its own would have it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from devstack.command_line import ROOT
from tideline.launch.jars import spark_jars
from tideline.launch.jvm import spark_home


class Installed:
    """A copy of package, applications and jars.

    Args:
        folder: A private one; created if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for name in ("plugins", "spark_jobs"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        (folder / "jars").mkdir()
        for jar in spark_jars("s3a"):
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

    def change_committer(self, old: str, new: str) -> None:
        """Replace a text of the commit protocol's source, as another version has it."""
        source = self.folder / "plugins/tideline/spark/java/ManifestCommitProtocol.java"
        text = source.read_text()
        assert old in text
        source.write_text(text.replace(old, new))

    def build_jar(self) -> None:
        """Compile the commit protocol beside the jars that are there, as an upgrade does."""
        code = (
            "import pathlib, sys; from tideline.launch.java import build_jar;"
            "build_jar(*map(pathlib.Path, sys.argv[1:]))"
        )
        jars = (self.folder / "jars", spark_home() / "jars")
        variables = {**os.environ, **self.variables}
        subprocess.run([sys.executable, "-c", code, *jars], env=variables, check=True)
