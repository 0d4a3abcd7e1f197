"""Other JSON Schema documents, moved into `$defs`, so that every `$ref` stays in one document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

from tideline.registry_io.document import Document

_VALUES = ("const", "enum", "default", "examples")
"""What they hold is data, not schemas."""
_NAMED = ("properties", "patternProperties", "dependentSchemas", "definitions", "$defs")
"""What they hold are schemas by names, which may look like keywords."""


def with_documents_in_defs(document: Document) -> str:
    """The schema with those that it refers to, each under its name in `$defs`.

    Args:
        document: The schema and its references.

    Raises:
        ValueError: A text is no JSON.
        RecursionError: It is too deeply nested.
    """
    root = json.loads(document.text)
    if not isinstance(root, dict):
        return document.text
    bundle = _Bundle({**root.get("$defs", {})})
    whole = bundle.moved(document, root, "#")
    text = {**whole, "$defs": {**whole.get("$defs", {}), **bundle.added}}
    return json.dumps(text, separators=(",", ":"), ensure_ascii=False)


class _Bundle:
    """Collects documents.

    Args:
        taken: Names in `$defs` that the schema itself uses.
    """

    def __init__(self, taken: Mapping[str, Any]) -> None:
        self._taken = taken
        self.added: dict[str, Any] = {}
        self._places: dict[tuple[str, str], str] = {}

    def moved(self, document: Document, schema: Any, place: str) -> Any:
        """A document's schema, with its own and its foreign `$ref`s for where it is now."""
        base = schema.get("$id", "") if isinstance(schema, dict) else ""
        others = {
            urljoin(base, name): self._place_of(name, other) for name, other in document.references
        }
        return _repointed(schema, base, place, others)

    def _place_of(self, name: str, document: Document) -> str:
        known = self._places.get((name, document.text))
        if known is not None:
            return known
        key = re.sub(r"[^A-Za-z0-9._-]", "_", name)  # nothing that a JSON pointer would escape
        while key in self._taken or key in self.added:
            key += "_"
        place = f"#/$defs/{key}"
        self._places[name, document.text] = place
        self.added[key] = None  # holds the name while the document's own references are moved
        schema = self.moved(document, json.loads(document.text), place)
        if isinstance(schema, dict):  # an $id would give the $refs inside another base
            schema = {k: v for k, v in schema.items() if k not in ("$id", "$schema")}
        self.added[key] = schema
        return place


def _repointed(
    schema: Any, base: str, place: str, others: Mapping[str, str], *, by_name: bool = False
) -> Any:
    """A schema, or schemas by name, with every `$ref` for where it is now."""
    if isinstance(schema, list):
        return [_repointed(item, base, place, others) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if by_name:
        return {k: _repointed(v, base, place, others) for k, v in schema.items()}
    changed = {
        key: value
        if key in _VALUES
        else _repointed(value, base, place, others, by_name=key in _NAMED)
        for key, value in schema.items()
    }
    target = schema.get("$ref")
    if isinstance(target, str):
        changed["$ref"] = _pointed(target, base, place, others)
    return changed


def _pointed(target: str, base: str, place: str, others: Mapping[str, str]) -> str:
    address, _, pointer = target.partition("#")
    whole = urljoin(base, address)
    if whole in others:
        home = others[whole]
    elif not address or whole == base:
        home = place
    else:
        return target
    if pointer and not pointer.startswith("/"):
        return f"#{pointer}"  # an anchor: its name holds in the whole document
    return f"{home}{pointer}"
