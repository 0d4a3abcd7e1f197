"""The schema registry that decoding needs, as a protocol; `confluent` implements it.

Shapes:

    WriterSchema        `model.decoding`: a schema with everything it refers to
    SubjectVersion      one version of a subject, by number

An id never changes its meaning, and one schema may belong to several subjects. Nothing is
remembered here: the ledger keeps every schema that a plan has used (`Ledger.known_schemas`).

A schema is returned whole:

    avro        types of other schemas are written out where they are used first
    json        other documents are in `$defs`, and every `$ref` to them points there
    protobuf    the text as it is; imported files are in `references`

Errors that every method raises:

    RegistryAway      Nothing answers in time, or it answers 408, 429 or 5xx. Retriable; there is no
                      second try here.
    RegistryRefused   The login, a right, a certificate or the protocol is wrong (401, 403, TLS).
    RegistryMisused   What answers is no registry, or redirects to another address.

Trouble with one schema is no trouble of the registry: any four bytes of a record are an id.

    SchemaUnreadable  The registry has that id, and what it answers makes no whole schema: a
                      reference is gone, or goes in a circle, the type is not one of ours, the
                      answer is too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tideline.model.decoding import WriterSchema

FORMATS = {"AVRO": "avro", "JSON": "json", "PROTOBUF": "protobuf"}
"""Formats by the registry's `schemaType`; without one, it is Avro."""


@dataclass(frozen=True, slots=True, order=True)
class SubjectVersion:
    """One version of a subject; they are counted from 1."""

    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.subject}:{self.version}"


class SchemaUnreadable(ValueError):
    """A schema of the registry's that cannot be made whole; the text says why."""


class RegistryPort(Protocol):
    """Schemas by id and by subject."""

    def schema(self, schema_id: int, version: SubjectVersion) -> WriterSchema | None:
        """The schema of an id.

        Args:
            schema_id: As it stands before a record's bytes.
            version: One of those that it is registered as; the schema is known as that.

        Returns:
            None if the registry says that it does not know the id: deleted for good meanwhile.

        Raises:
            SchemaUnreadable: It cannot be made whole.
        """

    def subjects_of(self, schema_id: int, subject: str) -> tuple[SubjectVersion, ...]:
        """Everything that an id is registered as, deleted versions included, by name.

        A deleted subject counts: its records are still in the log. Empty for an id that was never
        given out, or is deleted for good.

        Args:
            subject: Ids of Confluent's contexts are those of the subject's context: that of
                `:.dev:orders-value` is `.dev`.

        Raises:
            SchemaUnreadable: The answer is too large.
        """

    def latest(self, subject: str) -> tuple[SubjectVersion, WriterSchema]:
        """The newest version of a subject that is not deleted.

        Returns:
            Which version it is, and its schema, known as this version.

        Raises:
            RegistryMisused: The registry does not know the subject.
            SchemaUnreadable: It cannot be made whole.
        """
