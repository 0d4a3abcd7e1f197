"""The JSON Schema of everything in the contract; `make schema` writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from tideline.contract import answers, events
from tideline.contract.parts import Shape

COMMANDS: Mapping[str, tuple[type[Shape], ...]] = {
    "validate": (answers.Validation,),
    "diff": (answers.Edits,),
    "init": (answers.Begun,),
    "discover": (answers.Discovered,),
    "doctor": (answers.Diagnosis,),
    "status": (answers.Statuses,),
    "explain": (answers.Explained, answers.ExplainedKey),
    "plan": (answers.Plan,),
    "run": (answers.Run, answers.RunFailure, answers.FleetRun),
    "decode": (answers.Decoded, answers.DecodedAgain),
    "fold": (answers.Folded, answers.CurrentChecked),
    "sweep": (answers.Swept,),
    "current": (answers.CurrentView,),
    "redrive": (answers.Redriven,),
    "ledger": (answers.Ledger,),
    "incident": (answers.Incidents,),
    "resolve": (answers.Resolution,),
    "audit": (answers.Audit,),
    "rewind": (answers.Rewound, answers.NotRewound, answers.RewindFailure),
    "maintain": (answers.Maintenance,),
    "erase": (answers.Erased,),
    "erasures": (answers.Erasures,),
    "move-ledger": (answers.Move,),
    "fetch": (answers.Fetched,),
    "demo": (answers.Demo,),
}
"""What each command can print with `--json`; besides, each can print a `Failure`."""

OTHERS: Mapping[str, tuple[type[Shape], ...]] = {
    "landed-event": (events.LandedEvent,),
    "decoded-event": (events.DecodedEvent,),
    "folded-event": (events.FoldedEvent,),
    "audited-event": (events.AuditedEvent,),
    "xcom-ingest_ranges": (events.TableCommit,),
    "xcom-decode_rows": (events.DecodeCommits,),
    "xcom-fold_changes": (events.FoldCommit,),
    "xcom-rewind_stream": (events.RewindReport, events.NoRewindReport),
    "xcom-land_shard": (events.LandedShard,),
    "xcom-maintain_stream": (answers.Maintenance,),
    "xcom-redrive_records": (answers.Redriven,),
    "stack-file": (answers.StackFile,),
}
"""What leaves the program in other ways."""

LISTS: Mapping[str, type[Shape]] = {"xcom-erase_records": answers.Erased}
"""What leaves it as a list: of what."""
NAMES: Mapping[str, str] = {
    "CoordinateRange": "Coordinates",
    "Lost": "UndoneRows",
    "OffsetRange": "Offsets",
    "PartitionIdentity": "Identity",
}
"""Classes of the model whose definitions have another name."""
_FAILURES = (answers.RefusedFiles, answers.Failure)


class _Plain(GenerateJsonSchema):
    """Without a field's title, which repeats its name, and without a constructor's defaults."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def dataclass_field_schema(self, schema: Any) -> dict[str, Any]:
        value = schema["schema"]
        is_told = value["type"] != "default" or value.get("default") == ()
        return self.generate_inner(value if is_told else value["schema"])


def output_schema() -> str:
    """The schema as JSON text with a final newline; `$defs` has an entry per answer."""
    kinds: dict[str, tuple[type[Shape], ...]] = {
        **{name: (*shapes, *_FAILURES) for name, shapes in COMMANDS.items()},
        **OTHERS,
    }
    listed = [*kinds.values(), tuple(LISTS.values())]
    wanted = dict.fromkeys(shape for shapes in listed for shape in shapes)
    references, schema = models_json_schema(
        [(shape, "serialization") for shape in wanted], schema_generator=_Plain
    )
    definitions = dict(schema["$defs"])
    for name, shapes in kinds.items():
        definitions[name] = _any_of([references[shape, "serialization"] for shape in shapes])
    for name, shape in LISTS.items():
        definitions[name] = {"type": "array", "items": references[shape, "serialization"]}
    definitions["xcom-resolve_incidents"] = {"type": "array", "items": {"type": "string"}}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tideline's output",
        "description": "Refer to one definition, for example #/$defs/run for `tideline run --json`."
        " Later versions may add keys.",
        "$defs": definitions,
    }
    return json.dumps(published(whole), indent=2, sort_keys=True) + "\n"


def published(schema: Any) -> Any:
    """A schema whose definitions have the names of `NAMES`, and speak of JSON.

    The docstring of a dataclass becomes a description with a paragraph for each argument.
    """
    if isinstance(schema, list):
        return [published(part) for part in schema]
    if isinstance(schema, str):
        place, slash, name = schema.rpartition("/")
        return f"{place}{slash}{NAMES.get(name, name)}"
    if not isinstance(schema, dict):
        return schema
    found = {NAMES.get(key, key): published(value) for key, value in schema.items()}
    if "properties" in found and "description" in found:
        found["description"] = _described(found["description"])
    return found


def _described(docstring: str) -> str:
    text, _, _ = docstring.partition("\n\nRaises:\n")
    summary, is_dataclass, rest = text.partition("\n\nArgs:\n")
    if not is_dataclass:
        return summary
    arguments = re.sub(r"\n {8}", " ", rest).splitlines()
    items = (re.sub(r"^ +(\w+):", r"`\1`:", argument) for argument in arguments)
    return "\n\n".join([summary, *items]).replace(". None", ". Null").replace("None", "null")


def _any_of(references: list[dict[str, Any]]) -> dict[str, Any]:
    return references[0] if len(references) == 1 else {"anyOf": references}


if __name__ == "__main__":
    print(output_schema(), end="")
