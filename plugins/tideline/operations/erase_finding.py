"""Which records are of a key: by decoded columns, by Kafka's raw key, by the bytes in quarantine.

Nothing is written. A record of the raw table that is nowhere decoded, a tombstone that was dropped
or a quarantined record, is found by its raw key, if all decoded records of that key are meant.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import BadInput, TidelineError
from tideline.landing.context import RunContext, log
from tideline.model.erasing import RAW_KEY, ErasedFrom, StillInKafka, key_hash, record_hash
from tideline.model.head import Head
from tideline.model.maintenance import TableRole
from tideline.model.offsets import (
    CoordinateRange,
    OffsetRange,
    PartitionIdentity,
    as_ranges,
    intersect,
    union,
)
from tideline.model.wording import not_among
from tideline.table.port import MaintainedTablePort, TablePort

_COORDINATES = ("topic_id", "generation", "partition", "offset")
_SHORTEST = 4
"""Bytes of a value that is looked for in quarantined records: a shorter one is in many of them."""

Place = tuple[PartitionIdentity, int]
Key = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AskedKeys:
    """The keys whose records are to go.

    Args:
        keys: Values by column of the typed table, as texts; a record of any of them is meant.
        raw_keys: Kafka's keys, exactly.
    """

    keys: tuple[Key, ...] = ()
    raw_keys: tuple[bytes, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """What keys are given by."""
        named = [",".join(key) for key in self.keys] + [RAW_KEY] * bool(self.raw_keys)
        return tuple(dict.fromkeys(named))

    def hashes(self, secret: str) -> tuple[str, ...]:
        """The keyed hash of each key."""
        named = [(",".join(k), json.dumps([*k.values()]).encode()) for k in self.keys]
        named += [(RAW_KEY, raw) for raw in self.raw_keys]
        return tuple(dict.fromkeys(key_hash(secret, name, value) for name, value in named))


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Where the records are, and what tells their raw keys.

    Args:
        ranges: Their coordinates, and no others.
        hashes: Of the raw keys that only they have.
        shared: How many raw keys other records have as well.
        undecided: Quarantined records that may be of a key.
    """

    ranges: tuple[CoordinateRange, ...]
    hashes: tuple[str, ...]
    shared: int
    undecided: int


def read_keys(path: Path) -> tuple[Key, ...]:
    """The keys in a CSV file, whose first line names columns.

    Raises:
        BadInput: It cannot be read, or a line is no key; no message shows a key.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            columns, *lines = [line for line in csv.reader(file) if line] or [[]]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"keys from {path}: cannot be read: {type(error).__name__}") from error
    if not columns or not lines:
        raise BadInput(f"keys from {path}: got no key; allowed: a line of columns, then keys")
    for number, line in enumerate(lines, 2):
        if len(line) != len(columns) or not all(line):
            raise BadInput(
                f"keys from {path}: key {number - 1}: got {len(line)} values, or an empty one;"
                f" allowed: one for each of {', '.join(columns)}"
            )
    return tuple(dict(zip(columns, line, strict=True)) for line in lines)


def find_records(run: RunContext, asked: AskedKeys, head: Head, secret: str) -> FoundRecords:
    """Look for the records of keys in all tables; reads key columns, and of quarantine all.

    Args:
        run: This run.
        asked: Whose.
        head: Knows the topics' names.
        secret: Of the hashes.

    Raises:
        BadInput: A column is none of the typed table, or a value does not fit it; or nothing is
            decoded.
        ServiceAway: A store is away.
    """
    found = _by_columns(run, asked.keys)
    raw = (dict.fromkeys(("key",), key.hex()) for key in asked.raw_keys)
    found |= {_place(row) for row in _rows_with(run.table, [*raw])}
    bad = _quarantined(run)
    words = [[_word(text.encode()) for text in key.values()] for key in asked.keys]
    words = [w for w, key in zip(words, asked.keys, strict=True) if _is_long(key)]
    found |= {place for place, (key, value) in bad.items() if _is_among(words, key, value)}
    told = _raw_keys(run, found - {*bad}, head)  # bytes in quarantine say nothing of their key
    claimed, shared = _claimed(run, found, {k for k in told.values() if k[0] is not None}, head)
    found |= claimed
    own = {key for key in told.values() if key[0] not in shared}
    hashes = {record_hash(secret, key, value) for key, value in own}
    undecided = sum(place not in found for place in bad) if asked.keys else 0
    return FoundRecords(ranges_of(found, head), tuple(sorted(hashes)), len(shared), undecided)


def _by_columns(run: RunContext, keys: Sequence[Key]) -> set[Place]:
    if not keys:
        return set()
    if run.typed is None:
        raise BadInput(
            f"--key: stream {run.stream.stream} decodes nothing, so no column is known; allowed:"
            " --raw-key, Kafka's key as it is"
        )
    columns = [str(c["name"]) for c in run.typed.decoded.columns()]
    for name in dict.fromkeys(name for key in keys for name in key):
        if name not in columns or name in _COORDINATES:
            known = [c for c in columns if c not in _COORDINATES]
            raise BadInput(f"--key: column of the typed table: {not_among(name, known)}")
    by_names: dict[tuple[str, ...], list[Key]] = defaultdict(list)
    for key in keys:
        by_names[tuple(key)].append(key)
    found = set[Place]()
    for names, group in by_names.items():
        try:
            found |= {_place(row) for row in _rows_with(run.typed.decoded, group)}
        except BadInput:  # it shows the value
            types = {str(c["name"]): c["type"] for c in run.typed.decoded.columns()}
            kinds = ", ".join(f"{name} is {types[name]}" for name in names)
            raise BadInput(
                f"--key: got a value that its column cannot have; allowed: {kinds}"
            ) from None
    return found


def _rows_with(table: TablePort, keys: Sequence[Key]) -> list[dict[str, object]]:
    return table.rows_with(keys, _COORDINATES) if keys else []


def _quarantined(run: RunContext) -> dict[Place, tuple[bytes | None, bytes | None]]:
    if run.typed is None:
        return {}
    rows = run.typed.quarantine.rows_at(None, ("key", "value"))
    return {_place(row): (row["key"], row["value"]) for row in rows}


def _is_long(key: Key) -> bool:
    return all(len(text.encode()) >= _SHORTEST for text in key.values())


def _is_among(
    words: Sequence[Sequence[re.Pattern[bytes]]], key: bytes | None, value: bytes | None
) -> bool:
    """Whether a record that cannot be decoded has the values of a key among its bytes."""
    both = (key or b"") + b"\0" + (value or b"")
    return any(all(word.search(both) for word in of_key) for of_key in words)


def _word(text: bytes) -> re.Pattern[bytes]:
    """A value that is no part of a longer one."""
    return re.compile(rb"(?<![0-9A-Za-z_])" + re.escape(text) + rb"(?![0-9A-Za-z_])")


def _raw_keys(
    run: RunContext, found: set[Place], head: Head
) -> dict[Place, tuple[bytes | None, bytes | None]]:
    """What tells each found record: its raw key, or its value where it has none."""
    if not found:
        return {}
    rows = run.table.rows_at(ranges_of(found, head), ("key",))
    told: dict[Place, tuple[bytes | None, bytes | None]]
    told = {_place(row): (row["key"], None) for row in rows}
    if without := {place for place, (key, _) in told.items() if key is None}:
        rows = run.table.rows_at(ranges_of(without, head), ("value",))
        told |= {_place(row): (None, row["value"]) for row in rows}
    return told


def _claimed(
    run: RunContext, found: set[Place], told: set[tuple[bytes | None, bytes | None]], head: Head
) -> tuple[set[Place], set[bytes | None]]:
    """Records of the same raw keys that are nowhere decoded, and the keys that others have."""
    keys = [{"key": key.hex()} for key, _ in told if key is not None]
    rows = run.table.rows_with(keys, (*_COORDINATES, "key")) if keys else []
    others = {_place(row): row["key"] for row in rows if _place(row) not in found}
    if not others:
        return set(), set()
    decoded = set[Place]()
    if run.typed is not None:
        typed = run.typed.decoded.rows_at(ranges_of({*others}, head), ("is_tombstone",))
        decoded = {_place(row) for row in typed if not row["is_tombstone"]}
    else:  # the raw keys themselves were asked for
        decoded = {*others}
    shared: set[bytes | None] = {others[place] for place in decoded & {*others}}
    return {place for place, key in others.items() if key not in shared}, shared


def _place(row: Mapping[str, object]) -> Place:
    log = (str(row["topic_id"]), int(str(row["generation"])), int(str(row["partition"])))
    return PartitionIdentity(*log), int(str(row["offset"]))


def ranges_of(places: Iterable[Place], head: Head) -> tuple[CoordinateRange, ...]:
    """Places as ranges with their topics' names."""
    logs: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
    for identity, offset in places:
        logs[identity].append(OffsetRange(offset, offset + 1))
    return as_ranges({i: union(offsets) for i, offsets in logs.items()}, head.topic_names)


def in_table(
    role: TableRole, table: MaintainedTablePort, ranges: Sequence[CoordinateRange], undecided: int
) -> ErasedFrom | None:
    """What a table holds at coordinates; None where it is not there.

    Raises:
        ServiceAway: A store is away.
    """
    size = table.size()
    if size is None:
        return None
    paths = {*table.files_at(ranges, size.version)}
    files = [f for f in table.files(size.version) if f.path in paths]
    rows = sum(part.rows for part in table.landed(ranges, size.version).values())
    return ErasedFrom(
        role,
        table.uri,
        rows,
        len(files),
        sum(f.bytes for f in files),
        undecided if role == "quarantine" else 0,
    )


def still_in_kafka(run: RunContext, ranges: Sequence[CoordinateRange]) -> tuple[StillInKafka, ...]:
    """What Kafka still serves of erased records; a courtesy, which never fails an erasure."""
    topics = {r.topic for r in ranges}
    try:
        seen = run.kafka.observe(topics, {})
        kept = run.kafka.retention_ms(topics)
    except TidelineError as error:
        log.warning("what Kafka still has is unknown: %s", error)
        return ()
    counts: dict[str, int] = defaultdict(int)
    today = {t.topic_id: t for t in seen.topics if t.topic_id is not None}
    for r in ranges:
        topic = today.get(r.topic_id)
        partition = topic.partition(r.partition) if topic is not None else None
        start = partition.log_start_offset if partition is not None else None
        if start is not None:
            there = intersect([r.offsets], [OffsetRange(start, max(start, r.end_offset))])
            counts[r.topic] += sum(map(len, there))
    return tuple(StillInKafka(t, n, kept.get(t)) for t, n in sorted(counts.items()) if n)
