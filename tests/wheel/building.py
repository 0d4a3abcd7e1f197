"""Wheels: of this checkout, and of the version before it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PREVIOUS = "0.1.0"
_FOLDERS = ("plugins", "spark_jobs")
_FILES = (
    *("pyproject.toml", "LICENSE", "docs/install.md", "docs/stream.schema.json"),
    "docs/incidents-and-errors.md",
)
_BUILD = "from setuptools.build_meta import build_wheel; build_wheel('dist')"


@dataclass(frozen=True, slots=True)
class Previous:
    """An earlier version.

    Args:
        wheel: Its wheel.
        spark_jobs: Its Spark applications, which its wheel lacks.
    """

    wheel: Path
    spark_jobs: Path


def build_wheel(folder: Path) -> Path:
    """A wheel of a copy of the checkout: setuptools leaves files in its way.

    Args:
        folder: For the copy; created.
    """
    for name in _FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in _FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return _built(folder)


def previous(folder: Path) -> Previous:
    """The version before this one (tests/data/versions).

    Args:
        folder: For its files; created.
    """
    with tarfile.open(ROOT / f"tests/data/versions/tideline-{PREVIOUS}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return Previous(_built(folder), folder / "spark_jobs")


def _built(folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("dist/*.whl")
    return built
