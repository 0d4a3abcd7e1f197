"""What the records of a schema are called, and patterns of such names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tideline.decoding.schemas.avro import avro_record
from tideline.decoding.schemas.protobuf import messages
from tideline.model.decoding import WriterSchema


def record_names(
    schema: WriterSchema, compiled: Callable[[WriterSchema], bytes]
) -> tuple[str, ...]:
    """Full names of the records that a schema may be of, the one that is meant by default first.

    Of Avro the root's name, of JSON Schema its title, of Protobuf each message's; none where there
    is no such name, or the schema cannot be read.

    Args:
        compiled: Protoc's set of a schema's files; it raises `SchemaUnusable`.
    """
    try:
        if schema.schema_type == "protobuf":
            return tuple(messages(compiled(schema)))
        if schema.schema_type == "json":
            name = json.loads(schema.text).get("title")
        else:
            name = avro_record(schema.text)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return ()  # of a form that nobody thought of: who reads it says so
    return (name,) if isinstance(name, str) else ()


def is_like(pattern: str, name: str) -> bool:
    """Whether a name is the one of a pattern, in which * stands for any text."""
    expression = ".*".join(map(re.escape, pattern.split("*")))
    return re.fullmatch(expression, name, re.DOTALL) is not None
