"""What users see of Dags, forms and commands, as text that a change of the code shows.

Usage: python -m tests.dags.golden      writes tests/data/golden
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from argparse import _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from tests.dags.parsing import parsing_processes
from tideline.cli.main import build_parser

FOLDER = Path(__file__).parents[1] / "data/golden"
_RAW = {
    "stream": "orders",
    "kafka": {"topics": ["orders"]},
    "table": {"uri": "/lake/orders"},
    "schedule": "*/10 * * * *",
}
STREAMS: dict[str, dict[str, Any]] = {
    "raw": _RAW,
    "current": _RAW
    | {"stream": "customers", "on_incident": "proceed"}
    | {"decode": {p: {"format": "avro", "subject": f"customers-{p}"} for p in ("key", "value")}}
    | {"registry": {"connection": "registry"}, "current": {"key": ["id"]}},
    "lag": _RAW | {"stream": "clicks", "schedule": "@daily", "trigger": {"lag_records": 1000}},
    "fleet": {
        "fleet": "shop",
        "topics": ["shop.a", "shop.b"],
        "shards": 2,
        "stream": {
            "stream": "shop_{name}",
            "kafka": {"connection": "kafka_default"},
            "table": {"uri": "/lake/{topic}"},
            "schedule": "@hourly",
        },
    },
}
"""A stream with each kind of table and of start, and a fleet."""


def golden() -> dict[str, str]:
    """Each file's text, by its name."""
    return {"dags.json": dags(), "help.txt": "".join(helps())}


def dags() -> str:
    """All Dags of `STREAMS` and of operations, serialized as Airflow's database has them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, contents in STREAMS.items():
            text = yaml.safe_dump(contents, sort_keys=False)
            Path(folder, f"{name}.yaml").write_text(text)
        with parsing_processes(Path(folder, "airflow")) as pool:
            found = pool.submit(serialized, folder).result()
    text = json.dumps(found, indent=1, sort_keys=True)
    return text.replace(folder, "/streams") + "\n"


def serialized(folder: str) -> dict[str, Any]:
    """In a process of its own: each Dag by its id, without places and times of this machine."""
    os.environ["TIDELINE_STREAMS"] = folder
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization

    import tideline_operations
    import tideline_streams

    modules = (tideline_streams, tideline_operations)
    every = {k: v for m in modules for k, v in vars(m).items() if isinstance(v, DAG)}
    return {name: _without_places(DagSerialization.to_dict(dag)) for name, dag in every.items()}


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        gone = ("fileloc", "relative_fileloc", "_processor_dags_folder", "bundle_name")
        return {k: _without_places(v) for k, v in value.items() if k not in gone}
    return [_without_places(v) for v in value] if isinstance(value, list) else value


def helps() -> Iterator[str]:
    """What `tideline --help` prints, and `tideline COMMAND --help` of each command."""
    parser = build_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, _SubParsersAction))
    with patch.dict(os.environ, {"COLUMNS": "100"}):
        yield parser.format_help()
        for name, command in commands.choices.items():
            yield f"\n\n=== tideline {name} --help\n\n{command.format_help()}"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, contents in golden().items():
        (FOLDER / file).write_text(contents)
    sys.exit(0)
