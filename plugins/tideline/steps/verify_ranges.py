"""Step 5: reconcile the committed version with the plan."""

from __future__ import annotations

from tideline.core.detection import find_resets_after_read
from tideline.core.plan import BatchPlan
from tideline.core.result import Landing
from tideline.core.verification import VerifiedRange
from tideline.errors import AttemptFenced, ServiceAway, VerificationFailed
from tideline.failpoints import reach
from tideline.steps.context import RunContext
from tideline.steps.halting import halt
from tideline.steps.landing import check, find_landing
from tideline.steps.observing import observe_plan


def verify_ranges(run: RunContext) -> tuple[Landing, tuple[VerifiedRange, ...]] | None:
    """The plan's commit and its ranges with rows and gaps; None where nothing was planned.

    Raises:
        VerificationFailed: The version holds other rows than the plan says.
        AttemptFenced: The table shows no commit of the plan.
        ResetDetected: The log changed while it was read; the position does not move.
        ServiceAway: The cluster cannot say whether it did.
    """
    record, plan = run.frozen_plan()
    if plan is None:
        return None
    landing = find_landing(run, record)
    if landing is None:
        raise AttemptFenced(
            f"plan {plan.plan_id}: no commit of it in {run.stream.table.uri}; ingest it first",
            plan_id=plan.plan_id,
        )
    good, bad = check(run, plan, landing.version)
    if bad:
        raise VerificationFailed(
            f"table version {landing.version} is not what plan {plan.plan_id} says: "
            + "; ".join(str(b) for b in bad)
            + f". gaps: {run.stream.gaps} admits none of this; the position did not move",
            plan_id=plan.plan_id,
            table_version=landing.version,
            mismatches=[str(b) for b in bad],
        )
    if landing != record.landing:  # read since it was verified last
        _check_after_read(run, plan)
    reach("verify:verified")
    return landing, good


def _check_after_read(run: RunContext, plan: BatchPlan) -> None:
    """R7: Spark reads by topic name; what stood behind the name may have changed meanwhile."""
    findings = find_resets_after_read(plan, observe_plan(run, plan))
    passing = [str(f) for f in findings if f.kind == "passing"]
    if passing:
        raise ServiceAway(f"the check after the read needs a settled answer: {' '.join(passing)}")
    if findings:
        halt(run, findings)
