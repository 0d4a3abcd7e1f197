"""Dataclasses of the core to JSON and back, by pydantic, so that the core needs no codec."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter

Value = TypeVar("Value")


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def to_json(value: Any) -> str:
    """Compact JSON of a dataclass."""
    return _adapter(type(value)).dump_json(value).decode()


def to_data(value: Any) -> Any:
    """Plain lists, dicts, strings and numbers of a dataclass."""
    return _adapter(type(value)).dump_python(value, mode="json")


def from_json(kind: type[Value], text: str | bytes) -> Value:
    """The dataclass in a JSON text."""
    value: Value = _adapter(kind).validate_json(text)
    return value
