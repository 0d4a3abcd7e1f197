"""Whether the table at the address is the one that the ledger knows, and may be written to (R13).

The table's properties hold the stream's name and the ledger's id. So a table or a ledger that was
replaced, shared or created anew is detected. Every commit after the last known version is checked:
those of the ledger carry its id in their commit metadata. Of others it counts whether their actions
took rows away: what somebody called the operation proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tideline.errors import Halted
from tideline.model.head import KnownCommit
from tideline.model.incident import Finding
from tideline.model.observation import LoggedCommit, TableObservation
from tideline.model.table_features import table_refusals
from tideline.model.wording import first_few

_SHOWN = 3
"""Commits of others in a message."""

OLDER_LEDGER = (
    "the ledger is older than the table: a backup of it was restored, or its address was edited"
)
"""The detail by which this finding is known: an approval takes over what the table tells."""


def table_findings(
    known_id: str | None,
    table: TableObservation,
    stream: str,
    ledger_id: str,
    known_version: int | None = None,
    commits: tuple[KnownCommit, ...] = (),
    known_token: int | None = None,
) -> Iterator[Finding]:
    """Every reason not to write to the table (R13).

    Only the first that applies is told: where the table is another one, the others mean nothing.

    Args:
        known_id: The table's id as the ledger knows it; None before the first commit.
        table: The table now, with the commits after `known_version`, and from `commits` on.
        known_version: Newest version known to hold only what the ledger knows; commits after it
            (exclusive) are checked. None before the first commit: none is checked.
        commits: This ledger's newest commits, which the table has to show for good.
        known_token: The newest token that the ledger had given out when the table was looked at,
            or later; None where it does not matter.
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
    elif any(table_refusals(table)):
        yield _refused(table)
    elif older := _older_ledger(table, known_token):
        yield older
    else:
        yield from changes_by_others(table, known_version, ledger_id, commits)


def refuse_other_ledger(uri: str, found: str | None, own: str) -> None:
    """Refuse to change a table that is not the ledger's own (R13).

    Whoever begins looks for that; another table may have come into the place since.

    Args:
        uri: The address at which the table stands.
        found: Whose ledger's the table is; None if it is nobody's, or gone.
        own: The ledger's id.

    Raises:
        Halted: The table belongs to another ledger, or to none.
    """
    if found != own:
        raise Halted(
            f"table {uri} is another one by now: it belongs to"
            f" {'no ledger' if found is None else f'ledger {found}'}, this stream's ledger is"
            f" {own}. Nothing was changed there. Bring the stream's own table back, or give the"
            " stream another address; then run again",
            table=uri,
        )


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


def _older_ledger(table: TableObservation, known_token: int | None) -> Finding | None:
    """Each token was given out by the ledger before a commit carried it."""
    if known_token is None or (table.token or 0) <= known_token:
        return None
    unknown = [
        c for c in table.newer if c.ledger_id == table.ledger_id and (c.token or 0) > known_token
    ]
    texts = (f"version {c.version} ({c.commit_id}, token {c.token})" for c in unknown)
    return Finding(
        "table_changed",
        f"no token above {known_token}, the last one that this ledger has given out",
        f"token {table.token}; of commits that the ledger does not know:"
        f" {first_few(texts, _SHOWN, '; ') or 'none that the log still has'}",
        detail=OLDER_LEDGER,
        remedy="bring the newer ledger back, or correct ledger_uri; only if it is lost for good,"
        " approve: rows that it had landed count as known again, rows that it had removed are read"
        " again",
        table_version=unknown[-1].version if unknown else table.version,
    )


def changes_by_others(
    table: TableObservation,
    known_version: int | None,
    ledger_id: str,
    commits: tuple[KnownCommit, ...],
) -> Iterator[Finding]:
    """Removals, restores and replacements by other programs; the audit finds their appends.

    Args:
        table: As of `table_findings`, as the others are.
    """
    if known_version is None:
        return
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
    found = tuple(table_refusals(table))
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
