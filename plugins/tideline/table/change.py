"""One change of the table's rows, as the run commits it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.model.maintenance import FileMerge
from tideline.model.offsets import CoordinateRange
from tideline.table.schema import app_id, commit_metadata


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
        by: Who has asked for it; None for a schedule.
    """

    ledger_id: str
    commit_id: str
    run_id: str
    token: int
    ranges: tuple[CoordinateRange, ...]
    merges: tuple[FileMerge, ...] = ()
    by: str | None = None

    @property
    def app_id(self) -> str:
        """Delta application id that the token belongs to: one for all attempts of a ledger."""
        return app_id(self.ledger_id)

    @property
    def folder(self) -> str:
        """The folder, inside the table's, into which this attempt and no other writes data files.

        Its name does not begin with `_` or `.`: Delta's readers skip such names.
        """
        return f"landed-{self.commit_id}-{self.token}"

    def metadata(self, *, rows: int, bytes: int) -> str:
        """User metadata of the commit; see `table.schema.commit_metadata`.

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
            by=self.by,
            rows=rows,
            bytes=bytes,
        )


COMPACTION_ID = "maintenance.compacted"
"""What the commit of a compaction carries for a plan id; its token tells one from another."""


def removal_id(name: str) -> str:
    """What the commit of a removal carries for a plan id: it must not pass for a landing."""
    return f"{name}.removed"


def fence_id(name: str) -> str:
    """What a commit carries that keeps older attempts out, and touches no row."""
    return f"{name}.fenced"
