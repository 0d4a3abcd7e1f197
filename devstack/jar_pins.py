"""Pin every jar that is fetched: coordinate and SHA-256, as Maven Central serves it now.

Usage: python -m devstack.jar_pins, as `make pins` does, after a change of versions.py. Here alone
Ivy resolves what needs what. Look at the difference before you commit it: a jar whose version is
the same must keep its sum.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tideline.errors import BadInput
from tideline.launch.jars import MANIFEST, TYPES, digest_of_file, module_of, retrieve
from tideline.versions import JAR_SETS

_NAMES = "[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"


def pin() -> None:
    """Write the manifest.

    Raises:
        ServiceAway: Maven Central cannot be reached.
        BadInput: A jar has another name than its coordinate says, so no coordinate leads to it.
    """
    lines = []
    with tempfile.TemporaryDirectory() as place:
        for name, (wanted, excludes) in JAR_SETS.items():
            jars = Path(place, name)
            module = module_of(name, wanted, excludes)
            retrieve(module, jars, TYPES, Path(place), names=_NAMES)
            lines += sorted((line_of(name, jar) for jar in jars.rglob("*.jar")), key=_path)
    MANIFEST.write_text("\n".join(lines) + "\n")


def line_of(name: str, jar: Path) -> str:
    """A line of the manifest.

    Args:
        name: Of the set.
        jar: Lies in folders of organisation, module and version.

    Raises:
        BadInput: It has another name than its module.
    """
    organisation, module, version = jar.parts[-4:-1]
    named, found, classifier = jar.stem.partition(f"{module}-{version}")
    if named or not found or (classifier and not classifier.startswith("-")):
        raise BadInput(f"{jar.name}: expected {module}-{version}.jar, as its coordinate says")
    coordinate = ":".join(filter(None, (organisation, module, version, classifier[1:])))
    return f"{digest_of_file(jar)}  {name}/{jar.name}  {coordinate}"


def _path(line: str) -> str:
    return line.split("  ")[1]


if __name__ == "__main__":
    pin()
