"""Step 8, where the stream has typed tables: every raw row is in one of them, once."""

from __future__ import annotations

from tideline.errors import BadInput
from tideline.model.decoding import DecodeRecord
from tideline.pipeline.context import RunContext
from tideline.pipeline.decode_tables import refuse_other_tables
from tideline.pipeline.decode_verifying import close_decoding


def verify_decoded(run: RunContext) -> DecodeRecord | None:
    """The run's closed decoding; None where it had nothing to decode.

    Raises:
        BadInput: The run's plan is open and not committed: only `verify_decoded` was cleared. Or a
            typed table was replaced by another one since then.
        VerificationFailed: A raw row is in neither table or in both, or one stands twice.
        ServiceAway: A table is gone, or its store is away.
        StreamBusy: Somebody else decodes.
    """
    if run.typed is None:
        return None
    with run.ledger.lease("decoder"):
        record = run.ledger.read().decoding.open
        if record is None or record.plan.run_id != run.run_id:
            return run.ledger.find_decoding(run.run_id)
        if record.table_version is None:
            raise BadInput(
                f"plan {record.plan.plan_id} is not committed: clear decode_rows and what follows,"
                " or run the same run id again",
                plan_id=record.plan.plan_id,
            )
        refuse_other_tables(run)
        return close_decoding(run, record)
