"""A schema as it stands in the registry."""

from __future__ import annotations

from dataclasses import dataclass


class Unresolvable(ValueError):
    """A schema and its references do not make one schema; the text says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A schema with those that it refers to.

    Args:
        format: `avro`, `json` or `protobuf`.
        text: In its own language.
        references: Those that it names, in its order, each by the name that it uses.
    """

    format: str
    text: str
    references: tuple[tuple[str, Document], ...] = ()
