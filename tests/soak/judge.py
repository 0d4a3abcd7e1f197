"""What a soak came to: the producer's log, the table, the ledger and the broker, held together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from devstack.sample import value_hash
from tests.faults.recorder import Record
from tests.soak.documents import wrongly_decoded
from tests.soak.scenario import Scenario
from tests.worlds.streams import table_rows
from tideline.model.offsets import Intervals, OffsetRange, union
from tideline.wiring import open_ledger

Log = tuple[str, int]
"""Topic id and partition."""


@dataclass(frozen=True)
class Verdict:
    """The oracle's counts; all but the first three must be 0.

    Args:
        acknowledged: Records that brokers acknowledged.
        rows: Rows of the table.
        accepted: Records whose loss somebody has decided to accept, with the offsets named.
        lost: Acknowledged, behind the head, not in the table, and in nobody's decision.
        duplicate: Rows beyond the first at a coordinate.
        skipped: Offsets behind the head that no verified run and no decision accounts for.
        unseen: Acknowledged, and not behind the head after the last run.
        inconsistent: Rows that the producer never wrote, or not with this value.
        decoded: Rows of both typed tables that the raw rows do not explain, or lack.
        audit: What `tideline audit` found.
    """

    acknowledged: int
    rows: int
    accepted: int
    lost: int
    duplicate: int
    skipped: int
    unseen: int
    inconsistent: int
    decoded: int
    audit: str

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        wrong = (
            self.lost,
            self.duplicate,
            self.skipped,
            self.unseen,
            self.inconsistent,
            self.decoded,
        )
        return not any(wrong) and self.audit == "clean"

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged, {self.rows} rows,"
            f" {self.accepted} accepted as lost\n"
            f"lost {self.lost}  duplicate {self.duplicate}  skipped {self.skipped}"
            f"  unseen {self.unseen}  inconsistent {self.inconsistent}"
            f"  wrongly decoded {self.decoded}  audit {self.audit}"
        )


def judge(scenario: Scenario) -> Verdict:
    """Judge a scenario that has come to rest."""
    head = open_ledger(scenario.stream).read().head
    positions = {(p.topic_id, p.partition): p.next_offset for p in head.positions}
    accepted_loss: dict[Log, Intervals] = {}
    of_head = (((i.topic_id, i.partition), lost) for i, lost in head.accepted_loss.items())
    for log, intervals in (*of_head, *_accepted_losses(scenario)):
        accepted_loss[log] = union(accepted_loss.get(log, ()), intervals)
    rows: Counter[Record] = Counter()
    for *place, value in table_rows(scenario.stream, "topic_id", "partition", "offset", "value"):
        rows[(*place, value_hash(value))] += 1
    places = Counter({place[:3]: 0 for place in rows})
    for record, copies in rows.items():
        places[record[:3]] += copies
    absent = scenario.log.acknowledged - set(rows)
    behind = {r for r in absent if r[2] < positions.get(r[:2], 0)}
    accepted_records = {r for r in behind if _holds(accepted_loss.get(r[:2], ()), r[2])}
    audit, findings = scenario.audit()
    wrong = [
        f"{len(flaws)} {kind} {flaws[0]}"
        for kind in ("gaps", "overlaps", "duplicates", "missing", "foreign", "unverified")
        if (flaws := getattr(audit, kind))
    ]
    assert audit.typed is not None
    if not audit.typed.clean or audit.typed.pending:
        wrong.append(f"{audit.typed}; {audit.typed.pending} not decoded")
    return Verdict(
        acknowledged=len(scenario.log.acknowledged),
        rows=rows.total(),
        accepted=len(accepted_records),
        lost=len(behind - accepted_records),
        duplicate=sum(copies - 1 for copies in places.values()),
        skipped=sum(flaw.offsets for flaw in audit.gaps),
        unseen=len(absent - behind),
        inconsistent=len(set(rows) - scenario.log.acknowledged),
        decoded=wrongly_decoded(scenario.stream),
        audit="; ".join([*wrong, *map(str, findings)]) or "clean",
    )


def _accepted_losses(scenario: Scenario) -> list[tuple[Log, Intervals]]:
    """Intervals of incidents that somebody has decided to accept."""
    return [
        ((str(i.finding.topic_id), int(i.finding.partition or 0)), i.finding.intervals)
        for i in open_ledger(scenario.stream).closed_incidents()
        if i.decision is not None and i.decision.choice == "accept_loss"
    ]


def _holds(intervals: tuple[OffsetRange, ...], offset: int) -> bool:
    return any(r.start_offset <= offset < r.end_offset for r in intervals)
