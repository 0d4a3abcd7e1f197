"""Apicurio's program, fetched once into the cache beside the jars, and never during a test.

And its converter for Kafka Connect, which `make test-cdc` fetches when it is first needed.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from tideline.errors import BadInput, TidelineError
from tideline.launch.jars import AS_THEY_ARE, retrieve
from tideline.launch.runtime import cache_folder, refuse_foreign
from tideline.versions import CONVERTER, CONVERTER_SHA256, REGISTRY, REGISTRY_SHA256


def registry_jar() -> Path:
    """The jar that starts the registry.

    Raises:
        BadInput: The program has not been fetched yet.
    """
    jars = sorted(_folder().glob("*-runner.jar"))
    if not jars:
        raise BadInput(f"no registry in {_folder()}; `make setup-tests` fetches it once")
    refuse_foreign(jars[0])
    return jars[0]


def fetch_registry() -> Path:
    """The jar that starts the registry; the program is fetched if it is not in the cache.

    Raises:
        ServiceAway: Maven Central cannot be reached.
        BadInput: What came is not the program that is pinned.
    """
    _fetched(_folder(), REGISTRY, REGISTRY_SHA256, ' m:classifier="all"')
    return registry_jar()


def converter_jars() -> list[Path]:
    """The jars of Apicurio's converter for Kafka Connect that Connect does not have itself.

    Raises:
        ServiceAway: Maven Central cannot be reached.
        BadInput: What came is not the program that is pinned.
    """
    folder = _folder("converter", CONVERTER_SHA256)
    _fetched(folder, CONVERTER, CONVERTER_SHA256)
    jars = [jar for jar in sorted(folder.rglob("*.jar")) if not jar.name.startswith(_CONNECT_HAS)]
    for jar in jars:
        refuse_foreign(jar)
    return jars


_CONNECT_HAS = ("jackson-", "slf4j-", "connect-", "kafka-clients-")


def _folder(name: str = "registry", digest: str = REGISTRY_SHA256) -> Path:
    return cache_folder() / "jars" / f"{name}-{digest[:12]}"


def _fetched(folder: Path, wanted: tuple[str, str, str], digest: str, more: str = "") -> None:
    """Fetch an archive and unpack it, unless its folder is there."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            print(f"fetching {wanted[1]} into {folder}", file=sys.stderr)
            _fetch(folder, wanted, digest, more)


def _fetch(folder: Path, wanted: tuple[str, str, str], expected: str, more: str) -> None:
    organisation, name, revision = wanted
    # Its description names a parent that Maven Central does not have, so it must not be read.
    module = (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        f'<info organisation="tideline" module="{name}"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        f'<dependency org="{organisation}" name="{name}" rev="{revision}" transitive="false"'
        f' conf="default->default"><artifact name="{name}" type="tar.gz" ext="tar.gz"{more}/>'
        "</dependency></dependencies></ivy-module>"
    )
    with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
        scratch = Path(draft)
        names = "[artifact].[ext]"
        retrieve(module, scratch / "in", ("tar.gz",), scratch, AS_THEY_ARE, names)
        (archive,) = (scratch / "in").iterdir()
        with open(archive, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != expected:
            raise BadInput(
                f"{archive.name} has SHA-256 {digest}, expected {expected}: the download is"
                " damaged or is another one; run again, or look at what your Maven mirror serves"
            )
        shutil.unpack_archive(archive, scratch / "out")
        # A copy is ours; what root unpacks belongs to whom the archive says.
        shutil.copytree(scratch / "out", scratch / "ours")
        shutil.move(scratch / "ours", folder)


if __name__ == "__main__":
    try:
        fetch_registry()
    except TidelineError as error:
        sys.exit(f"{error}")
