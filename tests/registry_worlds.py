"""Schema registries, with what happens to them: registration and deletion.

The contract test of `RegistryPort` runs over each kind of world (`WORLDS`).
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from devstack.registry import Registry
from tests.fake_registry import FakeRegistry
from tideline.registry.client import SchemaRegistry
from tideline.registry.connecting import registry_settings
from tideline.registry.port import RegistryPort

Reference = tuple[str, str, int]
_numbers = itertools.count(1)


class RegistryWorld(Protocol):
    """One registry and what happens in it; `port` is what is tested."""

    port: RegistryPort

    def name(self, suffix: str) -> str:
        """A subject's whole name, of this world alone."""

    def register(
        self,
        suffix: str,
        schema: object,
        schema_type: str = "AVRO",
        references: Iterable[Reference] = (),
    ) -> int:
        """The id of a schema; anything but a text is written as JSON."""

    def delete(self, suffix: str, *, for_good: bool = False) -> None:
        """Delete a subject."""


class _World:
    """A world on anything that registers schemas."""

    def __init__(self, registry: Registry | FakeRegistry, port: RegistryPort) -> None:
        self._registry = registry
        self._prefix = f"t{next(_numbers)}-"
        self.port = port

    def name(self, suffix: str) -> str:
        return self._prefix + suffix

    def register(
        self,
        suffix: str,
        schema: object,
        schema_type: str = "AVRO",
        references: Iterable[Reference] = (),
    ) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        named = [(n, self.name(s), v) for n, s, v in references]
        return self._registry.register(self.name(suffix), text, schema_type, named)

    def delete(self, suffix: str, *, for_good: bool = False) -> None:
        self._registry.delete(self.name(suffix), for_good=for_good)


@contextmanager
def fake_world() -> Iterator[RegistryWorld]:
    """One in memory."""
    fake = FakeRegistry()
    yield _World(fake, fake)


@contextmanager
def real_world(registry: Registry) -> Iterator[RegistryWorld]:
    """Apicurio, through a connection as a stream names it."""
    with connected(registry.connection) as port:
        yield _World(registry, port)


@contextmanager
def connected(connection: object, answer_seconds: float = 10) -> Iterator[SchemaRegistry]:
    """The client of an Airflow connection that is in the environment meanwhile."""
    name = "AIRFLOW_CONN_SCHEMAS"
    os.environ[name] = json.dumps(connection)
    try:
        settings = registry_settings("schemas")
    finally:
        del os.environ[name]
    with SchemaRegistry(settings, answer_seconds) as client:
        yield client


WORLDS = ("fake", "apicurio")
