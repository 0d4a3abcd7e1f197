"""Step 5: reconcile the committed version with the plan."""

from __future__ import annotations

from tideline.core.result import Landing
from tideline.core.verification import VerifiedRange
from tideline.errors import AttemptFenced, VerificationFailed
from tideline.failpoints import reach
from tideline.steps.context import RunContext
from tideline.steps.landing import check, find_landing


def verify_ranges(run: RunContext) -> tuple[Landing, tuple[VerifiedRange, ...]] | None:
    """The plan's commit and its ranges with rows and gaps; None where nothing was planned.

    Raises:
        VerificationFailed: The version holds other rows than the plan says.
        AttemptFenced: The table shows no commit of the plan.
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
    reach("verify:verified")
    return landing, good
