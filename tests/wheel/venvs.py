"""Virtual environments that know nothing of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

from tests.wheel.building import ROOT

LOCK = ROOT / "requirements.txt"
_BREAKING = {"3.2.0": ("fastapi<0.130",)}
"""What an older Airflow allows and does not work with: with FastAPI 0.165, 3.2.0 runs no task."""
_SITE = "lib/python*/site-packages"
_KEPT = ("HOME", "JAVA_HOME", "LANG", "SSL_CERT_FILE", "TMPDIR")


class Venv:
    """A virtual environment, and a folder to work in.

    Args:
        folder: Of the environment.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.home = folder.parent / "home"
        self.home.mkdir()

    @classmethod
    def beside(cls, folder: Path) -> Venv:
        """One with links to every package of this process's environment but Tideline."""
        venv.create(folder, symlinks=True)
        (site,) = folder.glob(_SITE)
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if "tideline" in entry.name or entry.name == "__pycache__":
                continue
            if entry.suffix == ".dist-info":  # uv does not see a link to one
                shutil.copytree(entry, site / entry.name)
            else:
                (site / entry.name).symlink_to(entry)
        return cls(folder)

    @classmethod
    def fresh(cls, folder: Path, python: str) -> Venv:
        """An empty one.

        Args:
            folder: Created.
            python: `3.13`, or the path of an interpreter.
        """
        _uv("venv", "--quiet", "--python", _interpreter(python), folder)
        return cls(folder)

    def install(self, *arguments: str | Path) -> None:
        """Let uv install what `uv pip install` is told."""
        _uv("pip", "install", "--quiet", "--python", self.python, *arguments)

    def check(self) -> None:
        """Hold what is installed against what each package asks for.

        Raises:
            AssertionError: A package is missing, or has another version.
        """
        _uv("pip", "check", "--quiet", "--python", self.python)

    def version(self, package: str) -> str:
        """The version that is installed."""
        (found,) = distributions(name=package, path=[*map(str, self.folder.glob(_SITE))])
        return found.version

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of its programs, without this process's settings.

        Args:
            more: More variables.
        """
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        path = f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**kept, "PATH": path, "AIRFLOW_HOME": str(self.home), **(more or {})}

    def run(
        self, *arguments: object, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run its Python far from the checkout, with none of this process's settings.

        Args:
            arguments: Of Python.
            env: More environment variables.
        """
        return subprocess.run(
            [self.python, *map(str, arguments)],
            env=self.variables(env),
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )


def _interpreter(wanted: str) -> Path:
    """A Python of this machine, by its version or its path.

    uv gives up at the first one on PATH that does not run, as pyenv's do that nobody has chosen.
    """
    if os.sep in wanted:
        return Path(wanted)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = [Path(folder, f"python{wanted}") for folder in os.get_exec_path()]
    for found in (*on_path, *sorted(pyenv.glob(f"versions/{wanted}.*/bin/python"))):
        tried = found.exists() and subprocess.run([found, "--version"], capture_output=True)
        if tried and tried.returncode == 0:
            return found
    raise AssertionError(f"no Python {wanted} on PATH or in {pyenv}; --python takes a path too")


def constraints(airflow: str, folder: Path) -> Path:
    """Constraints for an Airflow: the lock, where it is for this one; otherwise what it breaks of.

    Airflow has constraints for each of its versions, but not on a package index.

    Args:
        airflow: Its version.
        folder: For a file.
    """
    if f"\napache-airflow=={airflow} " in LOCK.read_text():
        return LOCK
    own = folder / "constraints.txt"
    own.write_text("".join(f"{line}\n" for line in _BREAKING.get(airflow, ())))
    return own


def _uv(*arguments: str | Path) -> None:
    command: Sequence[str | Path] = [Path(sys.executable).with_name("uv"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
