"""Hold what leaves the program against docs/output.schema.json."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/output.schema.json").read_text())


def assert_fits(name, answer):
    """An answer fits the schema's definition of that name, and has no key besides.

    Args:
        name: An entry of the schema's `$defs`: a command, an event, or one shape.
        answer: As a program reads it from the JSON.
    """
    shapes = [name]
    if "anyOf" in SCHEMA["$defs"][name]:
        shapes = [part["$ref"].rpartition("/")[2] for part in SCHEMA["$defs"][name]["anyOf"]]
    errors = {shape: _errors(shape, answer) for shape in shapes}
    assert [] in errors.values(), f"{answer}\nfits none of {name}: {errors}"


def _errors(shape, answer):
    """Errors of one shape, held strictly: readers of the file itself must bear new keys."""
    definitions = {
        key: {**value, "unevaluatedProperties": False} if "properties" in value else value
        for key, value in SCHEMA["$defs"].items()
    }
    schema = {"$defs": definitions, "$ref": f"#/$defs/{shape}"}
    return [error.message for error in Draft202012Validator(schema).iter_errors(answer)]
