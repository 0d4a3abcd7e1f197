"""The JSON Schema of stream files, for editors; `make schema` writes it."""

from __future__ import annotations

import json

from tideline.model.stream import Stream


def stream_schema() -> str:
    """The schema as JSON text that ends with a newline."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Stream.model_json_schema(),
    }
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(stream_schema(), end="")
