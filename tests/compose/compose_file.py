"""docker-compose.yaml as values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+):\?[^}]*\})")
_UNITS = {"s": 1, "m": 60}


class Health(NamedTuple):
    """A health check.

    Args:
        test: The command.
        seconds: How long it may fail before Docker calls the service unhealthy.
        timeout: Of one call, in seconds.
    """

    test: list[str]
    seconds: int
    timeout: int


class Volume(NamedTuple):
    """A named volume, or a folder of the checkout where `source` begins with a dot."""

    source: str
    target: str
    read_only: bool


class Service(NamedTuple):
    """One service; everything that `tests/unit/test_compose.py` allows."""

    name: str
    image: str
    user: str
    command: list[str]
    environment: dict[str, str]
    hostname: str
    needs: dict[str, str]
    health: Health | None
    tmpfs: list[str]
    volumes: list[Volume]
    read_only: bool


def read_services(variables: Mapping[str, str]) -> dict[str, Service]:
    """All services.

    Args:
        variables: What `.env` would have.

    Raises:
        KeyError: The file asks for another variable.
    """
    text = (ROOT / "docker-compose.yaml").read_text()
    found = _filled(yaml.safe_load(text)["services"], variables)
    return {name: _service(name, data) for name, data in found.items()}


def variable_names() -> list[str]:
    """What `.env.example` tells a site to fill in."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    return [line.removesuffix("=") for line in lines if line and line[0] != "#"]


def _service(name: str, data: dict[str, Any]) -> Service:
    check = data.get("healthcheck")
    return Service(
        name,
        data["image"],
        data["user"],
        shlex.split(data.get("command", "")),
        {key: str(value) for key, value in data.get("environment", {}).items()},
        data.get("hostname", f"id-{name}"),
        {needed: what["condition"] for needed, what in data.get("depends_on", {}).items()},
        None if check is None else _health(check),
        data.get("tmpfs", []),
        [_volume(line) for line in data.get("volumes", ())],
        data.get("read_only", False),
    )


def _health(data: dict[str, Any]) -> Health:
    assert data["test"][0] == "CMD", data
    allowed = _seconds(data["start_period"]) + data["retries"] * _seconds(data["interval"])
    return Health(data["test"][1:], allowed, _seconds(data["timeout"]))


def _seconds(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]]


def _volume(line: str) -> Volume:
    source, target, *mode = line.split(":")
    return Volume(source, target, mode == ["ro"])


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """The value with its variables; as Compose does it, after YAML was read."""
    if isinstance(value, dict):
        return {key: _filled(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, variables) for part in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: found[1] or variables[found[2]], value)
    return value
