"""Whether the table at the address is the one that the ledger knows, and may be written to (R13).

The table's properties hold the stream's name and the ledger's id. So a table or a ledger that was
replaced, shared or created anew is detected. Every commit after the last known version is checked:
those of the ledger carry its id in their commit metadata. Of others it counts whether their actions
took rows away: what somebody called the operation proves nothing.

Tideline adds and removes whole data files through delta-rs, and counts rows by the files' footers
and statistics. A table that asks for more, or hides rows from such counts, is refused by name
before anything is read. The names are those of the Delta protocol ("Table Features"). What is
listed in the protocol and has no effect is no reason, nor are further columns that may be null. A
feature that is in no list here is refused too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tideline.model.head import KnownCommit
from tideline.model.incident import Finding
from tideline.model.observation import LoggedCommit, TableObservation
from tideline.model.wording import first_few

_SHOWN = 3
"""Commits of others in a message."""


def table_findings(
    known_id: str | None,
    table: TableObservation,
    stream: str,
    ledger_id: str,
    known_version: int | None = None,
    commits: tuple[KnownCommit, ...] = (),
) -> Iterator[Finding]:
    """Every reason not to write to the table (R13).

    Only the first that applies is told: where the table is another one, the others mean nothing.

    Args:
        known_id: The table's id as the ledger knows it; None before the first commit.
        table: The table now, with the commits after `known_version`, and from `commits` on.
        known_version: Newest version known to hold only what the ledger knows; commits after it
            (exclusive) are checked. None before the first commit: none is checked.
        commits: This ledger's newest commits, which the table has to show for good.
    """
    if not table.exists:
        if known_id is not None:
            yield _changed("the table is gone", f"table {known_id}", "no table at the address")
    elif table.unreadable is not None:
        yield _refused(table)
    elif table.stream is None:
        yield _changed(
            "the table was not created by Tideline",
            f"a table of stream {stream}, or none",
            f"table {table.table_id} without the property tideline.stream",
            decidable=False,
        )
    elif table.stream != stream:
        yield _changed(
            "the table belongs to another stream",
            f"a table of stream {stream}",
            f"a table of stream {table.stream}",
            decidable=False,
        )
    elif table.ledger_id != ledger_id:
        yield _changed(
            "the table belongs to another ledger: this ledger is new or was replaced",
            f"ledger {ledger_id}",
            f"ledger {table.ledger_id}",
            decidable=False,
        )
    elif known_id is not None and table.table_id != known_id:
        yield _changed(
            "the table was replaced by another one",
            f"table {known_id}",
            f"table {table.table_id}, version {table.version}",
            version=table.version,
        )
    elif any(refusals(table)):
        yield _refused(table)
    elif known_version is not None:
        yield from _foreign_changes(table, known_version, ledger_id, commits)


def vanished(commits: Iterable[KnownCommit], table: TableObservation) -> tuple[KnownCommit, ...]:
    """Commits of this ledger that the table does not show any more.

    The log shows another commit at its version: an engine without put-if-absent has overwritten it,
    or an older copy of the table was put back and others committed since. Where the log no longer
    has that version, the table's newest token tells: it never sinks.

    Args:
        table: The table now, with the commits from these on, as far as the log has them.
    """
    logged = {c.version: (c.ledger_id, c.commit_id, c.token) for c in table.newer}
    newest = -1 if table.token is None else table.token
    return tuple(
        c
        for c in commits
        if (
            logged[c.version] != (table.ledger_id, c.commit_id, c.token)
            if c.version in logged
            else newest < c.token
        )
    )


def _foreign_changes(
    table: TableObservation,
    known_version: int,
    ledger_id: str,
    commits: tuple[KnownCommit, ...],
) -> Iterator[Finding]:
    """Removals, restores and replacements by other programs; the audit finds their appends."""
    newest = table.version
    assert newest is not None
    if newest < known_version:
        yield _changed(
            "the table is older than the ledger",
            "; ".join([f"version {known_version} or newer", *map(str, vanished(commits, table))]),
            f"version {newest}",
            version=newest,
        )
        return
    seen = {commit.version for commit in table.newer}
    unseen = [v for v in range(known_version + 1, newest + 1) if v not in seen]
    foreign = [c for c in table.newer if not _is_harmless(c, known_version, ledger_id)]
    gone = vanished(commits, table)
    # first: who approves it has to know which runs to repeat, whatever else happened
    if gone:
        yield _vanished(gone, foreign, table, known_version)
    elif unseen:
        yield _changed(
            "commits since the last known one are no longer in the table's log",
            f"commits {known_version + 1} to {newest}",
            f"none of version {unseen[0]}",
            version=newest,
        )
    elif foreign:
        yield _changed(
            "another program removed, restored or replaced rows",
            f"only commits of ledger {ledger_id} after version {known_version}",
            _shown(foreign),
            version=foreign[-1].version,
        )


def _vanished(
    gone: tuple[KnownCommit, ...],
    foreign: list[LoggedCommit],
    table: TableObservation,
    known_version: int,
) -> Finding:
    """What another engine, or whoever restored the table, does not know to have removed."""
    logged = {c.version: c.operation for c in table.newer}
    there = [f"version {c.version}: {logged.get(c.version, 'not in the log')}" for c in gone]
    removals = f"; after that {_shown(foreign)}" if foreign else ""
    runs = ", ".join(dict.fromkeys(c.run_id for c in gone))
    return Finding(
        "table_changed",
        f"commits of ledger {table.ledger_id}: {'; '.join(map(str, gone))}",
        f"{'; '.join(there)}; newest token {table.token}{removals}",
        detail="commits of this ledger have vanished from the table",
        remedy="find out who overwrote them (another engine on a store without put-if-absent) or"
        " who restored the table; approve that, then run or clear again, by its id, each run that"
        f" landed rows there ({runs}): they are read again while Kafka has them",
        table_version=foreign[-1].version if foreign else known_version,
    )


def _shown(foreign: list[LoggedCommit]) -> str:
    texts = (f"version {c.version}: {c.operation} {c.detail}" for c in foreign)
    last = f", the last at version {foreign[-1].version}" if len(foreign) > _SHOWN else ""
    return f"{first_few(texts, _SHOWN, '; ')}{last}"


def _is_harmless(commit: LoggedCommit, known_version: int, ledger_id: str) -> bool:
    is_known = commit.version <= known_version
    return is_known or commit.ledger_id == ledger_id or not commit.removes_rows


def _refused(table: TableObservation) -> Finding:
    """Only the table itself can be changed back; then the finding goes away without a decision."""
    found = tuple(refusals(table))
    return Finding(
        "table_changed",
        "a table that takes plain data files",
        "; ".join(f"{r.name}: {r.why}" for r in found),
        detail=f"Tideline cannot write to a table with {', '.join(r.name for r in found)}",
        decidable=False,
        remedy="; ".join(dict.fromkeys(r.remedy for r in found))
        + "; then the next run goes on by itself",
    )


def _changed(
    detail: str, expected: str, actual: str, decidable: bool = True, version: int | None = None
) -> Finding:
    return Finding(
        "table_changed",
        expected,
        actual,
        detail=detail,
        decidable=decidable,
        table_version=version,
    )


@dataclass(frozen=True, slots=True)
class Refusal:
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


def refusals(table: TableObservation) -> Iterator[Refusal]:
    """Everything about a table that Tideline cannot write to, by name."""
    if table.unreadable is not None:
        why = f"it cannot even be read: {table.unreadable}"
        yield Refusal("a feature of its readers", why, "drop the feature, or restore the table")
    for name in sorted(table.features, key=lambda n: n == "domainMetadata"):  # others need it
        if name not in _WITHOUT_EFFECT:
            remedy = f"{_drop(name)}, or give the stream a new table"
            yield Refusal(name, *_FEATURES.get(name, ("Tideline does not know it", remedy)))
    for item in table.properties:
        yield from _of_property(item.name, item.value)
    for column in table.columns:
        why, remedy = _COLUMNS[column.change]
        label = f"column {column.column} ({column.change})"
        yield Refusal(label, why, remedy.format(column=column.column))


def _of_property(name: str, value: str) -> Iterator[Refusal]:
    if name in _PROPERTIES:
        effective, why = _PROPERTIES[name]
        if value.lower() == effective:
            yield Refusal(name, why, _unset(name))
    elif name == "delta.columnMapping.mode" and value.lower() != "none":
        yield Refusal(
            "columnMapping",
            "files hold the columns under other names",
            f"in Spark: ALTER TABLE t SET TBLPROPERTIES ('{name}' = 'none')",
        )
    elif name == "delta.setTransactionRetentionDuration":
        yield Refusal(name, "the table would forget which attempt wrote last", _unset(name))
    elif name.startswith("delta.constraints."):
        constraint = name.removeprefix("delta.constraints.")
        yield Refusal(
            f"CHECK constraint {constraint}",
            "each row would have to be checked",
            f"in Spark: ALTER TABLE t DROP CONSTRAINT {constraint}",
        )


def _unset(name: str) -> str:
    return f"in Spark: ALTER TABLE t UNSET TBLPROPERTIES ('{name}')"
