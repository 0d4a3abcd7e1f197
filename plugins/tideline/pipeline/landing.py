"""Whether the table proves a plan's rows, by its commit's mark and by coordinates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tideline.ledger.state import LedgerState
from tideline.model.coverage import Intervals, subtract
from tideline.model.gaps import Gap, merge_gaps
from tideline.model.head import Head
from tideline.model.incident import Finding, Incident
from tideline.model.observation import TableObservation
from tideline.model.offsets import PartitionIdentity
from tideline.model.plan import BatchPlan, PlannedRange
from tideline.model.run import PartitionEvidence, RunRecord, TableCommit
from tideline.model.verification import Mismatch, VerifiedRange
from tideline.pipeline.context import RunContext
from tideline.pipeline.observing import check_after_read
from tideline.rules.advance import advance_head
from tideline.rules.table_watch import table_findings
from tideline.rules.verification import gap_findings, missing_offsets, unexplained_by, verify_ranges


@dataclass(frozen=True, slots=True)
class Assessment:
    """A landed plan held against one version of the table, and against the log.

    Args:
        verified: Ranges whose every offset has a row or an excuse.
        mismatches: The others.
        findings: What halts: the log changed while it was read, or offsets are missing.
        evidence: What the log showed at missing offsets, worth keeping.
    """

    verified: tuple[VerifiedRange, ...]
    mismatches: tuple[Mismatch, ...] = ()
    findings: tuple[Finding, ...] = ()
    evidence: tuple[PartitionEvidence, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether the head may move over it."""
        return not self.mismatches and not self.findings


def proven_commit(run: RunContext, record: RunRecord) -> TableCommit | None:
    """The commit of an open plan, if its rows are all still there; None if it has to be read.

    Both must hold: a commit carries the plan's id, and as many rows stand at the planned
    coordinates of the newest version. The commit alone would still be in the history after
    somebody restored an older version.
    """
    plan = record.plan
    assert plan is not None
    table_commit = find_commit(run, record)
    newest = run.table.observe().version
    if table_commit is None or newest is None:
        return None
    landed = run.table.landed(plan.ranges, newest)
    rows = sum(found.rows for found in landed.values())
    distinct = sum(found.distinct for found in landed.values())
    return table_commit if rows == distinct >= table_commit.rows else None


def settled_head(run: RunContext, state: LedgerState) -> Head:
    """The head as it will be once an open plan is settled whose rows the table proves (R3).

    Rows that are in the table are never reported lost, also by those who only look.
    """
    left_open = state.open_live_run()
    if left_open is None or left_open.plan is None:
        return state.head
    if state.incidents_of_plan(left_open.plan.plan_id):
        return state.head
    table_commit = proven_commit(run, left_open)
    return (
        state.head
        if table_commit is None
        else advance_head(state.head, left_open.plan, table_commit)
    )


def find_commit(run: RunContext, record: RunRecord) -> TableCommit | None:
    """The newest commit with the plan's mark; looks no further back than it can be."""
    plan = record.plan
    assert plan is not None
    after = plan.table_version if record.table_commit is None else record.table_commit.version - 1
    return run.table.find_commit(plan.plan_id, after_version=after)


def assess(run: RunContext, record: RunRecord, version: int) -> Assessment:
    """Count a landed plan's rows in one version, look at gaps, and at the log again (R7).

    The log is looked at last: what Spark and the evidence saw belongs to the plan's incarnation
    only if that is still there.

    Raises:
        ServiceAway: The cluster does not give a settled answer.
    """
    plan = record.plan
    assert plan is not None
    head = run.ledger.read().head
    verified, bad, evidence = count_rows(run, record, plan.ranges, version, head)
    if (
        record.table_commit is None or record.table_commit.version != version
    ):  # read since it was verified
        changed = check_after_read(run, plan)
        if changed:
            doubted = {
                r.identity
                for r in plan.ranges
                if any(f.concerns(r.topic_partition) for f in changed)
            }
            sure = tuple(e for e in evidence if e.identity not in doubted)
            return Assessment(verified, bad, changed, sure)
    return Assessment(verified, bad, gap_findings(bad, plan), evidence)


def verified_after_all(
    run: RunContext, record: RunRecord, table_commit: TableCommit, held: tuple[Incident, ...]
) -> tuple[VerifiedRange, ...] | None:
    """The ranges of a halted plan whose incidents have gone by; None where they have not.

    Rights were given back, a lagging leader caught up: then nothing has to be read again, and rows
    that Kafka may have deleted by now are not lost. Another cluster's answers never pass like
    that: Spark may have read there.
    """
    if any(i.finding.kind == "cluster_changed" for i in held):
        return None
    found = assess(run, record, table_commit.version)
    return found.verified if found.is_clean else None


def foreign_changes(
    run: RunContext, plan: BatchPlan
) -> tuple[TableObservation, tuple[Finding, ...]]:
    """The table now, and what others did to it since the last version that the ledger knows (R13).

    Asked before anything is written, and again before the head takes a newer version for known.
    """
    state = run.ledger.read()
    head = state.head
    known_version = plan.table_version if head.table_version is None else head.table_version
    table = run.table.observe(known_version)
    findings = table_findings(
        head.table_id or plan.table_id,
        table,
        run.stream.stream,
        state.control.ledger_id,
        known_version if head.table_id or plan.table_id else None,
    )
    return table, tuple(findings)


def count_rows(
    run: RunContext,
    record: RunRecord,
    ranges: Iterable[PlannedRange],
    version: int,
    head: Head,
) -> tuple[tuple[VerifiedRange, ...], tuple[Mismatch, ...], tuple[PartitionEvidence, ...]]:
    """Rows and gaps of a run's landed ranges; missing offsets are looked at in the log once.

    Returns:
        The ranges that hold, those that do not, and the evidence known by now.
    """
    wanted = tuple(ranges)
    landed = run.table.landed(wanted, version)
    accepted_loss = {c.identity: c.intervals for c in head.accepted_loss}
    known = _known_gaps(record)
    if run.stream.gaps == "explain":
        missing = {
            identity: rest
            for identity, offsets in missing_offsets(wanted, landed).items()
            if (rest := subtract(offsets, accepted_loss.get(identity, ())))
        }
        _look_at(run, record, wanted, unexplained_by(missing, known), known)
    good, bad = verify_ranges(
        wanted, landed, gaps=run.stream.gaps, evidence=known, accepted_loss=accepted_loss
    )
    evidence = tuple(PartitionEvidence(i, merge_gaps(known[i])) for i in sorted(known))
    return good, bad, evidence


def _look_at(
    run: RunContext,
    record: RunRecord,
    ranges: tuple[PlannedRange, ...],
    missing: dict[PartitionIdentity, Intervals],
    known: dict[PartitionIdentity, list[Gap]],
) -> None:
    if not missing or record.plan is None:
        return
    places = {r.topic_partition: r.identity for r in ranges if r.identity in missing}
    asked = {place: missing[identity] for place, identity in places.items()}
    for place, gaps in run.kafka.examine(asked, record.plan.isolation_level).items():
        known[places[place]] += gaps


def _known_gaps(record: RunRecord) -> dict[PartitionIdentity, list[Gap]]:
    """Evidence gathered before: it can expire, the missing offset stays missing."""
    known: dict[PartitionIdentity, list[Gap]] = defaultdict(list)
    for evidence in record.evidence:
        known[evidence.identity] += [g for g in evidence.gaps if g.reason in ("marker", "aborted")]
    for verified in record.verified:
        known[verified.planned.identity] += [
            g for g in verified.gaps if g.reason in ("marker", "aborted")
        ]
    return known
