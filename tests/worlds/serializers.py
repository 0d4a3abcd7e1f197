"""The serializers of others as programs: each is told what to write, and writes it to the broker.

A job is `topic`, `settings` of a producer or a serializer, and `records` with `key` and `value`;
the programs (`tests/wire/programs`) say how values are written in it.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from devstack.npm_packages import npm_packages
from devstack.registry_program import converter_jars
from tideline.launch.jars import fetch
from tideline.launch.java import find_java

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "wire" / "programs"
PACKAGES = ROOT / ".wire"
"""Where `make test-cdc` puts the packages of `requirements/wire.txt`."""
KAFKAJS = "2.2.4"
_SECONDS = 120
Job = Mapping[str, Any]


def connect_jars() -> list[Path]:
    """Kafka's clients, Connect, and Apicurio's serializers 2.5 with Avro."""
    return [*fetch("debezium"), *converter_jars()]


def apicurio_jars() -> list[Path]:
    """Apicurio's serializers 3, with Avro and Protobuf; Kafka's clients."""
    return [*fetch("apicurio"), *fetch("debezium")]


def glue_jars() -> list[Path]:
    """AWS Glue's serializer, with Avro; Kafka's clients."""
    return [*fetch("glue"), *fetch("debezium")]


def written_by_java(job: Job, jars: Iterable[Path], **variables: str) -> None:
    """A job, by a Java that goes on for the others of its class path.

    Args:
        job: `settings` have `bootstrap.servers`.
        jars: With the serializers.
        variables: More of the process' environment.
    """
    java, said = _java(tuple(jars), tuple(variables.items()))
    assert java.stdin is not None
    assert java.stdout is not None
    java.stdin.write(f"{json.dumps(job)}\n")
    java.stdin.flush()
    if java.stdout.readline() != "written\n":
        _java.cache_clear()
        pytest.fail(said.read_text()[-8000:])


@cache
def _java(
    jars: tuple[Path, ...], variables: tuple[tuple[str, str], ...]
) -> tuple[subprocess.Popen[str], Path]:
    """The program, until the tests end, and the file with what it says besides."""
    classes = _compiled()
    said = classes / f"said-{len(list(classes.glob('said-*')))}"
    command = [find_java().binary, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    command += ["-cp", _path([classes, *jars]), "Written"]
    with said.open("w") as file:
        java = subprocess.Popen(
            list(map(str, command)),
            env={**os.environ, **dict(variables)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            encoding="utf-8",
        )
    atexit.register(java.kill)
    return java, said


@cache
def _compiled() -> Path:
    """The program's classes, by Spark's compiler: where there is no JDK, there is still Java."""
    spec = find_spec("pyspark")
    assert spec is not None
    jars = Path(str(spec.origin)).parent / "jars"
    classes = Path(tempfile.mkdtemp(prefix="tideline-written-"))
    compiler = "org.codehaus.commons.compiler.samples.CompilerDemo"
    command: list[object] = [find_java().binary, "-cp", f"{jars}/*", compiler, "-d", classes]
    command += ["-classpath", _path(connect_jars()), PROGRAMS / "Written.java"]
    said = _ended(command, dict(os.environ))
    assert list(classes.glob("*.class")), said
    return classes


def _path(places: Iterable[Path]) -> str:
    return os.pathsep.join(map(str, places))


def written_by_python(job: Job) -> None:
    """A job of Confluent's client for Python, with its serializers."""
    assert PACKAGES.is_dir(), "make test-cdc installs the packages"
    variables = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    _ended([sys.executable, PROGRAMS / "written.py"], variables, json.dumps(job))


def written_by_node(job: Job) -> None:
    """A job of KafkaJS, with the serializer that belongs to it."""
    packages = npm_packages(PROGRAMS / "npm", f"kafkajs-{KAFKAJS}")
    variables = {**os.environ, "NODE_PATH": str(packages)}
    _ended(["node", PROGRAMS / "written.js"], variables, json.dumps(job))


def _ended(command: Sequence[object], variables: Mapping[str, str], given: str = "") -> str:
    done = subprocess.run(
        list(map(str, command)),
        env=variables,
        input=given,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-8000:]
    return said
