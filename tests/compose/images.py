"""What stands in for the images: the table of everything that is not docker-compose.yaml's own.

No image is pulled. A container's root folder is this machine's, read-only, below what its image
would add:

`tideline`
    From docker/Dockerfile: `ENV`, `WORKDIR`, user, the wheel, `tideline fetch --s3a --into`.
    Stand-ins: this environment's packages for those of requirements.txt; this machine's Java and
    Python.
`apache/kafka`
    Kafka's own `KafkaDockerWrapper`, which makes properties of `KAFKA_*`. Stand-ins: a script for
    the image's, and one for each of `/opt/kafka/bin` that docker-compose.yaml names.
`postgres`
    Stand-ins: a script for its entry point, which does the same with `POSTGRES_*`; pgserver's
    PostgreSQL 16.
`tideline-store`
    The `RUN` line of `dockerfile_inline`, and the same version of versitygw. Stand-ins: the program
    that our Go has built; this machine's wget for busybox'.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import yaml

from devstack.object_store_programs import GATEWAY
from tests.compose.compose_file import ROOT, Service
from tests.wheel.building import build_wheel
from tideline.launch.jars import broker_jars, fetch
from tideline.launch.java import find_java

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PYTHON = b"/opt/tideline/venv/bin/python"
_KAFKA_SCRIPT = '#!/bin/bash\nexec java -cp "/opt/kafka/libs/*" {main} "$@"\n'
_KAFKA_TOOLS = {
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
}
_KAFKA_RUN = """\
#!/bin/bash
set -e
java -cp "/opt/kafka/libs/*" kafka.docker.KafkaDockerWrapper setup \
  --default-configs-dir /etc/kafka/docker --mounted-configs-dir /mnt/shared/config \
  --final-configs-dir /opt/kafka/config
exec java -Xmx512m -cp "/opt/kafka/libs/*" kafka.Kafka /opt/kafka/config/server.properties
"""
_POSTGRES_RUN = """\
#!/bin/bash
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  chmod 700 "$PGDATA"
  initdb --encoding UTF8 --username "$POSTGRES_USER" --pwfile <(echo "$POSTGRES_PASSWORD") \
    --auth-host scram-sha-256 --auth-local trust --no-sync
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  sockets="-c unix_socket_directories=/tmp"
  pg_ctl -o "$sockets -c listen_addresses=" --wait start
  createdb --host /tmp --username "$POSTGRES_USER" "$POSTGRES_DB"
  pg_ctl --mode fast --wait stop
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp
"""


class Image(NamedTuple):
    """What a container has of its image.

    Args:
        layer: Folder whose files lie over this machine's root.
        entry: The entry point, before the service's command.
        default: The command of a service that names none.
        environment: The image's `ENV`.
        folder: Where it starts.
        user: Number of the user that it names, if the service gives a name.
        binds: Folders of this machine by where they lie in the container.
        volumes: What a new volume has, by where it is mounted: folders.
    """

    layer: Path
    entry: list[str]
    default: list[str]
    environment: dict[str, str]
    folder: str
    user: int
    binds: dict[str, Path]
    volumes: dict[str, list[str]]


def build_image(service: Service, folder: Path) -> Image:
    """The image of a service.

    Args:
        service: Names the image.
        folder: Holds all images; what is built already is taken.
    """
    name = service.image.partition(":")[0].replace("/", "-")
    layer = folder / name
    is_new = not layer.exists()
    if is_new:
        layer.mkdir(parents=True)
    image = _BUILDERS[name](layer, is_new)
    java = {"JAVA_HOME": str(find_java().home)}
    path = {"PATH": f"{java['JAVA_HOME']}/bin:{_PATH}"}
    return image._replace(environment={**path, **java, **image.environment})


def _kafka(layer: Path, is_new: bool) -> Image:
    libs, bin_, docker = (
        layer / p for p in ("opt/kafka/libs", "opt/kafka/bin", "etc/kafka/docker")
    )
    if is_new:
        for made in (libs, bin_, docker, layer / "opt/kafka/config", layer / "mnt/shared/config"):
            made.mkdir(parents=True)
        tools = fetch("bench")
        for jar in {p.name: p for p in (*tools, *broker_jars())}.values():
            shutil.copy(jar, libs)
        for tool, main in _KAFKA_TOOLS.items():
            _write_program(bin_ / f"{tool}.sh", _KAFKA_SCRIPT.format(main=main))
        for file in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
            (docker / file).write_text("")
        _write_program(docker / "run", _KAFKA_RUN)
    volumes: dict[str, list[str]] = {"/var/lib/kafka/data": []}
    return Image(layer, [], ["/etc/kafka/docker/run"], {}, "/", 1000, {}, volumes)


def _postgres(layer: Path, is_new: bool) -> Image:
    package = importlib.util.find_spec("pgserver")
    assert package is not None
    assert package.origin is not None
    server = Path(package.origin).parent
    if is_new:
        _write_program(layer / "usr/local/bin/docker-entrypoint.sh", _POSTGRES_RUN)
        _add_user(layer, "postgres", 999, 999, "/var/lib/postgresql")
        (layer / "opt/postgres").mkdir(parents=True)
    data = "/var/lib/postgresql/data"
    found = {"PGDATA": data, "PATH": f"/opt/postgres/pgserver/pginstall/bin:{_PATH}"}
    # Its programs look for libraries beside the package.
    binds = {
        f"/opt/postgres/{part}": server.parent / part for part in ("pgserver", "pgserver.libs")
    }
    entry = ["docker-entrypoint.sh"]
    return Image(layer, entry, ["postgres"], found, "/", 999, binds, {data: []})


def _store(layer: Path, is_new: bool) -> Image:
    if is_new:
        program = layer / "usr/local/bin/versitygw"
        program.parent.mkdir(parents=True)
        shutil.copy(GATEWAY.built(), program)
    text = (ROOT / "docker-compose.yaml").read_text()
    lines = yaml.safe_load(text)["services"]["store"]["build"]["dockerfile_inline"]
    made = re.search(r"^RUN mkdir -p (.*) && chown -R 1000:1000 /data$", lines, re.MULTILINE)
    assert made is not None, lines
    folders = [folder.removeprefix("/data/") for folder in made[1].split()]
    return Image(layer, ["versitygw"], [], {}, "/", 1000, {}, {"/data": folders})


def _tideline(layer: Path, is_new: bool) -> Image:
    lines = (ROOT / "docker/Dockerfile").read_text().replace("\\\n", "").splitlines()
    last = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM")) :]
    told = dict(line.split(maxsplit=1) for line in last if re.match("ENV|USER|WORKDIR", line))
    environment = dict(pair.split("=", 1) for pair in told["ENV"].split())
    environment["PATH"] = environment["PATH"].replace("$PATH", f"{find_java().home}/bin:{_PATH}")
    jars, wheel = layer.with_name("jars"), layer.with_name("wheel")
    if is_new:
        build_wheel(wheel)
        command = [sys.executable, "-m", "tideline", "fetch", "--s3a", "--into", jars]
        subprocess.run(command, env=_ours(), check=True, stdout=subprocess.DEVNULL)
        _add_user(layer, "tideline", 50000, 0, told["WORKDIR"])
        (layer / "opt/tideline/home/logs").mkdir(parents=True)
    volumes: dict[str, list[str]] = {f"{told['WORKDIR']}/logs": []}
    binds = {"/opt/tideline/jars": jars, "/opt/tideline/venv": layer.with_name("venv")}
    return Image(layer, [], [], environment, told["WORKDIR"], 50000, binds, volumes)


_BUILDERS = {
    "apache-kafka": _kafka,
    "postgres": _postgres,
    "tideline": _tideline,
    "tideline-store": _store,
}


def install_wheel(folder: Path) -> None:
    """Make `folder/venv`: this environment, with the wheel over it; only in namespaces of ours.

    Args:
        folder: Holds all images.
    """
    venv, (wheel,) = folder / "venv", folder.glob("wheel/dist/*.whl")
    uv = [Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*uv, "--no-index", "--python", venv / "bin/python", wheel], check=True)
    for script in (venv / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            text = found = script.read_bytes()
            for prefix in (venv, sys.prefix, Path(sys.prefix).resolve()):
                text = text.replace(f"{prefix}/bin/python".encode(), _PYTHON)
            if text != found:
                script.write_bytes(text)


def _ours() -> dict[str, str]:
    return {"PATH": _PATH, "PYTHONPATH": f"{ROOT}/plugins", "HOME": str(Path.home())}


def _write_program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def _add_user(layer: Path, name: str, user: int, group: int, home: str) -> None:
    """Give the user a name, without which neither Hadoop nor PostgreSQL starts."""
    lines = [x for x in Path("/etc/passwd").read_text().splitlines() if f":{user}:" not in x]
    lines = [x for x in lines if not x.startswith(f"{name}:")]
    (layer / "etc").mkdir(parents=True, exist_ok=True)
    added = f"{name}:x:{user}:{group}::{home}:/bin/bash"
    (layer / "etc/passwd").write_text("\n".join([*lines, added, ""]))
