"""The page about JSON, from the schema of the contract."""

from __future__ import annotations

import json
from collections.abc import Iterator

from devstack.reference.markdown import page
from devstack.reference.objects import Schema, keys_of
from tideline.contract.output_schema import COMMANDS, OTHERS, output_schema
from tideline.contract.parts import Shape

_FAILURES = ("Failure", "RefusedFiles")


def build_page() -> str:
    """The text of docs/reference/json.md."""
    named: dict[str, Schema] = json.loads(output_schema())["$defs"]
    kinds = {**COMMANDS, **OTHERS}
    tops = {shape.__name__ for shapes in kinds.values() for shape in shapes} | {*_FAILURES}
    parts = [name for name, shape in named.items() if "properties" in shape and name not in tops]
    lines = [
        "`--output json`, or `--json`, prints one object on standard output. Its JSON Schema is",
        "[`output.schema.json`](../output.schema.json). Later versions may add keys. Offsets are",
        "half-open: `end_offset` is the first one that does not belong to the range.",
        "",
        "## A command that fails",
        "",
        *(line for name in _FAILURES for line in keys_of(named[name])),
    ]
    for name, shapes in COMMANDS.items():
        lines += [f"## tideline {name}", "", *_answers(shapes, named)]
    for name, shapes in OTHERS.items():
        lines += [f"## {name}", "", *_answers(shapes, named)]
    for name in parts:
        lines += [f"## {name}", "", *keys_of(named[name])]
    return page("JSON", "the models in `contract/`", *lines)


def _answers(shapes: tuple[type[Shape], ...], named: dict[str, Schema]) -> Iterator[str]:
    for shape in shapes:
        yield from keys_of(named[shape.__name__])
