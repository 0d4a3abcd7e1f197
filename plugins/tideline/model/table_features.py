"""What a table may ask of its writers, and which of it Tideline refuses to write to (R13). Pure.

Tideline adds and removes whole data files through delta-rs, and counts rows by the files' footers
and statistics. A table that asks for more, or hides rows from such counts, is refused by name
before anything is read. The names are those of the Delta protocol ("Table Features"). What is
listed in the protocol and has no effect is no reason, nor are further columns that may be null. A
feature that is in no list here is refused too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tideline.model.observation import TableObservation


@dataclass(frozen=True, slots=True)
class TableRefusal:
    """One thing that keeps Tideline from writing to a table.

    Args:
        why: What Tideline would do wrong.
        remedy: What takes it away; `t` stands for the table.
    """

    name: str
    why: str
    remedy: str


_WITHOUT_EFFECT = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "variantType",
    }
)
"""Features that a protocol may list: only a property or a column of theirs asks for something."""


_NEW_TABLE = "it cannot be taken away: give the stream a new table"


_NOW = "'delta.dropFeatureTruncateHistory.retentionDuration' = 'interval 0 hours'"
"""Without it Delta waits for a day before it drops a feature of readers."""


def _drop(feature: str) -> str:
    """A feature of writers only."""
    return f"in Spark: ALTER TABLE t DROP FEATURE {feature}"


def _drop_of_readers(feature: str, disable: str = "", purge: str = "") -> str:
    """A feature that readers of older versions need as well: these have to go."""
    return (
        "once nobody reads older versions, in Spark: ALTER TABLE t SET TBLPROPERTIES"
        f" ({disable}{_NOW}); {purge}ALTER TABLE t DROP FEATURE {feature} TRUNCATE HISTORY, again"
        " a moment later if Delta asks for it"
    )


_FEATURES = {
    "allowColumnDefaults": ("a row without a value would need the column's default", _NEW_TABLE),
    "checkpointProtection": (
        "delta-rs does not know it; a feature was dropped without TRUNCATE HISTORY",
        "a day after that drop, in Spark: ALTER TABLE t DROP FEATURE checkpointProtection TRUNCATE"
        " HISTORY",
    ),
    "clustering": ("files have to be placed by columns", _NEW_TABLE),
    "deletionVectors": (
        "rows can be hidden in files that still count them",
        _drop_of_readers(
            "deletionVectors",
            "'delta.enableDeletionVectors' = 'false', ",
            "REORG TABLE t APPLY (PURGE); ",
        ),
    ),
    "domainMetadata": ("delta-rs does not know it", _drop("domainMetadata")),
    "identityColumns": ("values have to be generated", _NEW_TABLE),
    "inCommitTimestamp": ("each commit needs a time of its own", _drop("inCommitTimestamp")),
    "rowTracking": ("each row needs an id", _drop("rowTracking")),
    "typeWidening": (
        "files may hold a column in an older type",
        _drop_of_readers("typeWidening"),
    ),
    "v2Checkpoint": ("checkpoints have another form", _drop_of_readers("v2Checkpoint")),
    "vacuumProtocolCheck": (
        "delta-rs does not know it",
        _drop_of_readers("vacuumProtocolCheck"),
    ),
}
"""Features that matter as soon as the protocol lists them: why, and what takes them away."""


ELSEWHERE = "a file lies outside of the table"
"""How our own client of the log says so."""

DAMAGED = "is damaged"
"""How our own client of the log says what no writer leaves."""

_UNREADABLE = {
    "catalog-managed table": TableRefusal(
        "catalogManaged",
        "the table is catalog-managed: its log alone does not say which rows it has",
        "give the stream a table that no catalog manages, and an external name for it there",
    ),
    ELSEWHERE: TableRefusal(
        "files of another table",
        "it is a shallow clone: its files are in another table's folder and go with that table",
        "give the stream a table of its own: a deep clone, or a copy by CREATE TABLE ... AS SELECT",
    ),
    "table with empty schema": TableRefusal(
        "an empty schema",
        "somebody has made the table without a column, as a catalog does for a name",
        "drop it: the first run makes the table",
    ),
}
"""Logs that delta-rs does not read, by a part of what it says of them."""


_PROPERTIES = {
    "delta.appendOnly": ("true", "a replay, a removal and a rewind have to take rows away"),
    "delta.enableChangeDataFeed": ("true", "each change would need a file of changed rows"),
}
"""Properties that matter with one value."""


_COLUMNS = {
    "missing": ("Tideline writes it", "add it again, or restore the table"),
    "type": ("Tideline writes another type", "restore the table as it was"),
    "required": (
        "not every row may have a value",
        "in Spark: ALTER TABLE t ALTER COLUMN {column} DROP NOT NULL",
    ),
    "generated": ("its values would have to be computed", _NEW_TABLE),
    "identity": ("its values would have to be generated", _NEW_TABLE),
    "invariant": ("each row would have to be checked", _NEW_TABLE),
}


def table_refusals(table: TableObservation) -> Iterator[TableRefusal]:
    """Everything about a table that Tideline cannot write to, by name."""
    if table.unreadable is not None:
        known = (refusal for part, refusal in _UNREADABLE.items() if part in table.unreadable)
        remedy = "drop the feature that is named, restore the table, or give the stream a new one"
        if DAMAGED in table.unreadable:
            remedy = (
                "put that version's file in _delta_log back from a copy; or, if it is the newest,"
                " move it away, and the next run compares the table with the ledger"
            )
        yield next(known, TableRefusal("a log that delta-rs cannot read", table.unreadable, remedy))
    for name in sorted(table.features, key=lambda n: n == "domainMetadata"):  # others need it
        if name not in _WITHOUT_EFFECT:
            remedy = f"{_drop(name)}, or give the stream a new table"
            yield TableRefusal(name, *_FEATURES.get(name, ("Tideline does not know it", remedy)))
    for item in table.properties:
        yield from _of_property(item.name, item.value)
    for column in table.columns:
        why, remedy = _COLUMNS[column.change]
        label = f"column {column.column} ({column.change})"
        yield TableRefusal(label, why, remedy.format(column=column.column))


def _of_property(name: str, value: str) -> Iterator[TableRefusal]:
    if name in _PROPERTIES:
        effective, why = _PROPERTIES[name]
        if value.lower() == effective:
            yield TableRefusal(name, why, _unset(name))
    elif name == "delta.columnMapping.mode" and value.lower() != "none":
        yield TableRefusal(
            "columnMapping",
            "files hold the columns under other names",
            f"in Spark: ALTER TABLE t SET TBLPROPERTIES ('{name}' = 'none')",
        )
    elif name == "delta.setTransactionRetentionDuration":
        yield TableRefusal(name, "the table would forget which attempt wrote last", _unset(name))
    elif name.startswith("delta.constraints."):
        constraint = name.removeprefix("delta.constraints.")
        yield TableRefusal(
            f"CHECK constraint {constraint}",
            "each row would have to be checked",
            f"in Spark: ALTER TABLE t DROP CONSTRAINT {constraint}",
        )


def _unset(name: str) -> str:
    return f"in Spark: ALTER TABLE t UNSET TBLPROPERTIES ('{name}')"
