"""Pin every jar that is fetched: its SHA-256, as Maven Central serves it now.

Usage: python -m devstack.jar_pins, as `make pins` does, after a change of versions.py. Look at the
difference before you commit it: a jar whose version is the same must keep its sum.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tideline import versions as v
from tideline.launch.jars import MANIFEST, TYPES, Coordinate, digest_of_file, module_of, retrieve
from tideline.launch.runtime import own_folder

SETS: dict[str, tuple[Sequence[Coordinate], Sequence[str]]] = {
    "spark": (v.SPARK_JARS, v.SPARK_EXCLUDES),
    "s3a": (v.S3A_JARS, v.S3A_EXCLUDES),
    "delta": (v.DELTA_JARS, v.SPARK_EXCLUDES),
    "broker": (v.BROKER_JARS, v.BROKER_EXCLUDES),
    "bench": (v.BENCH_JARS, v.BROKER_EXCLUDES),
    "s3proxy": (v.S3PROXY_JARS, ()),
    "yarn": (v.YARN_JARS, v.YARN_EXCLUDES),
}


def pin() -> None:
    """Write the manifest.

    Raises:
        ServiceAway: Maven Central cannot be reached.
    """
    lines = []
    for name, (wanted, excludes) in SETS.items():
        with tempfile.TemporaryDirectory() as place:
            jars = Path(place, "jars")
            module = module_of(name, wanted, excludes)
            retrieve(module, jars, TYPES, Path(place), own_folder("ivy"))
            lines += [f"{digest_of_file(jar)}  {name}/{jar.name}" for jar in sorted(jars.iterdir())]
    MANIFEST.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    pin()
