"""What halts the decoding, and never the landing: an incident of its own."""

from __future__ import annotations

from tideline.errors import DecodingHalted
from tideline.model.incident import Finding, Incident
from tideline.model.verdicts import FindingClass
from tideline.pipeline.context import RunContext, now


def halted(run: RunContext, finding: Finding) -> DecodingHalted:
    """Open an incident about the decoding; the error that names it."""
    state = run.ledger.update(lambda s: s.with_decoding_halted(finding, run.run_id, now()))
    incident = state.decoding.incidents[-1]
    return DecodingHalted(
        f"{incident} The landed rows stay, and landing goes on", incidents=(incident,)
    )


def goes_to_quarantine(run: RunContext, kind: FindingClass) -> Incident | None:
    """The open incident of that class whose decision is `quarantine`; None if there is none."""
    for incident in run.ledger.read().decoding.incidents:
        decision = incident.decision
        if incident.finding.kind == kind and decision and decision.choice == "quarantine":
            return incident
    return None
