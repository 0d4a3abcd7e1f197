"""Compile Tideline's commit protocol for Spark into a jar (ADR 28), once, at setup.

pyspark contains a Java compiler, Janino: so a Java runtime is enough. The jar's name stands for its
source.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tideline.errors import BadInput
from tideline.launch.java import find_java

SOURCE = Path(__file__).parents[1] / "spark" / "committer" / "ManifestCommitProtocol.java"
PREFIX = "tideline-committer-"
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def committer_jar(folder: Path) -> Path:
    """The jar in a folder; it may be missing there.

    Args:
        folder: Holds the jars that Spark is given.
    """
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    return folder / f"{PREFIX}{digest}.jar"


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
        jars = sorted(map(str, spark_jars.glob("*.jar")))
        command: list[str | Path] = [find_java().binary, "-cp", f"{spark_jars}/*", _COMPILER]
        command += ["-d", classes, "-classpath", os.pathsep.join(jars), SOURCE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = sorted(classes.rglob("*.class"))
        if done.returncode != 0 or not made:
            raise BadInput(
                f"{SOURCE} does not compile with the Spark in {spark_jars}; `make setup` installs"
                f" the pinned pyspark:\n{done.stdout}{done.stderr}"
            )
        with zipfile.ZipFile(draft, "w") as archive:  # the same bytes each time
            for file in made:
                entry = zipfile.ZipInfo(str(file.relative_to(classes)), _LONG_AGO)
                archive.writestr(entry, file.read_bytes())
        draft.chmod(0o644)
        draft.replace(jar)
