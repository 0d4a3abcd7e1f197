"""Stored documents as JSON that can age: each carries the number of its format.

Stored are the ledger's documents and history entries, the relocation marker, a Spark job's job and
result files, and the manifest of the data files that it has written. Everything nested in a
document (a run's plan, for example) shares its number.

    dump    writes the present format; the number comes first
    load    reads the present format, upgrades older ones, and refuses everything else:
            a newer format, an unknown field at any depth, a wrong value, damaged JSON

A field is renamed, moved, added without a default, or given another meaning: add a step to
`_UPGRADES` (docs/adr/0017-stored-documents-carry-a-format-number.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tideline.errors import NewerFormat, UnreadableDocument

Value = TypeVar("Value")
_Data = dict[str, Any]
_Upgrade = Callable[[_Data], _Data]


def _renamed(data: _Data, old: str, new: str) -> _Data:
    """A copy with a field under its new name; both names at once are left to be refused."""
    return {new if k == old and new not in data else k: v for k, v in data.items()}


def _each(data: _Data, field: str, change: _Upgrade) -> _Data:
    """A copy with a change made to every object in a list; damaged lists stay as they are."""
    items = data.get(field)
    if not isinstance(items, list):
        return data
    return {**data, field: [change(i) if isinstance(i, dict) else i for i in items]}


def _gap_2(gap: _Data) -> _Data:
    return {**gap, "reason": "compacted_batch"} if gap.get("reason") == "thinned" else gap


def _gaps_2(data: _Data) -> _Data:
    return _each(data, "gaps", _gap_2)


def _incident_2(incident: _Data) -> _Data:
    return _renamed(incident, "doubtful", "unverified")


def _read_range_2(planned: _Data) -> _Data:
    """What was observed when a removed range was planned says nothing about the removal."""
    observed = ("log_start_offset", "high_watermark", "last_stable_offset")
    return {k: v for k, v in planned.items() if k not in observed}


def _coordinates_2(planned: _Data) -> _Data:
    return {k: v for k, v in _read_range_2(planned).items() if k != "leader_epoch"}


def _lost_2(lost: _Data) -> _Data:
    planned = lost.get("planned")
    return {**lost, "planned": _read_range_2(planned)} if isinstance(planned, dict) else lost


def _rewind_2(rewind: _Data) -> _Data:
    return _each(_each(rewind, "removes", _read_range_2), "lost", _lost_2)


def _control_2(control: _Data) -> _Data:
    control = _each(control, "incidents", _incident_2)
    rewind = control.get("rewind")
    return {**control, "rewind": _rewind_2(rewind)} if isinstance(rewind, dict) else control


def _head_2(head: _Data) -> _Data:
    return _renamed(head, "excused", "accepted_loss")


def _run_2(run: _Data) -> _Data:
    run = _renamed(run, "landing", "table_commit")
    run = _each(_each(run, "verified", _gaps_2), "evidence", _gaps_2)
    return _each(run, "resolved", _incident_2)


def _job_2(job: _Data) -> _Data:
    words = {"write": "append_files", "land": "replace_where"}
    action = job.get("action")
    job = {**job, "action": words.get(action, action)} if isinstance(action, str) else job
    return _each(job, "ranges", _coordinates_2)


def _job_3(job: _Data) -> _Data:
    """A job that only read; others replaced rows themselves, so their action stays and is refused.

    A job says where its files go, and no longer how they are committed.
    """
    if job.get("action") != "append_files":
        return job
    gone = ("action", "ledger_id", "token", "app_id", "staged_rows")
    kept = {k: v for k, v in job.items() if k not in gone}
    return {"folder": f"landed-{job.get('plan_id')}-{job.get('token')}", **kept}


def _result_3(result: _Data) -> _Data:
    """A manifest names the files."""
    return {k: v for k, v in result.items() if k != "files"}


_UPGRADES: tuple[Mapping[str, _Upgrade], ...] = (
    {  # 1 -> 2: the first format carries no number; fields and actions got the field's words
        "Control": _control_2,
        "Head": _head_2,
        "Incident": _incident_2,
        "Rewind": _rewind_2,
        "RunRecord": _run_2,
        "SparkJob": _job_2,
    },
    {  # 2 -> 3: fields were added, each with a default; Spark only writes files, the run commits
        "SparkJob": _job_3,
        "SparkResult": _result_3,
    },
    {},  # 3 -> 4: who has asked for a run or a redrive, with a default
)
"""Step n turns format n + 1 into n + 2: a pure function of the parsed JSON per kind of document.

A step never looks at today's classes, so it stays right when they change. The names are those of
the classes; a kind without an entry did not change.
"""
FORMAT = len(_UPGRADES) + 1
"""The format that this version writes, and the newest one that it reads."""

_PREFIX = f'{{"format":{FORMAT},'
_ADAPTERS: dict[type[Any], TypeAdapter[tuple[Any]]] = {}


def dump(value: Any) -> str:
    """Compact JSON of a document in the present format, its number first."""
    body = _adapter(type(value)).dump_json((value,)).decode()  # [{...}]
    return _PREFIX + body[2:-1]


def load(kind: type[Value], text: str | bytes, where: str) -> Value:
    """The document in a JSON text, upgraded to the present format.

    Args:
        kind: What the document is, a dataclass.
        text: The JSON; one without a number is of format 1.
        where: Ledger and document, or the file, for messages.

    Raises:
        UnreadableDocument: It is no JSON object, or has an unknown field or a wrong value.
    """
    try:
        text = text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(where, str(error)) from error
    try:
        if text.startswith(_PREFIX):  # as this version writes it: parsed and checked in one go
            (value,) = _adapter(kind).validate_json("[{" + text[len(_PREFIX) :] + "]")
        else:
            (value,) = _adapter(kind).validate_python((_upgraded(kind, text, where),))
    except ValidationError as error:
        # Not "from error": its text shows values, and a job's are secret.
        raise _unreadable(where, _first_problem(kind, error)) from None
    found: Value = value
    return found


def refuse_newer(text: str, where: str) -> None:
    """Make sure that a document is in a format that this version reads; its fields may be wrong.

    Raises:
        NewerFormat: A newer version of Tideline wrote it.
    """
    if not text.startswith(_PREFIX):
        _parsed(text, where)


def _adapter(kind: type[Any]) -> TypeAdapter[tuple[Any]]:
    """Checks and writes documents of a kind, each in a list of one.

    The list carries "extra: forbid": pydantic hands it down to every dataclass inside that has no
    configuration of its own, and takes none for a dataclass itself.
    """
    if kind not in _ADAPTERS:
        one: Any = tuple.__class_getitem__(kind)  # tuple[kind], which mypy takes for a type
        _ADAPTERS[kind] = TypeAdapter(one, config=ConfigDict(extra="forbid"))
    return _ADAPTERS[kind]


def _upgraded(kind: type[Any], text: str, where: str) -> _Data:
    number, data = _parsed(text, where)
    for step in _UPGRADES[number - 1 :]:
        upgrade = step.get(kind.__name__)
        data = data if upgrade is None else upgrade(data)
    return data


def _parsed(text: str, where: str) -> tuple[int, _Data]:
    """The format's number, and the document without it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(where, f"invalid JSON: {error}") from error
    if not isinstance(data, dict):
        raise _unreadable(where, f"a JSON {type(data).__name__} instead of an object")
    number = data.pop("format", 1)
    if type(number) is not int or number < 1:  # True is no number here
        raise _unreadable(where, f"format {number!r} instead of a whole number from 1")
    if number > FORMAT:
        raise NewerFormat(
            f"{where} has format {number}; this version of Tideline reads formats up to {FORMAT}:"
            " upgrade Tideline here; nothing was changed",
            format=number,
            supported=FORMAT,
        )
    return number, data


def _first_problem(kind: type[Any], error: ValidationError) -> str:
    """What is wrong, unknown fields first; never a value."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    unknown = [p for p in problems if p["type"] == "unexpected_keyword_argument"]
    problem = (unknown or problems)[0]
    path = problem["loc"][1:]
    field = ".".join(map(str, path))
    if not unknown:
        return f"field {field}: {problem['msg']}" if field else problem["msg"]
    holder = _dataclass_at(kind, path[:-1])
    return f"unknown field {field}; allowed there: {', '.join(f.name for f in fields(holder))}"


def _dataclass_at(hint: Any, path: Sequence[int | str]) -> Any:
    """The dataclass at a path of fields and list positions."""
    for step in path:
        if get_origin(hint) is Mapping:
            hint = get_args(hint)[1]
        elif isinstance(step, str):
            hint = get_type_hints(_dataclass_in(hint))[step]
    return _dataclass_in(hint)


def _dataclass_in(hint: Any) -> Any:
    """The dataclass in a type such as `tuple[Incident, ...]` or `Plan | None`."""
    hint = getattr(hint, "ENTRY", hint)  # of Places
    if is_dataclass(hint):
        return hint
    return next(filter(None, map(_dataclass_in, get_args(hint))), None)


def _unreadable(where: str, what: str) -> UnreadableDocument:
    return UnreadableDocument(
        f"{where} cannot be read: {what}. It is damaged, was edited, or was written by another"
        " version of Tideline: use that version, or restore the document; nothing was changed"
    )
