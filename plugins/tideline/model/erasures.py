"""Records that are erased by key: what was asked, what is kept out for good, what is still due.

The ledger holds keyed hashes of keys, and beside them their secret. They are pseudonyms: whoever
can read the ledger can test guesses, and a key of few digits, or a known address, is soon found.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal

from tideline.model.maintenance import FileCount, TableRole
from tideline.model.offsets import CoordinateRange, intersect
from tideline.model.places import NOWHERE, Places
from tideline.model.wording import how_many

RAW_KEY = "raw key"
"""What stands for a column where the bytes of Kafka's key are meant."""
ERASURE = "erase-"
"""How the ids of erasures begin, and those of their commits."""
OF_KEY, OF_RECORD = "key", "record"
"""What a hash is of; its name says it."""
MOST = 0.01
"""The share of a stream's rows that an erasure may take, unless somebody says another."""
_GRACE = timedelta(days=1)
"""Maintenance that comes once a day deletes what is due."""
ErasureStatus = Literal["begun", "removed", "done"]
"""Frozen; out of the newest version of each table; out of every file."""


@dataclass(frozen=True, slots=True)
class ErasedFrom:
    """What an erasure has found in a table, and done to it.

    Args:
        rows: At the erased coordinates; of the current table, unknown before it is folded.
        files: Data files that hold them.
        bytes: Size of these files: so much is read, and most of it written again.
        undecided: Records that no column tells, and that may be of a key.
        version: The first one without them; None before.
        vacuumed: Files of older versions, and of none, that were deleted afterwards.
        cut: Entries of the table's log that were deleted with them.
    """

    table: TableRole
    uri: str
    rows: int
    files: int
    bytes: int
    undecided: int = 0
    version: int | None = None
    vacuumed: FileCount | None = None
    cut: int = 0


@dataclass(frozen=True, slots=True)
class StillInKafka:
    """Erased records of a topic that Kafka may serve to others until retention takes them.

    Args:
        retention_ms: The topic's own setting, in milliseconds; None if unknown or unlimited.
    """

    topic: str
    records: int
    retention_ms: int | None


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure, from the moment on at which it cannot be taken back.

    Args:
        erasure_id: Its name.
        columns: By which columns keys were given, or `raw key`.
        keys: Keyed hashes of the keys.
        ranges: The coordinates of their records; empty in the state once they are out of the
            tables: the history has them.
        is_future: Whether later records of the keys are refused as well.
        due_at: When the last file that holds one may go, by the tables' retention.
        is_now: Whether older files go at once.
        is_anew: Whether the current table is made anew as a whole.
        audit: What an audit said after it; None before.
        undecided: Where records are whose bytes hold a key, and that nothing proves to be of it.
        unreached: Tables of before that may hold a record, and why they were left alone.
        hashes: Of the raw keys that only its records have, and of each other record; in the state
            as long as `ranges`.
        is_partial: As builds before this one judged it; it counts no more.
        settles: Erasures of which a table has told the coordinates only, and whose keys these are.
        without_records: Those of `keys` of which no record was found: nothing of them was erased.
        unread: Offsets of the stream that were not landed when it was begun; None if unknown.
        whole: Key of the current table that was there: no row of it has become older.
    """

    erasure_id: str
    reason: str
    by: str
    begun_at: datetime
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    ranges: tuple[CoordinateRange, ...]
    tables: tuple[ErasedFrom, ...]
    kafka: tuple[StillInKafka, ...]
    due_at: datetime
    is_future: bool = False
    is_now: bool = False
    is_anew: bool = False
    status: ErasureStatus = "begun"
    removed_at: datetime | None = None
    finished_at: datetime | None = None
    audit: str | None = None
    undecided: tuple[CoordinateRange, ...] = ()
    unreached: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    is_partial: bool = False
    settles: tuple[str, ...] = ()
    without_records: tuple[str, ...] = ()
    unread: int | None = None
    whole: tuple[str, ...] = ()

    def leaves_older(self, key: Sequence[str], uri: str, columns: Sequence[str]) -> bool:
        """Whether keys of a current table may keep older changes than those that it has erased.

        Args:
            key: The columns of the table's key.
            uri: Its address.
            columns: Columns that are made of Kafka's key.
        """
        if self.whole and self.whole == tuple(key):
            return False
        if not self.whole and any((t.table, t.uri) == ("current", uri) for t in self.tables):
            return False  # as it was judged before the key was noted
        if RAW_KEY in self.columns and not columns:
            return True
        by = (columns if c == RAW_KEY else c.split(",") for c in self.columns)
        return not {name for names in by for name in names} <= {*key}

    @property
    def records(self) -> int:
        """How many coordinates it has erased."""
        return max((t.rows for t in self.tables if t.table == "raw"), default=0)

    def __str__(self) -> str:
        """One line, for logs."""
        due = (
            ""
            if self.status == "done"
            else f", files due to go at {self.due_at:%Y-%m-%d %H:%M} UTC"
        )
        return f"{self.erasure_id}: {self.status}, {how_many(self.records, 'record')}{due}"

    def is_overdue(self, at: datetime) -> bool:
        """Whether files should be gone by then that are not."""
        is_cut_off = self.status == "begun" and at > self.begun_at + _GRACE
        return is_cut_off or (self.status != "done" and at > self.due_at + _GRACE)

    def with_table(self, done: ErasedFrom) -> Erasure:
        """The erasure with what was done to one table."""
        tables = tuple(done if t.uri == done.uri else t for t in self.tables)
        return replace(self, tables=tables)


@dataclass(frozen=True, slots=True)
class SealedErasure:
    """What the commit of a removal tells of its erasure: a ledger that was put back learns it.

    Args:
        erasure: As it was begun, without its coordinates: the commit names them.
        seal: Which ledger's secret its hashes were made with.
    """

    erasure: Erasure
    seal: str


@dataclass(frozen=True, slots=True)
class ToldErasure:
    """An erasure as a table's commit tells it.

    Args:
        ranges: What the commit has removed.
        sealed: What else it tells; None of an earlier version.
    """

    erasure_id: str
    ranges: tuple[CoordinateRange, ...]
    sealed: SealedErasure | None

    @property
    def number(self) -> int:
        """Which one it is, from 1."""
        return int(self.erasure_id.removeprefix(ERASURE))


@dataclass(frozen=True, slots=True)
class Erasing:
    """The suppress list, and what is under way. No rewind takes it back.

    Args:
        secret: Of the hashes, in hexadecimal digits.
        begun: How many erasures there ever were; the next one's number.
        erased: Coordinates that no table may hold.
        hashes: Of the erased records' own raw keys, and of whole records that have none of their
            own: a log that is read again in a newer generation is told by them.
        future: Those of them whose later records are refused.
        refused: How many later records were.
        open: Erasures that are not done.
        untold: Erasures of which a table has told the coordinates only: whether later records are
            refused, and what tells them, is not known until somebody erases their keys once more,
            and says that these are theirs.
        partial: Erased coordinates of which the history does not tell by which key: what is folded
            of their keys' other changes may be older.
    """

    secret: str = field(default="", repr=False)
    begun: int = 0
    erased: Places = NOWHERE
    hashes: tuple[str, ...] = ()
    future: tuple[str, ...] = ()
    refused: int = 0
    open: tuple[Erasure, ...] = ()
    untold: tuple[str, ...] = ()
    partial: Places = NOWHERE

    @property
    def seal(self) -> str:
        """Tells one ledger's secret from another's, and nothing of it."""
        return sha256(b"seal\0" + bytes.fromhex(self.secret)).hexdigest()

    @property
    def is_removing(self) -> bool:
        """Whether rows at erased coordinates may still stand in a table."""
        return any(e.status == "begun" for e in self.open)

    def begin(self, erasure: Erasure, hashes: Iterable[str]) -> Erasing:
        """From here on its records are kept out, whatever lands."""
        erasure = replace(erasure, hashes=tuple(hashes))
        return replace(
            self.keeping_out(erasure.ranges)._told_by(erasure),
            begun=self.begun + 1,
            open=(*self.open, erasure),
        )

    def _told_by(self, erasure: Erasure) -> Erasing:
        later = erasure.hashes if erasure.is_future else ()
        return replace(
            self.settled(erasure.settles),
            hashes=tuple(sorted({*self.hashes, *erasure.hashes})),
            future=tuple(sorted({*self.future, *later})),
        )

    def settled(self, names: Iterable[str]) -> Erasing:
        """The list after somebody has said that the keys of these were erased once more."""
        return replace(self, untold=tuple(sorted({*self.untold} - {*names})))

    def learning(self, newer: ToldErasure) -> Erasing:
        """The list with an erasure of which a table's commit tells; one that is known stays."""
        after, sealed = self.keeping_out(newer.ranges), newer.sealed
        is_known = newer.number <= self.begun
        if sealed is None or (is_known and not self._has_open(sealed.erasure)):
            after = replace(after, partial=after.partial | Places.of(newer.ranges))
        if sealed is not None and sealed.seal == self.seal:
            after = after._told_by(sealed.erasure)
        elif not is_known:
            after = replace(after, untold=tuple(sorted({*self.untold, newer.erasure_id})))
        if sealed is None or is_known:
            return replace(after, begun=max(self.begun, newer.number))
        again = replace(sealed.erasure, ranges=newer.ranges)
        return replace(after, begun=newer.number, open=(*self.open, again))

    def _has_open(self, erasure: Erasure) -> bool:
        known = {(e.erasure_id, e.begun_at) for e in self.open}
        return (erasure.erasure_id, erasure.begun_at) in known

    def keeping_out(self, ranges: Iterable[CoordinateRange]) -> Erasing:
        """The list with more coordinates."""
        return replace(self, erased=self.erased | Places.of(ranges))

    def refusing(self, ranges: Iterable[CoordinateRange]) -> Erasing:
        """The list with later records of erased keys, which were read and not written."""
        found = Places.of(ranges)
        new = (found - self.erased).offsets
        return replace(self, erased=self.erased | found, refused=self.refused + new)

    def with_open(self, erasure: Erasure) -> Erasing:
        """One of those under way as it is now; it leaves once it is done."""
        others = (e for e in self.open if e.erasure_id != erasure.erasure_id)
        mine = () if erasure.status == "done" else (erasure,)
        return replace(self, open=tuple(sorted((*others, *mine), key=lambda e: e.begun_at)))

    def doubted(self, ranges: Iterable[CoordinateRange]) -> tuple[CoordinateRange, ...]:
        """Where a newer generation may hold the same record as an older one that is erased."""
        return tuple(
            wanted.as_coordinates.at(part)
            for wanted in ranges
            for i, held in self.erased.items()
            if (i.topic_id, i.partition) == (wanted.topic_id, wanted.partition)
            and i.generation < wanted.generation
            for part in intersect([wanted.offsets], held)
        )


NOTHING_ERASED = Erasing()


def untold_text(name: str) -> str:
    """What an erasure asks for of which nothing but its coordinates is known."""
    return (
        f"{name}: only its coordinates are known, from a table. Erase its keys again with --settles"
        f" {name}, because nothing else finds and refuses records of these keys"
    )


def key_hash(secret: str, column: str, value: bytes) -> str:
    """The keyed hash of a key that somebody asked for (RFC 2104, with SHA-256).

    Args:
        secret: In hexadecimal digits.
        column: What is meant: a column, or several.
        value: The key's canonical text, or its bytes.
    """
    text = column.encode() + b"\0" + value
    return hmac.new(bytes.fromhex(secret), text, sha256).hexdigest()


def raw_key_hash(secret: str, key: bytes) -> str:
    """What tells all records of a raw key, in Spark as well; named, as each hash of a record is.

    One without a name is of an earlier version: of the key, or of the value where there is none.

    Args:
        secret: In hexadecimal digits.
        key: Kafka's key.
    """
    return f"{OF_KEY}:{_salted(secret, key)}"


def record_hash(secret: str, key: bytes | None, value: bytes | None) -> str:
    """What tells a record whose raw key tells nothing: of both, and never the hash of a raw key."""
    parts = (b"-" if p is None else sha256(p).hexdigest().encode() for p in (key, value))
    return f"{OF_RECORD}:{_salted(secret, b''.join(parts))}"


def _salted(secret: str, value: bytes) -> str:
    return sha256(bytes.fromhex(secret) + value).hexdigest()
