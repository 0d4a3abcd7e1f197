"""Which steps of a run would find nothing to do, known once detection has passed."""

from __future__ import annotations

from collections.abc import Collection

from tideline.model.decoding import Decoding
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.run import RunRecord
from tideline.rules.decoding import has_work

AFTER_DETECTION = ("resolve_reset", "ingest_ranges", "verify_ranges", "advance_offsets")
"""The steps that follow and land, in their order."""

DECODING_STEPS = ("decode_rows", "verify_decoded")
"""The steps that follow where the stream has typed tables."""


def steps_without_work(record: RunRecord, incidents: Collection[Incident]) -> tuple[str, ...]:
    """The steps that can be left out; in Airflow each one would be a process.

    An incident that comes up later needs no `resolve_reset` of this run: the step that meets it
    halts the run, and a later run, or this one cleared, carries the decision out.

    Args:
        record: The run's, as detection left it.
        incidents: All that are open.
    """
    if record.status == "proposed" or record.is_planned_anew or record.resolved:
        return ()
    if not record.is_to_execute:
        return AFTER_DETECTION
    return () if incidents else ("resolve_reset",)


def decodes_nothing(record: RunRecord, head: Head, decoding: Decoding) -> bool:
    """Whether the steps that decode can be left out as well.

    A run that lands something has something to decode.

    Args:
        record: The run's, as detection left it.
        head: What is landed.
        decoding: What is decoded.
    """
    return not record.is_to_execute and record.status != "proposed" and not has_work(head, decoding)
