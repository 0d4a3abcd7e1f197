"""Look, check, commit: the loop in which every change of every table is committed (R2, R5).

Each try looks at the table's newest version, and its commit is valid for the version right after
that one only. If somebody else was first, everything is checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tideline.errors import AttemptFenced, CommitConflict, ServiceAway
from tideline.failpoints import reach
from tideline.model.incident import Finding
from tideline.model.observation import TableObservation
from tideline.model.run import TableCommit
from tideline.pipeline.context import log
from tideline.table.change import TableChange
from tideline.table.port import TablePort

_TRIES = 10
"""How many times another program may commit between a look at the table and our commit."""

Seen = tuple[TableObservation, tuple[Finding, ...]]
"""The table, and what others did to it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A table that is written to.

    Args:
        table: The table.
        uri: Its address, for messages.
        look: Gives the table as it is now, and what others did to it.
        halt: Halts where others have done something; called when it is sure that the attempt has
            not committed yet.
    """

    table: TablePort
    uri: str
    look: Callable[[], Seen]
    halt: Callable[[tuple[Finding, ...]], None]


def commit_checked(
    target: Target,
    change: TableChange,
    files: Sequence[str],
    check: Callable[[int], TableChange],
    after_version: int,
) -> TableCommit:
    """Look, check, commit; again if another commit came first, and at most `_TRIES` times.

    Args:
        target: What is written to.
        change: The attempt.
        files: Its data files.
        check: Raises, or gives what is to be committed on a version.
        after_version: The table's version before the attempt.

    Raises:
        AttemptFenced: A newer attempt has written.
        ServiceAway: A service is away, or others committed first every time.
    """
    for _ in range(_TRIES):
        seen, findings = target.look()
        # Asked after the look: a newer token is in the version that we build on, or above it.
        if made := _made(target, change, after_version):
            return made
        _refuse_fenced(target, change)
        target.halt(findings)
        if seen.version is None:
            raise _away(target, "it is gone")
        checked = check(seen.version)
        reach("table:committing")
        try:
            target.table.commit(checked, files, seen.version)
        except CommitConflict as conflict:
            log.info("%s", conflict)
        except ServiceAway:
            if made := _made(target, change, after_version):  # only the answer was lost
                return made
            raise
    if made := _made(target, change, after_version):
        return made
    raise _away(target, f"other programs have committed first, {_TRIES} times")


def _away(target: Target, why: str) -> ServiceAway:
    return ServiceAway(f"table {target.uri}: {why}; nothing was committed, run again later")


def _made(target: Target, change: TableChange, after_version: int) -> TableCommit | None:
    """The change's commit, if the table shows it."""
    made = target.table.find_commit(change.commit_id, after_version)
    if made is None or made.token != change.token:
        return None
    log.info("%s: %d rows, table version %d", change.commit_id, made.rows, made.version)
    return made


def _refuse_fenced(target: Target, change: TableChange) -> None:
    newest = target.table.newest_token(change.app_id)
    if newest is not None and newest >= change.token:
        raise AttemptFenced(
            f"{change.commit_id}: attempt {change.token} has committed nothing: the table holds"
            f" token {newest} of a newer one; run again, the ledger knows what is done",
            commit_id=change.commit_id,
            token=change.token,
        )
