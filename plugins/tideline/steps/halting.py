"""Open incidents and halt: what was found stays in the ledger until it is settled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from tideline.core.incident import Finding
from tideline.core.ledger_state import incident_key
from tideline.errors import ResetDetected
from tideline.steps.context import RunContext, log, now


def halt(run: RunContext, findings: Iterable[Finding]) -> NoReturn:
    """Open an incident per finding, or attach to one that is open, and stop the run.

    Raises:
        ResetDetected: Always; carries the incidents.
    """
    found = tuple(findings)
    for kind in sorted({f.kind for f in found}):
        policy = getattr(run.stream.on_reset, kind)
        if policy != "fail":
            log.warning("on_reset.%s: %s is not acted on yet, the run fails", kind, policy)
    state = run.ledger.update(lambda s: s.with_incidents(found, run.run_id, now()))
    keys = {incident_key(f) for f in found}
    incidents = [i for i in state.control.incidents if incident_key(i.finding) in keys]
    raise ResetDetected("\n".join(str(f) for f in found), incidents=incidents)
