"""Schema registries, with what happens to them: registration and deletion.

The contract test of `RegistryPort` runs over each kind of world (`WORLDS`).
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from devstack.registry import Registry
from tideline.errors import RegistryAway, RegistryMisused
from tideline.model.decoding import WriterSchema
from tideline.registry.confluent import SchemaRegistry
from tideline.registry.references import Document, Unresolvable, resolved
from tideline.registry.registry_connection import registry_settings
from tideline.registry.registry_port import FORMATS, RegistryPort, SchemaUnreadable, SubjectVersion

Reference = tuple[str, str, int]
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Registered:
    schema_id: int
    version: SubjectVersion


@dataclass
class FakeRegistry:
    """Numbers schemas from 1; the same text with the same references keeps its id.

    Args:
        away: Whether it answers nobody.
        asked: How often it was asked.
    """

    away: bool = False
    asked: int = 0
    _documents: dict[int, Document] = field(default_factory=dict)
    _live: list[_Registered] = field(default_factory=list)
    _deleted: list[_Registered] = field(default_factory=list)
    _given_out: int = 0

    def register(
        self,
        subject: str,
        schema: str,
        schema_type: str = "AVRO",
        references: Iterable[Reference] = (),
    ) -> int:
        """A subject's newest version; the schema's id."""
        others = tuple((n, self._at(SubjectVersion(s, v))) for n, s, v in references)
        document = Document(FORMATS[schema_type], schema, others)
        schema_id = next((i for i, d in self._documents.items() if d == document), None)
        if schema_id is None:
            self._given_out += 1
            schema_id = self._given_out
            self._documents[schema_id] = document
        if not any(r.schema_id == schema_id and r.version.subject == subject for r in self._live):
            taken = [r.version.version for r in self._live if r.version.subject == subject]
            version = SubjectVersion(subject, max(taken, default=0) + 1)
            self._live.append(_Registered(schema_id, version))
        return schema_id

    def delete(self, subject: str, *, for_good: bool = False) -> None:
        """Delete a subject with all its versions."""
        gone = [r for r in self._live if r.version.subject == subject]
        self._live = [r for r in self._live if r not in gone]
        self._deleted += gone
        if for_good:
            self._deleted = [r for r in self._deleted if r.version.subject != subject]
            left = {r.schema_id for r in (*self._live, *self._deleted)}
            self._documents = {i: d for i, d in self._documents.items() if i in left}

    def schema(self, schema_id: int, version: SubjectVersion) -> WriterSchema | None:
        """The schema of an id; None if there is none."""
        self._answer()
        document = self._documents.get(schema_id)
        return None if document is None else self._whole(document, schema_id, version)

    def subjects_of(self, schema_id: int, subject: str) -> tuple[SubjectVersion, ...]:
        """Everything that an id is registered as, by name; one context is enough for it."""
        self._answer()
        return self._versions_of(schema_id)

    def latest(self, subject: str) -> tuple[SubjectVersion, WriterSchema]:
        """The newest version of a subject."""
        self._answer()
        found = [r for r in self._live if r.version.subject == subject]
        if not found:
            raise RegistryMisused(f"it does not know the subject {subject}", subject=subject)
        newest = max(found, key=lambda r: r.version.version)
        document = self._documents[newest.schema_id]
        return newest.version, self._whole(document, newest.schema_id, newest.version)

    def _whole(self, document: Document, schema_id: int, version: SubjectVersion) -> WriterSchema:
        try:
            return resolved(document, schema_id, str(version))
        except Unresolvable as error:
            raise SchemaUnreadable(str(error)) from error

    def _answer(self) -> None:
        self.asked += 1
        if self.away:
            raise RegistryAway("the registry is away")

    def _at(self, version: SubjectVersion) -> Document:
        return next(self._documents[r.schema_id] for r in self._live if r.version == version)

    def _versions_of(self, schema_id: int) -> tuple[SubjectVersion, ...]:
        known = (*self._live, *self._deleted)
        return tuple(sorted(r.version for r in known if r.schema_id == schema_id))


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
