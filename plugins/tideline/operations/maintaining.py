"""Keep a stream's tables small and quick: merge small files, delete those that nobody needs.

No row changes; the quarantine loses old rows if the stream file says so. The ledger learns their
coordinates before the table loses them: if this dies in between, the next call removes them.
Everything happens under the lease of whoever writes the table, so no other attempt is at work; what
an older one has left is deleted only behind a newer token: it can no longer commit that (R5).
Decoding reads the raw table's files by their names, so no raw file goes while it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from tideline.decoding.verifying import rows_by_log
from tideline.errors import CommitConflict, Halted, ServiceAway
from tideline.failpoints import reach
from tideline.landing.attempts import Attempt, begin_attempt, discarding
from tideline.landing.context import RunContext, log, now
from tideline.landing.proof import foreign_changes
from tideline.landing.table_commit import commit_checked
from tideline.ledger.state import LedgerState
from tideline.model.incident import Finding
from tideline.model.maintenance import (
    NO_ROWS,
    ExpiredRows,
    FileCount,
    FileMerge,
    PlannedRows,
    RowCount,
    TableRole,
    TableSize,
    TableUpkeep,
)
from tideline.model.wording import first_few
from tideline.rules.foreign_changes import refuse_other_ledger, table_findings
from tideline.rules.upkeep import Group, bounding_ranges, plan_merges, plans_before, rounds
from tideline.table.schema import COMPACTION_ID, TableChange, fence_id, removal_id
from tideline.table.table_port import MaintainedTablePort

_NAME = "quarantine"


def expired_rows(run: RunContext, table: MaintainedTablePort) -> PlannedRows | None:
    """The quarantined rows that go; None if no plan is old enough.

    Args:
        run: Its stream says how long they are kept.
        table: The quarantine.

    Raises:
        ServiceAway: A store is away.
    """
    days = run.stream.maintenance.quarantine_days
    if days is None:
        return None
    plans = plans_before(run.ledger.decode_closings(), now(), days)
    return table.rows_of_plans(plans) if plans else None


def remove_expired(run: RunContext, table: MaintainedTablePort) -> RowCount:
    """Remove the quarantined rows that are old enough, in one transaction.

    Args:
        run: This run, with that table and the lease of whoever writes it.
        table: The quarantine.

    Returns:
        What was removed.

    Raises:
        StreamBusy: The lease was lost.
        AttemptFenced: A newer attempt has written.
        ServiceAway: A store is away.
    """
    found = expired_rows(run, table)
    if found is None or not found.count.rows:
        return NO_ROWS
    attempt = begin_attempt(run, run.ledger.read().control.ledger_id, table)
    gone = ExpiredRows(
        let_go_id=f"{_NAME}-{attempt.state.control.token}",
        run_id=run.run_id,
        by=f"maintenance.quarantine_days: {run.stream.maintenance.quarantine_days}{_asked(run)}",
        at=now(),
        ranges=found.ranges(found.chosen),
    )
    run.ledger.update(lambda state: state.noting(gone))
    reach("maintain:let_go_noted")
    # Few ranges: a commit names them all, and rows that go have rarely others between them.
    change = attempt.change(
        removal_id(_NAME), found.ranges(bounding_ranges(found.chosen, found.others))
    )
    before = table.size()
    assert before is not None
    commit_checked(table, change, after_version=before.version)
    reach("maintain:let_go")
    log.info("%s: %d quarantined rows were removed (%s)", table.uri, found.count.rows, gone.by)
    return found.count


def _asked(run: RunContext) -> str:
    return "" if run.request.by is None else f", asked by {run.request.by}"


_MB = 1024 * 1024
_ROUND_BYTES = 1024 * _MB
"""Of the files that one transaction replaces."""

Tables = Mapping[TableRole, MaintainedTablePort]
"""A stream's tables, in the order in which they are maintained."""


def maintain_stream(
    run: RunContext, tables: Tables, *, dry_run: bool = False
) -> tuple[TableUpkeep, ...]:
    """Merge and delete files of every table of a stream.

    What is done stays done if it ends early: the next call goes on from there.

    Args:
        tables: Those of the stream, as `stream.stream.tables_of` names them.
        dry_run: Whether to find out only what would be done.

    Returns:
        One entry per table that is there.

    Raises:
        StreamBusy: Somebody else writes one of the tables, or reads the raw table to decode it.
        Halted: A table is not the one that the ledger knows, asks for Delta's own writer, or a
            rewind is unfinished.
        VerificationFailed: A data file is damaged.
        CommitConflict: Other programs have changed the files that were merged.
        ServiceAway: A store is away.
    """
    done = []
    for role, table in tables.items():
        upkeep = Upkeep(run, role, table)
        if not table.observe().exists:
            continue
        if dry_run:
            done.append(upkeep.preview())
            continue
        with ExitStack() as held:
            for name in _leases(run, role):
                held.enter_context(run.ledger.lease(name))
            done.append(upkeep.carry_out())
    return tuple(done)


def _leases(run: RunContext, role: TableRole) -> tuple[str, ...]:
    """Of those who write a table, the first; then of those who read files of older versions."""
    if role != "raw":
        return ("decoder",)
    return ("writer",) if run.typed is None else ("writer", "decoder")


class Upkeep:
    """The maintenance of one table.

    Args:
        run: This run.
        role: Which table it is.
    """

    def __init__(self, run: RunContext, role: TableRole, table: MaintainedTablePort) -> None:
        self._run = run
        self._role = role
        self._table = table
        self._wanted = run.stream.maintenance

    def preview(self) -> TableUpkeep:
        """What would be done now."""
        before = self.checked()
        is_quarantine = self._role == "quarantine"
        expired = expired_rows(self._run, self._table) if is_quarantine else None
        groups = self._planned()
        merged = FileCount.of(file.bytes for group in groups for file in group)
        return TableUpkeep(
            self._role,
            self._table.uri,
            before,
            merged,
            FileCount(len(groups), merged.bytes),
            self._table.vacuum(self._wanted.vacuum_hours, delete=False),
            expired.count if expired is not None else NO_ROWS,
            None,
        )

    def carry_out(self) -> TableUpkeep:
        """Remove old rows, merge, then delete; the caller holds the leases."""
        before = self.checked()
        self._table.keep_for(self._wanted.vacuum_hours)
        is_quarantine = self._role == "quarantine"
        expired = remove_expired(self._run, self._table) if is_quarantine else NO_ROWS
        merged: list[int] = []
        written: list[int] = []
        for groups in rounds(self._planned(), _ROUND_BYTES):
            sizes = {file.path: file.bytes for group in groups for file in group}
            for merge in self._merge(groups):
                merged += [sizes[path] for path in merge.old]
                written.append(merge.bytes)
        vacuumed = self.vacuum(self._wanted.vacuum_hours)
        if is_quarantine:
            left = rows_by_log(self._table, self._size().version)
            self._run.ledger.update(lambda state: state.with_in_quarantine(left))
        return TableUpkeep(
            self._role,
            self._table.uri,
            before,
            FileCount.of(merged),
            FileCount.of(written),
            vacuumed,
            expired,
            self._size(),
        )

    def _merge(self, groups: Sequence[Group]) -> tuple[FileMerge, ...]:
        """Merge some groups in one transaction, those whose files fit together."""
        change = self._attempt().change(COMPACTION_ID)
        based_on = self._size().version
        with discarding(change, self._table):
            merges = self._table.merge(change, groups)
            reach("maintain:merged")
            if merges:
                self._commit(replace(change, merges=merges), based_on)
        reach("maintain:committed")
        if left := len(groups) - len(merges):
            log.warning(
                "%s: %d groups of small files stay: their columns' types differ",
                self._table.uri,
                left,
            )
        return merges

    def _attempt(self) -> Attempt:
        return begin_attempt(self._run, self._run.ledger.read().control.ledger_id, self._table)

    def _commit(self, change: TableChange, after_version: int) -> None:
        """Commit a change that moves no row, whoever has appended meanwhile.

        Raises:
            CommitConflict: A file that was merged is no longer part of the table.
        """

        def check(version: int) -> TableChange:
            active = {file.path for file in self._table.files(version)}
            gone = [path for merge in change.merges for path in merge.old if path not in active]
            if gone:
                raise CommitConflict(
                    f"table {self._table.uri}: another program has removed, rewritten or compacted"
                    f" {gone[0]} and {len(gone) - 1} further files while they were merged; nothing"
                    " was committed, maintain again",
                    table=self._table.uri,
                )
            return change

        commit_checked(self._table, change, after_version=after_version, check=check)

    def vacuum(self, hours: int, *, at_once: bool = False) -> FileCount:
        """Delete what nobody needs, behind a token that keeps older attempts from committing it."""
        if not self._table.vacuum(hours, delete=False, at_once=at_once).files:
            return FileCount(0, 0)
        table, control = self._table.observe(), self._run.ledger.read().control
        if (table.token or 0) != control.token and table.version is not None:
            self.fence()
        self._run.ledger.refuse_lost()
        reach("maintain:vacuuming")
        self.refuse_other(control.ledger_id)
        deleted = self._table.vacuum(hours, delete=True, at_once=at_once)
        reach("maintain:vacuumed")
        return deleted

    def cut_log(self) -> int:
        """Delete the log before the newest version; how many files went."""
        self.refuse_other(self._run.ledger.read().control.ledger_id)
        return self._table.cut_log()

    def refuse_other(self, ledger_id: str) -> None:
        """Make sure that what is deleted is the stream's own: no commit looks at that (R13).

        Raises:
            Halted: The table belongs to another ledger, or to none.
        """
        refuse_other_ledger(self._table.uri, self._table.observe().ledger_id, ledger_id)

    def fence(self, fold: str = "") -> None:
        """Commit what touches no row: older attempts commit nothing after it.

        Args:
            fold: What it tells of the last fold, where the log is cut at it.
        """
        change = self._attempt().change(fence_id("maintenance"))
        self._commit(replace(change, fold=fold), self._size().version)

    def _planned(self) -> tuple[Group, ...]:
        return plan_merges(
            self._table.files(),
            below_bytes=self._wanted.compact_below_mb * _MB,
            target_bytes=self._wanted.target_mb * _MB,
        )

    def checked(self) -> TableSize:
        """The table's size, once it is certain that nobody has to decide about it first (R13).

        A decision may need the files of older versions: the rows that others have removed are
        found by the version in which the incident was opened, and a person may restore it.
        """
        state = self._run.ledger.read()
        findings = self._findings(state)
        if findings:
            raise Halted(
                f"table {self._table.uri} is not maintained: {first_few(findings, 3, '; ')}."
                " Nothing was changed; the next run opens an incident: decide, then maintain again",
                table=self._table.uri,
            )
        return self._size()

    def _findings(self, state: LedgerState) -> tuple[Finding, ...]:
        if self._role == "raw":
            return foreign_changes(self._run, state)[1]
        observed, stream = self._table.observe(), self._run.stream.stream
        return tuple(table_findings(None, observed, stream, state.control.ledger_id))

    def _size(self) -> TableSize:
        size = self._table.size()
        if size is None:
            raise ServiceAway(f"table {self._table.uri} is gone; run again when it is back")
        return size
