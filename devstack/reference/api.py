"""The page about the API in Airflow, from its description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from devstack.reference.markdown import code, codes, page, table
from devstack.reference.objects import Schema, keys_of, type_of

_DESCRIPTION = Path(__file__).parents[2] / "docs/page.openapi.json"
"""`make schema` writes it, and a test compares: Airflow need not be imported here."""


def build_page() -> str:
    """The text of docs/reference/api.md."""
    api: Schema = json.loads(_DESCRIPTION.read_text())
    (server,) = api["servers"]
    lines = [
        api["info"]["description"],
        f"Paths begin with `{server['url']}`, below the address of Airflow's API server; its login",
        "counts. The whole description is [`page.openapi.json`](../page.openapi.json).",
        "",
    ]
    for path, ways in api["paths"].items():
        for way, route in ways.items():
            lines += _route(f"{way.upper()} {path}", route)
    for name, schema in api["components"]["schemas"].items():
        if "description" in schema:  # those without are FastAPI's own
            lines += [f"## {name}", "", *keys_of(schema)]
    return page("API", "`page/routes.py`", *lines)


def _route(title: str, route: Schema) -> Iterator[str]:
    yield from (f"## {title}", "", route["description"], "")
    asked = route.get("parameters", [])
    if asked:
        yield from table(("parameter", "in", "allowed", "default", "meaning"), map(_row, asked))
    answer = route["responses"]["200"]["content"]["application/json"]["schema"]
    yield from (f"Answers {type_of(answer)}.", "")


def _row(asked: Schema) -> list[str]:
    schema = asked["schema"]
    default = code(schema["default"]) if "default" in schema else ""
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "from"), ("maximum", "to"), ("exclusiveMaximum", "below"))
        if key in schema
    ]
    allowed = codes(schema["enum"]) if "enum" in schema else type_of(schema)
    return [
        code(asked["name"]),
        asked["in"],
        " ".join([allowed, *bounds]),
        default,
        schema.get("description", ""),
    ]
