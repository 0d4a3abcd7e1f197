"""What an edit of a live stream's file does: at once, from the next run on, to later records only.

One table says it for each key; `tideline diff` reads it. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tideline.stream.fleet_file import Fleet
from tideline.stream.stream import Stream

When = Literal["parse", "next_run", "later_records", "refused"]
WHEN: Mapping[When, str] = {
    "parse": "as soon as Airflow has parsed the file",
    "next_run": "from the next run on",
    "later_records": "for records that are landed or decoded from then on",
    "refused": "not by an edit alone",
}

_NEW_TABLES = "two new addresses, of table and quarantine: all that is landed is decoded again"
_AGAIN = "earlier rows: tideline decode FILE --again"
_JUDGED = f"quarantined ones: tideline redrive FILE --class expectation. {_AGAIN}"
_TOLD = f"quarantined ones: tideline redrive FILE --class other_type. {_AGAIN}"
_NEW_CURRENT = "choose another address for the current table: a new table is built there"
_MOVED = "tideline move-ledger FILE moves the ledger as well; otherwise the next run halts"
EFFECTS: Mapping[str, tuple[When, str]] = {
    "stream": ("refused", "another name is another stream: ledger and tables belong to this one"),
    "kafka.connection": ("next_run", "has to lead to the same cluster: cluster_changed halts"),
    "kafka.topics": (
        "next_run",
        "a new topic begins as `start` says; a removed topic keeps its rows and its position",
    ),
    "kafka.topic_pattern": ("next_run", "as for topics"),
    "kafka.isolation_level": ("later_records", ""),
    "kafka.commit_group": ("next_run", ""),
    "table.uri": (
        "refused",
        "a ledger knows one table. With a new ledger, by default beside the new table, everything"
        " lands again from `start` on",
    ),
    "table.connection": ("next_run", ""),
    "table.partition_by": ("refused", "fixed when the table was created"),
    "schedule": ("parse", ""),
    "timezone": ("parse", ""),
    "trigger": ("parse", "asked for within seconds; a new Dag once it is parsed"),
    "start": ("later_records", "only topics and partitions that have no position yet"),
    "limits": ("next_run", "a run whose plan is frozen keeps it"),
    "on_reset": ("next_run", "incidents that are open wait for their decision as before"),
    "on_incident": ("next_run", ""),
    "gaps": ("next_run", ""),
    "patience_seconds": ("next_run", ""),
    "headroom_warning_seconds": ("next_run", ""),
    "ledger": ("refused", _MOVED),
    "ledger_uri": ("refused", _MOVED),
    "ledger_connection": ("refused", _MOVED),
    "spark": ("next_run", ""),
    "registry": ("next_run", "schemas that are known are not asked for again"),
    "decode.value": ("later_records", f"{_AGAIN}. A schema that does not fit the table halts"),
    "decode.value.types": (
        "later_records",
        "records of a new type: tideline redrive FILE --class other_type. A type that has a table"
        " stays in the file: ended: true gives it no more rows",
    ),
    "decode.value.types.subject": ("later_records", _TOLD),
    "decode.value.types.record": ("later_records", _TOLD),
    "decode.value.types.fields": ("later_records", _AGAIN),
    "decode.value.types.expect": ("later_records", _JUDGED),
    "decode.key": ("later_records", f"{_AGAIN}. A schema that does not fit the table halts"),
    "decode.table.uri": ("refused", _NEW_TABLES),
    "decode.table.partition_by": ("refused", f"fixed when the table was created; {_NEW_TABLES}"),
    "decode.table.own_columns": ("later_records", f"a new one is null before. {_AGAIN}"),
    "decode.quarantine.uri": ("refused", _NEW_TABLES),
    "decode.quarantine.max_share": ("next_run", ""),
    "decode.on_schema": ("next_run", ""),
    "decode.on_value": (
        "later_records",
        f"quarantined ones: tideline redrive FILE --class out_of_range. {_AGAIN}",
    ),
    "decode.event_time": ("later_records", _AGAIN),
    "decode.tombstones": (
        "later_records",
        f"{_AGAIN}. Until then, where they were dropped, the audit calls them missing, and a fold"
        " of all changes halts",
    ),
    "decode.expect": ("later_records", _JUDGED),
    "decode.transform": ("later_records", f"a clear runs the function as it is then. {_AGAIN}"),
    "decode": ("next_run", "everything that is landed is decoded, or nothing more is"),
    "current.table.uri": ("next_run", "a new table is built there"),
    "current.type": ("refused", _NEW_CURRENT),
    "current.table.buckets": ("refused", _NEW_CURRENT),
    "current.key": ("refused", _NEW_CURRENT),
    "current.sequence_by": ("refused", _NEW_CURRENT),
    "current.keep_deleted": ("next_run", ""),
    "current.deletes": ("next_run", "the current table is rebuilt, once"),
    "current.every": ("next_run", ""),
    "current": ("next_run", "everything that is decoded is folded, or nothing more is"),
    "catalog": ("next_run", "a new name is made; the old one stays where it is"),
    "maintenance": ("next_run", "of the maintenance"),
    "airflow": ("parse", "runs that are under way keep what they began with"),
}


FLEET_EFFECTS: Mapping[str, tuple[When, str]] = {
    "fleet": ("refused", "another name is another fleet, with a list of topics of its own"),
    "topic_pattern": (
        "next_run",
        "topics that no longer match keep their tables, and are not landed",
    ),
    "topics": ("next_run", "one that is left out keeps its table, and is not landed"),
    "leave_out": ("next_run", "a topic there keeps its table, and is not landed"),
    "max_topics": ("next_run", ""),
    "topics_file": (
        "refused",
        "move the list of topics along first: without it what is gone is lost",
    ),
    "names": ("refused", "another name is another stream: ledger and tables belong to this one"),
    "discover": ("parse", ""),
    "shards": ("parse", "a run that has begun keeps its number of tasks"),
    "threads": ("next_run", ""),
    "stream": ("next_run", "of each topic: as for a stream file"),
    "overrides": ("next_run", "of that topic: as for a stream file"),
}
_OF_TYPES = ["decode", "value", "types"]
_OF_STREAMS = {"stream": 1, "overrides": 2}
"""How many levels of a fleet file's section stand above the keys of a stream."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A key that two files of a stream do not have alike.

    Args:
        key: With dots between levels.
        old, new: As texts; None where one is nothing.
        when: Since when it counts.
        text: What else there is to say; may be empty.
    """

    key: str
    old: str | None
    new: str | None
    when: When
    text: str


def edits(old: Stream, new: Stream) -> tuple[Edit, ...]:
    """The keys that differ, in the order of a stream file."""
    one, other = (s.model_dump(mode="json", by_alias=True) for s in (old, new))
    return tuple(
        Edit(".".join(path), _text(before), _text(after), *effect_of(".".join(path)))
        for path, before, after in _differing(one, other)
    )


def fleet_edits(old: Fleet, new: Fleet) -> tuple[Edit, ...]:
    """The keys of a fleet file that differ; those of its streams as of stream files."""
    one, other = (f.model_dump(mode="json", by_alias=True) for f in (old, new))
    found = []
    for path, before, after in _differing(one, other):
        inside = path[_OF_STREAMS.get(path[0], len(path)) :]
        when, text = effect_of(".".join(inside)) if inside else FLEET_EFFECTS[path[0]]
        found.append(Edit(".".join(path), _text(before), _text(after), when, text))
    return tuple(found)


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def effect_of(key: str) -> tuple[When, str]:
    """What an edit of a key does; that of the section it is in, where it has none of its own.

    Raises:
        KeyError: Nobody has said it.
    """
    parts = key.split(".")
    if parts[:3] == _OF_TYPES and len(parts) > len(_OF_TYPES) + 1:
        del parts[len(_OF_TYPES)]  # the type's name
    for length in range(len(parts), 0, -1):
        if (found := EFFECTS.get(".".join(parts[:length]))) is not None:
            return found
    raise KeyError(key)


def _differing(
    one: Mapping[str, Any], other: Mapping[str, Any], at: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object, object]]:
    for key in dict.fromkeys((*one, *other)):
        before, after = (_by_name(data.get(key)) for data in (one, other))
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differing(before, after, (*at, key))
        elif before != after:
            yield (*at, key), before, after


def _by_name(value: Any) -> Any:
    """A list of mappings with names, as expectations and event types, by these."""
    for name in ("name", "type") if isinstance(value, list) and value else ():
        if all(isinstance(one, dict) and name in one for one in value):
            return {one[name]: one for one in value}
    return value
