"""Every package and jar that a run loads, by its package URL."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pyspark
from packageurl import PackageURL

from tideline.errors import BadInput
from tideline.launch.jars import digest_of_file, fetch_for_runs
from tideline.launch.java import PREFIX
from tideline.model.addresses import STORES

LOCK = Path(__file__).parents[2] / "requirements.txt"
_LICENSE_KEYS = ("License-Expression", "License")
_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")
_ORGANISATIONS = {
    "com.esotericsoftware": "objenesis",
    "com.fasterxml.jackson.module": "jackson-module-scala_2.13",
    "com.github.luben": "zstd-jni",
    "com.google.code.findbugs": "jsr305",
    "com.google.crypto.tink": "tink",
    "com.twitter": "chill-java chill_2.13",
    "javax.jdo": "jdo-api",
    "javax.transaction": "jta transaction-api",
    "net.sourceforge.f2j": "arpack_combined_all",
    "org.apache.derby": "derby derbyshared derbytools",
    "org.apache.hadoop": "hadoop-client-runtime",
    "org.apache.ivy": "ivy",
    "org.apache.kafka": "kafka-clients",
    "org.apache.thrift": "libfb303 libthrift",
    "org.bouncycastle": "bcprov-jdk18on",
    "org.checkerframework": "checker-qual",
    "org.codehaus.jackson": "jackson-core-asl jackson-mapper-asl",
    "org.jetbrains": "annotations",
    "org.jodd": "jodd-core",
    "org.json4s": "json4s-ast_2.13 json4s-core_2.13 json4s-jackson-core_2.13"
    " json4s-jackson_2.13 json4s-scalap_2.13",
    "org.lz4": "lz4-java",
    "org.reactivestreams": "reactive-streams",
    "org.roaringbitmap": "RoaringBitmap",
    "org.rocksdb": "rocksdbjni",
    "org.scala-lang": "scala-compiler scala-library scala-reflect",
    "org.scala-lang.modules": "scala-collection-compat_2.13 scala-parallel-collections_2.13"
    " scala-parser-combinators_2.13 scala-xml_2.13",
    "org.scalanlp": "breeze-macros_2.13 breeze_2.13",
    "org.tukaani": "xz",
    "org.typelevel": "algebra_2.13 cats-kernel_2.13 spire-macros_2.13 spire-platform_2.13"
    " spire-util_2.13 spire_2.13",
    "org.xerial.snappy": "snappy-java",
    "oro": "oro",
    "software.amazon.awssdk": "third-party-jackson-core",
    "stax": "stax-api",
}
"""Maven's organisations of jars that do not name their own."""
_ORGANISATION = {name: org for org, names in _ORGANISATIONS.items() for name in names.split()}


@dataclass(frozen=True, order=True)
class Component:
    """A package or a jar.

    Args:
        url: Its package URL, for example `pkg:pypi/six@1.17.0`.
        license: As it states it itself; empty when it does not.
        sha256: Of its file; empty for packages, which have one for each platform, and for what
            lies inside another jar.
        inside: Name of the jar that it was copied into; empty when it is a file of its own.
    """

    url: str
    license: str = ""
    sha256: str = ""
    inside: str = ""

    @property
    def parsed(self) -> PackageURL:
        """The package URL in parts."""
        return PackageURL.from_string(self.url)


def components() -> list[Component]:
    """All of them, in order: the packages of the lock, Spark's jars, the jars that are fetched.

    Raises:
        BadInput: A jar names no organisation, and the table above has none for it either.
        ServiceAway: Jars cannot be fetched.
    """
    spark = Path(pyspark.__file__).parent / "jars"
    files = {*spark.glob("*.jar"), *fetch_for_runs(*dict.fromkeys(STORES.values()))}
    jars = (part for file in files for part in parts_of(file))
    return sorted({*_packages(), *jars})


def _packages() -> Iterator[Component]:
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text(), re.MULTILINE):
        metadata = distribution(name).metadata
        stated = next((metadata[key] for key in _LICENSE_KEYS if key in metadata), "")
        first_line = stated.strip().partition("\n")[0]
        yield Component(str(PackageURL("pypi", None, name, version)), first_line)


def parts_of(file: Path) -> Iterator[Component]:
    """A jar, and what was copied into it.

    Raises:
        BadInput: It does not say who publishes it, and the table above does not either.
    """
    if file.name.startswith(PREFIX):  # ours, compiled at setup
        return
    with zipfile.ZipFile(file) as jar:
        poms = {_coordinate(jar.read(n)) for n in jar.namelist() if _POM.fullmatch(n)}
    # A classifier may follow: netty-all-4.1.118.Final-linux-x86_64.jar.
    own = next((p for p in poms if file.stem.startswith(f"{p.artifact}-{p.version}")), None)
    digest = digest_of_file(file)
    classifier = file.stem.removeprefix(f"{own.artifact}-{own.version}")[1:] if own else ""
    url = (own or _from_name(file.name)).url
    yield Component(f"{url}?classifier={classifier}" if classifier else url, sha256=digest)
    for pom in poms - {own}:
        yield Component(pom.url, inside=file.name)


class _Coordinate(NamedTuple):
    organisation: str
    artifact: str
    version: str

    @property
    def url(self) -> str:
        return str(PackageURL("maven", *self))


def _coordinate(text: bytes) -> _Coordinate:
    lines = (line.partition("=") for line in text.decode().splitlines())
    values = {key.strip(): value.strip() for key, _, value in lines}
    return _Coordinate(values["groupId"], values["artifactId"], values["version"])


def _from_name(name: str) -> _Coordinate:
    parts = _JAR.fullmatch(name)
    organisation = _ORGANISATION.get(parts["name"]) if parts else None
    if parts is None or organisation is None:
        raise BadInput(f"{name} does not say who publishes it; add it to the table in {__name__}")
    return _Coordinate(organisation, parts["name"], parts["version"])
