"""docker-compose.yaml, line by line: nothing in it is unknown, unpinned, open or a secret."""

import re
from pathlib import Path

import pytest
import yaml

from tideline import __version__

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text()
FILE = yaml.safe_load(TEXT)
SERVICES = FILE["services"]
SECRETS = {
    "ADMIN_PASSWORD",
    "AIRFLOW_FERNET_KEY",
    "AIRFLOW_JWT_SECRET",
    "AIRFLOW_SECRET_KEY",
    "POSTGRES_PASSWORD",
    "S3_ACCESS_KEY",
    "S3_SECRET_KEY",
}
ONCE = {"migrate", "topics"}
PORTS = {
    "kafka": {9092, 9093},
    "postgres": {5432},
    "store": {7070},
    "api-server": {8080},
    "scheduler": {8974},
    "spark-master": {7077, 8082},
    "spark-worker-1": {8081},
    "spark-worker-2": {8081},
}
"""Where services listen; everything else that names a port names one of these."""


def test_every_service_is_known():
    """A new one has to be looked at here."""
    airflow = {"migrate", "api-server", "scheduler", "dag-processor", "triggerer"}
    spark = {"spark-master", "spark-worker-1", "spark-worker-2"}
    assert SERVICES.keys() == {"kafka", "topics", "postgres", "store"} | airflow | spark
    assert FILE["volumes"].keys() == {"kafka", "logs", "postgres", "store"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_pinned_and_without_rights(name):
    """A tag that does not move, no root, no capabilities, only known keys."""
    service = SERVICES[name]
    assert re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?$", service["image"]), service["image"]
    if service["image"].startswith("tideline:"):
        assert service["image"] == f"tideline:{__version__}"
        assert service["read_only"]
    assert service["user"].split(":")[0] not in ("", "0", "root")
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service.get("restart", "no") == ("no" if name in ONCE else "unless-stopped")
    assert ("healthcheck" in service) != (name in ONCE)
    known = {"build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "hostname"}
    known |= {"image", "ports", "read_only", "restart", "security_opt", "tmpfs", "user", "volumes"}
    assert service.keys() <= known


def test_spark_may_load_libraries_from_its_temporary_folder():
    """Docker mounts a tmpfs with noexec: Snappy, which Spark writes Parquet with, is not loaded."""
    for name, service in SERVICES.items():
        if service["image"].startswith("tideline:"):
            assert "/tmp:exec" in service["tmpfs"], name


def test_dependencies_wait_for_what_they_need():
    """For health where there is a check, for the end of what ends; and there is no circle."""
    started = set()
    waiting = {name: dict(service.get("depends_on", {})) for name, service in SERVICES.items()}
    for needed in (n for needs in waiting.values() for n in needs.items()):
        ends = "service_completed_successfully"
        assert needed[1]["condition"] == (ends if needed[0] in ONCE else "service_healthy")
    while waiting:
        ready = [name for name, needs in waiting.items() if needs.keys() <= started]
        assert ready, f"a circle: {waiting}"
        started |= {*ready}
        for name in ready:
            del waiting[name]


def test_every_address_leads_to_a_service_that_listens_there():
    """In commands, environments and health checks; `localhost` is the service itself."""
    for name, service in SERVICES.items():
        parts = ("command", "environment", "healthcheck")
        text = " ".join(str(service.get(part, "")) for part in parts)
        text = text.replace('", "port": ', ":")
        found = re.findall(r"\b([a-z][a-z0-9-]*):(\d{4})\b", text)
        for host, port in found:
            host = name if host == "localhost" else host
            assert int(port) in PORTS.get(host, ()), f"{name}: {host}:{port}"
    given = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert given == ["127.0.0.1:8080:8080"]


def test_secrets_come_from_the_environment_file_and_have_no_default():
    """Nothing starts until every one is filled in."""
    used = re.findall(r"(?<!\$)\$\{([^}]*)\}", TEXT)
    assert {u.partition(":")[0] for u in used} == SECRETS
    assert all(u.partition(":")[2].startswith("?") for u in used)
    lines = [x for x in (ROOT / ".env.example").read_text().splitlines() if x and x[0] != "#"]
    assert sorted(lines) == sorted(f"{name}=" for name in SECRETS)
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD$|SECRET|FERNET|ROOT_", key):
                assert re.fullmatch(r"\$\{\w+:\?see \.env\.example\}", str(value)), key


def test_mounted_and_copied_files_exist_and_nobody_copies_the_checkout():
    """The image is made of the wheel and the lock alone."""
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source[0] == "." else source in FILE["volumes"]
    ignored = (ROOT / ".dockerignore").read_text().split()
    lines = (ROOT / "docker/Dockerfile").read_text().splitlines()
    copied = [x.split()[1:-1] for x in lines if x.startswith("COPY") and "--from" not in x]
    for path in (path for paths in copied for path in paths):
        assert (ROOT / path).exists()
        assert f"!{path}" in ignored
    assert ignored[0] == "*"
    assert lines[-1] == "USER 50000:0"


def test_the_image_installs_what_is_locked_and_nothing_else():
    """Also what builds the wheel: pip would fetch the newest one for itself."""
    text = (ROOT / "docker/Dockerfile").read_text().replace("\\\n", "")
    commands = re.findall(r"pip (?:--python \S+ )?(install|wheel)([^&\n]*)", text)
    assert {command for command, _ in commands} == {"install", "wheel"}
    for command, options in commands:
        assert "--no-deps" in options
        from_source = options.rstrip().endswith(" .")
        assert ("--no-build-isolation" in options) == from_source
        assert "--require-hashes" in options or "dist" in options, (command, options)
    locked = (ROOT / "requirements.txt").read_text()
    assert re.search(r"^setuptools==\S+ \\\n    --hash=sha256:", locked, re.MULTILINE)


def test_no_connection_hands_tasks_airflow_s_whole_database():
    """Its user reads every connection and every password there."""
    for service in SERVICES.values():
        found = {k: v for k, v in (service.get("environment") or {}).items() if "_CONN_" in k}
        assert not [k for k, v in found.items() if k.startswith("AIRFLOW_CONN_") and "airflow" in v]
