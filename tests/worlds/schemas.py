"""Schemas for the tests of merging."""

import json

from tideline.decoding.schemas.merging import reader_schema
from tideline.model.decoding import FieldChoice, WriterSchema


def writer(schema_id, schema):
    """A writer schema: a text, or what becomes JSON."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return WriterSchema(schema_id, text, f"digest of {schema_id}", f"orders-value:{schema_id}")


def merge(
    format, *schemas, previous=None, first_id=1, part="value", reserved=(), paths=(), plain=False
):
    """Merge schemas that got their ids in order."""
    writers = [writer(first_id + n, s) for n, s in enumerate(schemas)]
    choices = [FieldChoice(path) for path in paths]
    return reader_schema(part, format, writers, previous, reserved, choices, plain=plain)


def columns(merged):
    """Name -> type, in the table's order."""
    return {c.name: c.type for c in merged.reader.columns}


def struct(**fields):
    """A struct's type."""
    return {
        "type": "struct",
        "fields": [
            {"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields.items()
        ],
    }


def array(item):
    """An array's type."""
    return {"type": "array", "elementType": item, "containsNull": True}


def mapping(value):
    """A map's type."""
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
