"""Evidence about missing offsets that was gathered before: it can expire, the gap stays."""

from __future__ import annotations

from collections import defaultdict

from tideline.model.gaps import Gap, merge_gaps
from tideline.model.offsets import PartitionIdentity
from tideline.model.run import PartitionEvidence, RunRecord

Known = dict[PartitionIdentity, list[Gap]]

_FROM_THE_LOG = ("marker", "aborted")


def known_evidence(record: RunRecord) -> Known:
    """What the log has shown so far at a run's missing offsets, by partition identity."""
    known: Known = defaultdict(list)
    for evidence in record.evidence:
        known[evidence.identity] += [g for g in evidence.gaps if g.reason in _FROM_THE_LOG]
    for verified in record.verified:
        known[verified.planned.identity] += [g for g in verified.gaps if g.reason in _FROM_THE_LOG]
    return known


def stored_evidence(known: Known) -> tuple[PartitionEvidence, ...]:
    """Evidence in the form in which the ledger keeps it."""
    return tuple(PartitionEvidence(i, merge_gaps(known[i])) for i in sorted(known))
