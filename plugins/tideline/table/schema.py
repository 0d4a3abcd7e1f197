"""The tables' columns and properties, one change of their rows, and what its commit says. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tideline.errors import NewerFormat
from tideline.model.current import FoldPlan
from tideline.model.decoding import CHOOSABLE, INVALID, UNAVAILABLE, DecodePlan
from tideline.model.maintenance import FileMerge
from tideline.model.offsets import CoordinateRange, PartitionIdentity, ReadRange

COLUMNS = {
    "topic_id": "STRING",
    "generation": "INT",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp_type": "INT",
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "plan_id": "STRING",
}
"""Name and SQL type in a raw table. The coordinates come first, so that they have file statistics.
"""

COORDINATES = {n: COLUMNS[n] for n in ("topic_id", "generation", "topic", "partition", "offset")}
"""What every table of a stream begins with."""

TYPED_COORDINATES = {n: kind for n, kind in COORDINATES.items() if n != "topic"}
"""What no typed table can do without."""

TYPED_COLUMNS = {
    **COORDINATES,
    "timestamp": "TIMESTAMP",
    "is_tombstone": "BOOLEAN",
    "schema_id": "INT",
    "headers": COLUMNS["headers"],
    "op": "STRING",
    "source_timestamp": "TIMESTAMP",
    "snapshot": "STRING",
    "transaction_id": "STRING",
    "source_position": "STRING",
    UNAVAILABLE: "ARRAY<STRING>",
    INVALID: "ARRAY<STRING>",
    "event_date": "DATE",
    "decode_plan_id": "STRING",
}
"""A typed table's own columns; the stream file chooses some of them (`own_columns`). The records'
fields stand before `decode_plan_id`, and those that come later behind it."""

QUARANTINE_COLUMNS = {
    **COORDINATES,
    "timestamp": "TIMESTAMP",
    "key": "BINARY",
    "value": "BINARY",
    "headers": COLUMNS["headers"],
    "part": "STRING",
    "schema_id": "INT",
    "error_class": "STRING",
    "error": "STRING",
    "decode_plan_id": "STRING",
}

Field = Mapping[str, Any]
"""One column in Delta's form: `name`, `type`, `nullable`, `metadata` (protocol, Schema
Serialization Format)."""

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What Spark calls the folder of rows without a value; Delta's log has null there."""


def partition_in(path: str) -> dict[str, str | None]:
    """The values of a data file's partition columns, by the names of its folders.

    Args:
        path: Not URL-encoded; the names of the folders are, once more.
    """
    folders = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {name: None if value == NO_VALUE else unquote(value) for name, _, value in folders}


STATISTICS_COLUMNS = 6
"""How many columns have file statistics; partition columns do not count."""

COMMIT_FORMAT = 1
"""Format of `commit_metadata`, its value of "tideline"; counted apart from stored documents."""

STREAM_PROPERTY = "tideline.stream"
LEDGER_PROPERTY = "tideline.ledger_id"
LAYOUT_PROPERTY = "tideline.current"
"""Of a current table: what is fixed since it was created, as JSON."""
UNPROVEN_PROPERTY = "tideline.unproven_since"
"""Of a current table: since when it may have rows that are gone at the source; empty for none."""


def delta_field(name: str, kind: object) -> Field:
    """A column that may be null, in Delta's form, as its type is."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


_DELTA_TYPES: dict[str, object] = {
    "STRING": "string",
    "INT": "integer",
    "BIGINT": "long",
    "TIMESTAMP": "timestamp",
    "BINARY": "binary",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "ARRAY<STRING>": {"type": "array", "elementType": "string", "containsNull": True},
    COLUMNS["headers"]: {
        "type": "array",
        "elementType": {
            "type": "struct",
            "fields": [delta_field("key", "string"), delta_field("value", "binary")],
        },
        "containsNull": True,
    },
}


def delta_fields(columns: Mapping[str, str]) -> tuple[Field, ...]:
    """Columns in Delta's form, from their SQL types."""
    return tuple(delta_field(name, _DELTA_TYPES[kind]) for name, kind in columns.items())


def typed_columns(plan: DecodePlan) -> tuple[Field, ...]:
    """The columns of the typed table that a plan needs, in Delta's form.

    Fields of keys come behind those of values.
    """
    chosen = own_columns(plan)
    own = [f for f in delta_fields(TYPED_COLUMNS) if f["name"] in chosen]
    fields = [
        delta_field(column.name, column.type)
        for name in ("value", "key")
        for part in plan.parts
        if part.part == name
        for column in part.reader.in_table
    ]
    return (*own[:-1], *fields, own[-1])


def own_columns(plan: DecodePlan) -> tuple[str, ...]:
    """Names of the typed table's own columns that a plan fills, in the table's order."""
    left_out = {*CHOOSABLE} - {*plan.own_columns}
    left_out |= {"event_date"} if plan.event_date is None else set()
    left_out |= set() if any(p.unavailable for p in plan.parts) else {UNAVAILABLE}
    left_out |= set() if any(p.lenient for p in plan.parts) else {INVALID}
    return tuple(name for name in TYPED_COLUMNS if name not in left_out)


def app_id(ledger_id: str) -> str:
    """Delta application id of all attempts of one ledger."""
    return f"tideline:{ledger_id}"


def commit_metadata(
    *,
    ledger_id: str,
    plan_id: str,
    run_id: str,
    token: int,
    ranges: Iterable[CoordinateRange],
    epochs: Iterable[int | None] = (),
    by: str | None = None,
    times: tuple[int, ...] = (),
    erasure: str = "",
    fold: str = "",
    **counts: int,
) -> str:
    """The user metadata of a commit. With it, the table alone proves which plans it holds.

    Args:
        token: The attempt's fencing token.
        ranges: The coordinates that were written or replaced.
        epochs: The leader epoch that each of them was planned with; none for a removal.
        by: Who has asked for the run; None, and left out, for a schedule.
        times: When Spark was asked, began and ended, in milliseconds since 1970; none for a commit
            that Spark has not written.
        erasure: What a removal tells of an erasure, as a document.
        fold: What a fold tells of itself, as a document.
        counts: `rows` and `bytes`, for a commit without Spark's metrics.

    Returns:
        JSON; each range is `[topic_id, generation, partition, start_offset, end_offset]`.
    """
    return json.dumps(
        {
            "tideline": COMMIT_FORMAT,
            "ledger_id": ledger_id,
            "plan_id": plan_id,
            "run_id": run_id,
            "token": token,
            "ranges": [r.coordinates for r in ranges],
            **({"epochs": known} if (known := list(epochs)) else {}),
            **({} if by is None else {"by": by}),
            **({"times": times} if times else {}),
            **({"erasure": erasure} if erasure else {}),
            **({"fold": fold} if fold else {}),
            **counts,
        },
        separators=(",", ":"),
    )


def read_commit_metadata(user_metadata: str | None, where: str) -> dict[str, Any] | None:
    """What `commit_metadata` wrote, as a dict; None for a commit of another program.

    Args:
        user_metadata: The commit's user metadata.
        where: Table and version, for messages.

    Raises:
        NewerFormat: A newer version of Tideline made it; it must not pass for a foreign commit.
    """
    if not user_metadata:
        return None
    try:
        metadata = json.loads(user_metadata)
    except ValueError:
        return None
    number = metadata.get("tideline") if isinstance(metadata, dict) else None
    if type(number) is not int or number < 1:  # the ledger's own table says "ledger" there
        return None
    if number > COMMIT_FORMAT:
        raise NewerFormat(
            f"{where}: commit metadata has format {number}; this version of Tideline reads formats"
            f" up to {COMMIT_FORMAT}: upgrade Tideline here; nothing was changed",
            format=number,
            supported=COMMIT_FORMAT,
        )
    return dict(metadata)


def ranges_in(metadata: Mapping[str, Any]) -> tuple[ReadRange, ...]:
    """The coordinates in a commit's metadata, which names no topic: its id stands for that.

    Commits of earlier versions do not tell epochs.
    """
    ranges = metadata["ranges"]
    epochs = metadata.get("epochs", [None] * len(ranges))
    return tuple(
        ReadRange(topic_id, topic_id, generation, partition, start, end, leader_epoch=epoch)
        for (topic_id, generation, partition, start, end), epoch in zip(ranges, epochs, strict=True)
    )


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The data files of one value of a partition column.

    Args:
        paths: Relative to the table, not URL-encoded, in the log's order.
        rows: How many they hold, by the log; None where it does not say.
    """

    paths: tuple[str, ...]
    rows: int | None


ATTEMPTS = "landed-"
"""How the names of attempts' folders begin; other programs' files lie elsewhere."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """The rows at some coordinates are replaced by an attempt's files, or removed (R2).

    Args:
        ledger_id: The ledger that records it.
        commit_id: What the commit carries: the plan's id, or a removal's (`removal_id`), or
            a fence's (`fence_id`).
        run_id: The run that makes it.
        token: The attempt's fencing token (R5); grows with every attempt.
        ranges: The coordinates whose rows are replaced; ends are exclusive.
        merges: Files that others with the same rows replace: no row changes.
        takes_out: Files that go as they are, whatever their rows: the attempt's hold what becomes
            of these. Relative to the table, not URL-encoded.
        by: Who has asked for it; None for a schedule.
        epochs: The leader epochs that a landing was planned with.
        times, erasure, fold: As of `commit_metadata`.
    """

    ledger_id: str
    commit_id: str
    run_id: str
    token: int
    ranges: tuple[CoordinateRange, ...]
    merges: tuple[FileMerge, ...] = ()
    by: str | None = None
    epochs: Mapping[PartitionIdentity, int | None] = field(default_factory=dict)
    times: tuple[int, ...] = ()
    takes_out: tuple[str, ...] = ()
    erasure: str = ""
    fold: str = ""

    @property
    def app_id(self) -> str:
        """Delta application id that the token belongs to: one for all attempts of a ledger."""
        return app_id(self.ledger_id)

    @property
    def folder(self) -> str:
        """The folder, inside the table's, into which this attempt and no other writes data files.

        Its name does not begin with `_` or `.`: Delta's readers skip such names.
        """
        return f"{ATTEMPTS}{self.commit_id}-{self.token}"

    def metadata(self, *, rows: int, bytes: int) -> str:
        """User metadata of the commit: `commit_metadata`.

        Args:
            rows: Rows that the attempt's files hold; not those that a rewritten file kept.
            bytes: Size of these files.
        """
        return commit_metadata(
            ledger_id=self.ledger_id,
            plan_id=self.commit_id,
            run_id=self.run_id,
            token=self.token,
            ranges=self.ranges,
            epochs=(self.epochs.get(r.identity) for r in self.ranges) if self.epochs else (),
            by=self.by,
            times=self.times,
            erasure=self.erasure,
            fold=self.fold,
            rows=rows,
            bytes=bytes,
        )


CURRENT_COORDINATES = {
    **TYPED_COORDINATES,
    "timestamp": "TIMESTAMP",
    "is_deleted": "BOOLEAN",
    "bucket": "INT",
}
"""What no current table can do without: of each row its last change, and where it is."""


def current_columns(plan: FoldPlan) -> tuple[Field, ...]:
    """The current table's columns in Delta's form: the key's, the row's, then its own."""
    own = delta_fields(CURRENT_COORDINATES)
    named = [f for f in delta_fields(TYPED_COLUMNS) if f["name"] == UNAVAILABLE]
    rows = (delta_field(column.name, column.type) for column in plan.columns)
    ordering = (delta_field(column.name, column.type) for column in plan.sequence)
    marked = named if plan.has_unavailable else ()
    return (*rows, *own[:-2], *ordering, *marked, *own[-2:])


COMPACTION_ID = "maintenance.compacted"
"""What the commit of a compaction carries for a plan id; its token tells one from another."""


def removal_id(name: str) -> str:
    """What the commit of a removal carries for a plan id: it must not pass for a landing."""
    return f"{name}.removed"


_FENCED = ".fenced"


def fence_id(name: str) -> str:
    """What a commit carries that keeps older attempts out, and touches no row."""
    return f"{name}{_FENCED}"


def is_plan(commit_id: str) -> bool:
    """Whether a commit is of a plan, and not of a removal, of maintenance or of a fence."""
    return "." not in commit_id
