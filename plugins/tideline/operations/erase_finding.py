"""Which records are of a key: by decoded columns, or by Kafka's raw key.

Nothing is written. A record of the raw table that is nowhere decoded, a tombstone that was dropped
or a quarantined record, is found by its raw key, if all decoded records of that key are meant. That
its bytes hold a key proves nothing: it is listed, and taken only where somebody says so.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tideline.errors import BadInput, TidelineError
from tideline.landing.context import RunContext, log
from tideline.landing.observing import observe_topics
from tideline.ledger.state import LedgerState
from tideline.model.decoding import NO_CHANGE
from tideline.model.erasures import (
    RAW_KEY,
    ErasedFrom,
    StillInKafka,
    key_hash,
    raw_key_hash,
    record_hash,
)
from tideline.model.head import Head
from tideline.model.maintenance import TableKind, TableRole, kind_of
from tideline.model.offsets import (
    CoordinateRange,
    OffsetRange,
    TopicPartition,
    intersect,
)
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import places_of
from tideline.model.wording import did_you_mean, first_few, how_many, key_shown, system_message
from tideline.operations.erase_history import (
    COORDINATES,
    Histories,
    Place,
    histories,
    key_of,
    place_of,
    ranges_of,
    texts_of,
)
from tideline.operations.former_tables import Former
from tideline.table.scans import rows_at
from tideline.table.table_port import MaintainedTablePort, TablePort
from tideline.texts import read_regular

KEYS = "TIDELINE_ERASE_KEYS"
"""Names the folder for the files of keys that a form may name."""
_MOST_BYTES = 10_000_000
_SHORTEST = 4
"""Bytes of a value that is looked for in records: a shorter one is in many of them."""
_ROUNDING = ("float", "double", "boolean")
"""Types that more than one given value becomes the same value of."""
_AS_WRITTEN = {
    **dict.fromkeys(("long", "integer", "short", "byte"), ", in digits"),
    "date": ", as 2026-01-31",
    "timestamp": ", as 2026-01-31T00:00:00Z, with its offset from UTC",
    "timestamp_ntz": ", as 2026-01-31T00:00:00",
    "binary": ", in hexadecimal digits",
}
"""How a value of a type is given, for messages."""
_SAY_BARE: tuple[tuple[TableKind, str, object], ...] = (
    ("decoded", "is_tombstone", True),
    ("quarantine", "error_class", NO_CHANGE),
)
"""What tables say of a record that has bytes and no value: as a tombstone that is kept, or not."""

Key = Mapping[str, str]
Record = tuple[bytes | None, bytes | None]
ByRole = dict[TableKind, list[TablePort]]


@dataclass(frozen=True, slots=True)
class AskedKeys:
    """The keys whose records are to go.

    Args:
        keys: Values by column of the typed table, as texts; a record of any of them is meant.
        raw_keys: Kafka's keys, exactly.
        by_bytes: Whether records are meant whose bytes hold a key, and that nothing else tells.
        whole_keys: Whether all changes go of keys of the current table that would be older rows.
    """

    keys: tuple[Key, ...] = ()
    raw_keys: tuple[bytes, ...] = ()
    by_bytes: bool = False
    whole_keys: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """What keys are given by."""
        named = [",".join(sorted(key)) for key in self.keys] + [RAW_KEY] * bool(self.raw_keys)
        return tuple(dict.fromkeys(named))

    def spelled(self, run: RunContext, former: Former) -> AskedKeys:
        """The same keys, as the columns of the typed table spell them, or of one of before.

        Of several event types' tables, the first one decides that can have the key.

        Raises:
            BadInput: Nothing is decoded, a column is none of the typed table or rounds its values,
                or a value does not fit it; no message shows one.
        """
        if not self.keys:
            return self
        if run.typed is None:
            raise BadInput(
                f"--key: stream {run.stream.stream} decodes nothing, so no column is known;"
                " allowed: --raw-key, Kafka's key as it is"
            )
        tables = [t for t in _by_role(run, former)["decoded"] if t.columns()]
        types = {n: kind for t in reversed(tables) for n, kind in _types_of(t).items()}
        names = dict.fromkeys(name for key in self.keys for name in key)
        for number, name in enumerate(names, 1):
            if name not in types or name in COORDINATES:  # it may be a key
                known = [n for n in types if n not in COORDINATES]
                raise BadInput(
                    f"--key: column {number} of the keys is none of the typed table"
                    f"{did_you_mean(name, known)} allowed: {first_few(known, 20)}"
                )
            if types[name] in _ROUNDING:
                raise BadInput(
                    f"--key: {name} is {types[name]}: several keys are one value of it, so other"
                    " people's records would be found; allowed: --raw-key, or another column"
                )
        try:
            own = [t for t in run.typed.by_type.values() if t.columns()]
            return replace(self, keys=tuple(_spelled(own, tables, self.keys)))
        except BadInput:  # it shows the value
            kinds = ", ".join(
                f"{name} is {types[name]}{_AS_WRITTEN.get(types[name], '')}" for name in names
            )
            raise BadInput(
                f"--key: got a value that its column cannot have; allowed: {kinds}"
            ) from None

    def hashes(self, secret: str) -> tuple[str, ...]:
        """The keyed hashes of the keys, each once, in whatever order columns were given."""
        return tuple(dict.fromkeys(self.each_hash(secret)))

    def each_hash(self, secret: str) -> tuple[str, ...]:
        """The hash of each key, and then of each raw key."""
        sorted_keys = [dict(sorted(key.items())) for key in self.keys]
        named = [(",".join(k), json.dumps([*k.values()]).encode()) for k in sorted_keys]
        named += [(RAW_KEY, raw) for raw in self.raw_keys]
        return tuple(key_hash(secret, name, value) for name, value in named)


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Where the records are, and what tells their raw keys.

    Args:
        ranges: Their coordinates, and no others.
        unasked: Which tables some of the keys do not fit: their rows are found by other means only.
        had: Which of the keys, and then of the raw keys, have records, from 0.
        hashes: Of the raw keys that only they have, and of each other record.
        shared: How many raw keys other records have as well.
        undecided: Where records are whose bytes hold a key, and that nothing proves to be of it.
        unknown: How many records of a table no column tells, these included.
        older: The other changes of the current table's keys.
        keyless: How many of them no key of Kafka's tells.
        nowhere: How many of them no raw table has.
    """

    ranges: tuple[CoordinateRange, ...]
    hashes: tuple[str, ...] = ()
    shared: int = 0
    undecided: tuple[CoordinateRange, ...] = ()
    unknown: Mapping[TableRole, int] = field(default_factory=dict)
    older: Histories = Histories()  # noqa: RUF009
    keyless: int = 0
    nowhere: int = 0
    had: frozenset[int] = frozenset()
    unasked: tuple[str, ...] = ()


def keys_below(given: str) -> Path:
    """The file of keys that a form names, below the folder that the site names for them.

    A worker can read much that whoever fills in a form may not.

    Args:
        given: Its path, absolute or as seen from that folder.

    Raises:
        BadInput: The site names no folder, or the path leads out of it, whether a file is there or
            not.
    """
    named = Path(os.environ.get(KEYS) or "")
    if not named.is_absolute() or not named.is_dir():
        raise BadInput(
            f"keys_from: {KEYS} names no folder on this worker; allowed: the absolute path of a"
            " folder for files of keys. Who runs the workers sets it; `tideline erase --keys-from`"
            " in a shell needs none"
        )
    try:
        folder, path = named.resolve(), (named / given).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no path at all
        folder, path = named, Path()
    if not path.is_relative_to(folder):
        raise BadInput(f"keys_from: got a path elsewhere; allowed: one below the folder of {KEYS}")
    return path


def read_keys(path: Path) -> tuple[Key, ...]:
    """The keys in a CSV file, whose first line names columns.

    Raises:
        BadInput: It is no regular file, is too large, or cannot be read; or a line is no key. No
            message shows what is in it: the first line may be a key as well.
    """
    what = f"keys from {key_shown(path.name)}"
    try:
        text = read_regular(path, _MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise BadInput(f"{what}: more than {_MOST_BYTES:,} bytes; give several files")
        reader = csv.reader(StringIO(text.decode("utf-8-sig"), newline=""), strict=True)
    except UnicodeDecodeError:
        raise BadInput(f"{what}: cannot be read: it is no UTF-8") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{what}: cannot be read: {system_message(error)}") from error
    try:
        columns, *lines = [line for line in reader if line] or [[]]
    except csv.Error:
        why = "quotation marks in pairs, and fields of at most 131,072 characters"
        raise BadInput(f"{what}: line {reader.line_num} is no CSV; allowed: {why}") from None
    if not columns or not lines:
        raise BadInput(f"{what}: got no key; allowed: a line of columns, then keys")
    if len({*columns}) < len(columns):
        raise BadInput(f"{what}: a column is named twice")
    for number, line in enumerate(lines, 1):
        if len(line) != len(columns) or not all(line):
            raise BadInput(
                f"{what}: key {number}: got {how_many(len(line), 'value')}, or an empty value;"
                f" allowed: one value for each of {how_many(len(columns), 'column')}"
            )
    return tuple(dict(zip(columns, line, strict=True)) for line in lines)


def find_records(
    run: RunContext, asked: AskedKeys, given: AskedKeys, state: LedgerState, former: Former
) -> FoundRecords:
    """Look for the records of keys in all tables; reads key columns, and of quarantine all.

    Args:
        run: This run.
        asked: Whose, as the columns spell them.
        given: The same keys as somebody has given them.
        state: Knows the topics' names, what is decoded, and the secret of the hashes.
        former: Tables at addresses of before.

    Raises:
        ServiceAway: A store is away.
    """
    head = state.head
    tables = _by_role(run, former)
    today = 0 if run.typed is None else len(run.typed.by_type)
    found, had, unasked = _by_columns(tables["decoded"], today, asked.keys, given.keys)
    of_raw_keys = _raw_with(tables, asked.raw_keys)
    there = {row["key"] for row in of_raw_keys.values()}
    had |= {n for n, key in enumerate(asked.raw_keys, len(asked.keys)) if key in there}
    found |= {*of_raw_keys}
    names = () if asked.raw_keys else {name for key in asked.keys for name in key}
    bad = _quarantined(tables["quarantine"])
    while True:  # a record that its raw key tells may be the last change of another key
        at = ranges_of(found - {*bad}, head)
        keys = {p: r["key"] for p, r in _raw_at(tables, at, "key").items()}
        claimed, shared = _told_by_raw_keys(asked, state, tables, found, {*keys.values()})
        found |= {*claimed}
        older = histories(run, state, found, names)
        if not asked.whole_keys or older.others <= found:
            break
        found |= older.others
    keys |= claimed
    if state.folding.deletes is not None and state.folding.deletes.untold:
        keys |= (behind := _behind(tables, state, keys))
        found |= {*behind}
    keyless = sum(keys.get(place) is None for place in found - {*bad})
    left = {**bad, **_dropped(tables, state, {*bad})} if asked.keys else {}
    left = {place: record for place, record in left.items() if place not in found}
    words = [_words(*key) for key in zip(asked.keys, given.keys, strict=True)]
    held = {place for place, record in left.items() if _is_among(words, *record)}
    if asked.by_bytes:
        records = [left[place] for place in held]
        had |= {n for n, key in enumerate(words) if any(_is_among([key], *r) for r in records)}
        found |= held
        left = {place: record for place, record in left.items() if place not in held}
        held = set()
    own = {*keys.values()} - shared - {None}
    secret = state.erasing.secret
    others = {place for place in found if keys.get(place) not in own}
    whole = _raw_at(tables, ranges_of(others, head), "key", "value").values()
    hashes = {raw_key_hash(secret, key) for key in own if key is not None}
    hashes |= {record_hash(secret, r["key"], r["value"]) for r in whole if r["key"] not in own}
    in_quarantine = sum(place in bad for place in left)
    return FoundRecords(
        ranges_of(found, head),
        tuple(sorted(hashes)),
        len(shared),
        ranges_of(held, head),
        {"quarantine": in_quarantine, "raw": len(left) - in_quarantine},
        older,
        keyless if own else len(found),
        len(others) - len(whole),
        frozenset(had),
        unasked,
    )


def _behind(
    tables: ByRole, state: LedgerState, keys: Mapping[Place, bytes | None]
) -> dict[Place, bytes | None]:
    """Records with nothing but a key, right behind found ones of the same raw key.

    They follow a delete: without it they would be one that does not tell its row.
    """
    after = {(log, offset + 1): key for (log, offset), key in keys.items() if key is not None}
    rows = _raw_at(tables, ranges_of({*after} - {*keys}, state.head), "key", "value")
    alike = {place: row for place, row in rows.items() if row["key"] == after[place]}
    return {place: after[place] for place in _bare(tables, alike, state.head)}


def _bare(tables: ByRole, rows: Mapping[Place, Mapping[str, Any]], head: Head) -> set[Place]:
    """Which records have nothing but a key: no value, or bytes that count as none.

    Args:
        rows: Of the raw table, with their value.
    """
    found = {place for place, row in rows.items() if row["value"] is None}
    at = ranges_of({*rows} - found, head)
    for role, column, bare in _SAY_BARE if at else ():
        each = (row for table in tables[role] for row in rows_at(table, at, (column,)))
        found |= {place_of(row) for row in each if row[column] == bare}
    return found


def _told_by_raw_keys(
    asked: AskedKeys,
    state: LedgerState,
    tables: ByRole,
    found: set[Place],
    known: set[bytes | None],
) -> tuple[dict[Place, bytes | None], set[bytes | None]]:
    """Records that nothing but their raw key tells, with it, and raw keys of records that stay."""
    claimed, others, shared = _claimed(tables, found, known, state.head)
    if not {name for key in asked.keys for name in key} <= {*key_of(state)}:
        # the columns are not made of it: only what has nothing but this key is told by it
        rows = _raw_at(tables, ranges_of(claimed, state.head), "value")
        bare = _bare(tables, rows, state.head)
        # a tombstone is the end of what waits in quarantine: redriven without it, that would live
        living = {others[place] for place in claimed - bare}
        claimed = {place for place in bare if others[place] not in living}
    stay = {key for place, key in others.items() if place not in claimed}
    return {place: others[place] for place in claimed}, shared | stay


def _by_role(run: RunContext, former: Former) -> ByRole:
    """The tables that keys are looked for in, today's first."""
    typed = run.typed
    found: ByRole = {
        "raw": [run.table],
        "decoded": [] if typed is None else [*typed.by_type.values()],
        "quarantine": [] if typed is None else [typed.quarantine],
        "current": [],
    }
    for role, table in former:
        found[kind_of(role)].append(table)
    return found


def _first_with(tables: Sequence[TablePort], names: Iterable[str]) -> TablePort:
    """The table whose columns say how keys are spelled: the first that has them, or the first."""
    wanted = {*names}
    return next((t for t in tables if wanted <= {*_types_of(t)}), tables[0])


def _spelled(
    own: Sequence[TablePort], tables: Sequence[TablePort], keys: Iterable[Key]
) -> Iterator[Key]:
    """Keys as the columns of the first table spell them that has these, and can have the key."""
    for names, group in groupby(keys, key=tuple):
        having = [table for table in own if _has_exactly(table, names)]
        yield from _spelled_by(having or [_first_with(tables, names)], [*group])


def _spelled_by(tables: Sequence[TablePort], keys: Sequence[Key]) -> Sequence[Key]:
    first, *others = tables
    try:  # each call opens the table
        return first.spelled(keys)
    except BadInput:
        if not others:
            raise
    if len(keys) == 1:
        return _spelled_by(others, keys)
    return [spelled for key in keys for spelled in _spelled_by(tables, [key])]


def _by_columns(
    tables: Sequence[TablePort], today: int, keys: Sequence[Key], given: Sequence[Key]
) -> tuple[set[Place], set[int], tuple[str, ...]]:
    """Where records of keys are, which keys have some, and which tables some keys do not fit.

    Args:
        tables: Typed tables.
        today: How many of them, the first ones, are today's. Each spells what was given.
        keys: As one of them spells them, which tables of before have to do as well.
        given: The same keys as somebody has given them.
    """
    by_names: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        by_names[tuple(key)].append(number)
    found, had, unasked = set[Place](), set[int](), list[str]()
    for names, numbers in by_names.items():
        for place, table in enumerate(tables):
            wanted = given if place < today else keys
            asked = _fitting(table, names, {n: wanted[n] for n in numbers})
            if place >= today:
                asked = {n: key for n, key in asked.items() if key == keys[n]}
            if left := len(numbers) - len(asked):
                what = f"{left} of the keys fit no column of {table.uri}: no row is found by them"
                unasked.append(f"{what} there")
            if asked and (texts := _texts_of_before(table, _first_with(tables, names), names)):
                what = f"of {table.uri} {', '.join(texts)} is text: no row is found there that has"
                unasked.append(f"{what} a key in another spelling, as 007 for 7")
            if not asked:
                continue
            rows = table.rows_with([*asked.values()], (*COORDINATES, *names))
            found |= {place_of(row) for row in rows}
            values = {tuple(row[name] for name in names) for row in rows}
            there = table.spelled(texts_of(values, names))
            had |= {number for number, key in asked.items() if key in there}
    return found, had, tuple(unasked)


def _fitting(table: TablePort, names: Iterable[str], keys: Mapping[int, Key]) -> dict[int, Key]:
    """Keys as a table spells them, without those that it cannot have.

    It may lack a column, or have it in another type than the first one. There a rounded value, or
    one that is spelled otherwise, may be another person's: the text `007` is not the number 7.
    """
    if not _has_exactly(table, names):
        return {}
    spelled: dict[int, Key] = {}
    try:  # each call opens the table
        spelled |= zip(keys, table.spelled(keys.values()), strict=True)
    except BadInput:
        for number, key in keys.items():
            with suppress(BadInput):
                spelled[number] = table.spelled([key])[0]
    return spelled


def _texts_of_before(table: TablePort, today: TablePort, names: Iterable[str]) -> list[str]:
    """The columns of keys that are text in a table of before, and something else today."""
    types, now = _types_of(table), _types_of(today)
    return [name for name in names if types[name] == "string" != now.get(name)]


def _has_exactly(table: TablePort, names: Iterable[str]) -> bool:
    """Whether a table has these columns, and each value of them is one key's."""
    types = _types_of(table)
    return all(name in types and types[name] not in _ROUNDING for name in names)


def _types_of(table: TablePort) -> dict[str, str]:
    return {str(column["name"]): str(column["type"]) for column in table.columns()}


def _quarantined(tables: Sequence[TablePort]) -> dict[Place, Record]:
    rows = (row for table in tables for row in rows_at(table, None, ("key", "value")))
    return {place_of(row): (row["key"], row["value"]) for row in rows}


def _dropped(tables: ByRole, state: LedgerState, bad: set[Place]) -> dict[Place, Record]:
    """Records that are decoded and in no such table, and that no decoded one tells by its raw key.

    These are tombstones that were dropped, where the same key may be spelled in another way, and
    quarantined records that were let go.
    """
    here, wanted = NOWHERE, state.decoding.coverage.ranges()
    for table in tables["raw"]:
        here |= _landed(table, wanted)
    for table in (*tables["decoded"], *tables["quarantine"]):
        here -= _landed(table, wanted)
    if not here:
        return {}
    rows = _raw_at(tables, here.ranges(state.head.topic_names), "key", "value")
    records = {place: (row["key"], row["value"]) for place, row in rows.items()}
    every = _raw_with(tables, {key for key, _ in records.values()})
    unknown = {*records, *bad}
    decoded = {None, *(row["key"] for place, row in every.items() if place not in unknown)}
    return {p: (k, v) for p, (k, v) in records.items() if v is not None or k not in decoded}


def _landed(table: TablePort, wanted: Sequence[CoordinateRange]) -> Places:
    version = table.observe().version
    return NOWHERE if version is None else places_of(table.landed(wanted, version))


def _words(spelled: Key, given: Key) -> list[re.Pattern[bytes]]:
    """A key's values as they may stand in a record; none of a key with a short one."""
    if any(len(text.encode()) < _SHORTEST for text in given.values()):
        return []
    return [_word(spelled[name], given[name]) for name in given]


def _is_among(
    words: Sequence[Sequence[re.Pattern[bytes]]], key: bytes | None, value: bytes | None
) -> bool:
    """Whether a record that cannot be decoded has the values of a key among its bytes."""
    both = (key or b"") + b"\0" + (value or b"")
    return any(of_key and all(word.search(both) for word in of_key) for of_key in words)


def _word(*texts: str) -> re.Pattern[bytes]:
    """A value, in one of its spellings, that is no part of a longer one."""
    either = b"|".join(re.escape(text.encode()) for text in dict.fromkeys(texts))
    return re.compile(rb"(?<![0-9A-Za-z_])(?:" + either + rb")(?![0-9A-Za-z_])")


def _raw_at(
    tables: ByRole, ranges: Sequence[CoordinateRange], *columns: str
) -> dict[Place, Mapping[str, Any]]:
    """Rows of raw tables, those of before as well."""
    each = (rows_at(table, ranges, columns) for table in tables["raw"] if ranges)
    return {place_of(row): row for rows in each for row in rows}


def _raw_with(tables: ByRole, keys: Iterable[bytes | None]) -> dict[Place, Mapping[str, Any]]:
    """The same by raw keys, of which None is nobody's."""
    wanted = [{"key": key.hex()} for key in keys if key is not None]
    each = (table.rows_with(wanted, (*COORDINATES, "key")) for table in tables["raw"] if wanted)
    return {place_of(row): row for rows in each for row in rows}


def _claimed(
    tables: ByRole, found: set[Place], known: set[bytes | None], head: Head
) -> tuple[set[Place], dict[Place, bytes | None], set[bytes | None]]:
    """Records of the same raw keys that are nowhere decoded.

    Returns:
        These; all others of these raw keys, with their key; and the keys that decoded ones have.
    """
    rows = _raw_with(tables, known)
    others: dict[Place, bytes | None]
    others = {place: row["key"] for place, row in rows.items() if place not in found}
    if not others:
        return set(), {}, set()
    decoded = set[Place]() if tables["decoded"] else {*others}  # or raw keys were asked for
    for table in tables["decoded"]:
        typed = rows_at(table, ranges_of({*others}, head), ("is_tombstone",))
        decoded |= {place_of(row) for row in typed if not row["is_tombstone"]}
    shared: set[bytes | None] = {others[place] for place in decoded & {*others}}
    return {place for place, key in others.items() if key not in shared}, others, shared


def in_table(
    role: TableRole,
    table: MaintainedTablePort,
    ranges: Sequence[CoordinateRange],
    unknown: int,
) -> ErasedFrom | None:
    """What a table holds at coordinates; None where it is not there.

    Raises:
        ServiceAway: A store is away.
    """
    size = table.size()
    if size is None:
        return None
    paths = {*table.files_at(ranges, size.version)}
    files = [f for f in table.files(size.version) if unquote(f.path) in paths]
    rows = sum(part.rows for part in table.landed(ranges, size.version).values())
    return ErasedFrom(
        role,
        table.uri,
        rows,
        len(files),
        sum(f.bytes for f in files),
        unknown,
    )


def still_in_kafka(run: RunContext, ranges: Sequence[CoordinateRange]) -> tuple[StillInKafka, ...]:
    """What Kafka still serves of erased records; best effort, which never fails an erasure."""
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


def unread_offsets(run: RunContext, head: Head) -> int | None:
    """How much Kafka has that is not landed, and may be of any key; None if it does not tell."""
    unread, at = 0, {p.topic_partition: p for p in head.positions}
    try:
        for topic in observe_topics(run, head).topics:
            if topic.fault or topic.refusal:
                return None
            for p in topic.partitions:
                if p.high_watermark is None or p.log_start_offset is None:
                    return None
                start, known = p.log_start_offset, at.get(TopicPartition(topic.topic, p.partition))
                if known is not None and known.topic_id == topic.topic_id:
                    start = max(start, known.next_offset)
                unread += max(0, p.high_watermark - start)
    except TidelineError as error:
        log.warning("what is not landed yet is unknown: %s", error)
        return None
    return unread
