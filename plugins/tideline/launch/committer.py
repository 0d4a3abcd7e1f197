"""Compile Tideline's commit protocol for Spark into a jar (ADR 28), once, at setup.

pyspark contains a Java compiler, Janino: so a Java runtime is enough. The names of jar and class
stand for the source: a Spark that has another version's jar among its own ones does not take it.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import subprocess
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from tideline.errors import BadInput
from tideline.launch.environment import spark_variables
from tideline.launch.java import find_java

PREFIX = "tideline-committer-"
_CLASS = "ManifestCommitProtocol"
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def committer_class() -> str:
    """Full name of the class."""
    return f"tideline.spark.{_class()}"


def committer_jar(folder: Path) -> Path:
    """The jar in a folder; it may be missing there.

    Args:
        folder: Holds the jars that Spark is given.
    """
    return folder / f"{PREFIX}{_digest()}.jar"


@cache
def _source() -> str:
    """The source; on a cluster the package is a zip."""
    found = pkgutil.get_data("tideline", f"spark/committer/{_CLASS}.java")
    assert found is not None
    return found.decode()


def _digest() -> str:
    return hashlib.sha256(_source().encode()).hexdigest()[:12]


def _class() -> str:
    return f"{_CLASS}_{_digest()}"


def build_committer(folder: Path, spark_jars: Path) -> None:
    """Compile the jar into a folder, unless it is there.

    Args:
        folder: Holds the jars that Spark is given.
        spark_jars: pyspark's own jars, with Spark and the compiler.

    Raises:
        BadInput: There is no Java, or the source does not compile with this Spark.
    """
    jar = committer_jar(folder)
    if jar.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as name:
        classes, draft = Path(name, "classes"), Path(name, "draft.jar")
        classes.mkdir()
        source = Path(name, f"{_class()}.java")
        source.write_text(_source().replace(_CLASS, _class()))
        jars = sorted(map(str, spark_jars.glob("*.jar")))
        command: list[str | Path] = [find_java().binary, "-cp", f"{spark_jars}/*", _COMPILER]
        command += ["-d", classes, "-classpath", os.pathsep.join(jars), source]
        variables = spark_variables(os.environ)
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        made = sorted(classes.rglob("*.class"))
        if done.returncode != 0 or not made:
            raise BadInput(
                f"{_CLASS}.java does not compile with the Spark in {spark_jars}; `make setup`"
                f" installs the pinned pyspark:\n{done.stdout}{done.stderr}"
            )
        with zipfile.ZipFile(draft, "w") as archive:  # the same bytes each time
            for file in made:
                entry = zipfile.ZipInfo(str(file.relative_to(classes)), _LONG_AGO)
                archive.writestr(entry, file.read_bytes())
        draft.chmod(0o644)
        draft.replace(jar)
