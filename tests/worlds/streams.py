"""What tests ask of a stream, how they answer its incidents, and runs that a crash cuts off."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import obstore
import pytest
from deltalake import DeltaTable

from tideline.errors import ResetDetected
from tideline.landing.context import hold_lane
from tideline.model.addresses import is_in_object_store
from tideline.model.incident import Decision
from tideline.model.request import RunRequest
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges
from tideline.store.store_settings import store_settings, with_limits
from tideline.store.table_files import object_store
from tideline.table.delta_table import TargetTable
from tideline.wiring import open_ledger, open_run

STEPS = (
    "plan_offset_ranges",
    "detect_earliest_reset",
    "resolve_reset",
    "ingest_ranges",
    "verify_ranges",
    "advance_offsets",
)
"""Of a run, in their order; the names of Airflow's tasks."""


def folder_of(uri):
    """Where a table's files are; `TIDELINE_TEST_OBJECTS` is where a store's server keeps them."""
    bucket = os.environ.get("TIDELINE_TEST_BUCKET")
    if not bucket:
        return Path(uri)
    if (objects := os.environ.get("TIDELINE_TEST_OBJECTS")) is None:
        pytest.skip("this store keeps no objects as files that a test could look at or damage")
    return Path(objects + uri.removeprefix(bucket))


def attempts_left(stream):
    """The attempts' folders in the table's; a store has none without an object in it."""
    uri = stream.table.uri
    if not is_in_object_store(uri):
        return sorted(folder_of(uri).glob("landed-*"))
    store, prefix = object_store(uri, store_settings(None, uri).for_delta())
    listed = (entry for page in obstore.list(store, prefix) for entry in page)
    names = [entry["path"].removeprefix(prefix) for entry in listed if entry["size"]]
    return [name for name in names if name.startswith("landed-")]


def table_at(uri):
    """The port of a table; an object store is reached as this process's variables say."""
    options = with_limits(store_settings(None, uri).for_delta()) if is_in_object_store(uri) else {}
    return TargetTable(uri, options)


def head(stream):
    """Next offsets by (topic, partition)."""
    return {p.topic_partition: p.next_offset for p in open_ledger(stream).read().head.positions}


def spans(record):
    """Planned ranges as (partition, start, end)."""
    return [(r.partition, r.start_offset, r.end_offset) for r in record.plan.ranges]


def table_rows(stream, *columns, uri=None):
    """Rows as tuples, in the order of the coordinates; of the raw table, if no other is named."""
    wanted = columns or ("topic", "partition", "offset")
    found = DeltaTable(uri or stream.table.uri).to_pyarrow_table(columns=list(wanted)).to_pydict()
    return sorted(zip(*(found[c] for c in wanted), strict=True), key=repr)


def table_version(stream):
    """Newest version of the table."""
    return DeltaTable(stream.table.uri).version()


def decide(stream, choice, incident_id=None, by="ann", reason="it was meant"):
    """Answer an open incident, the only one if none is named, as `tideline resolve` does."""
    ledger = open_ledger(stream)
    if incident_id is None:
        (incident,) = ledger.read().control.incidents
        incident_id = incident.incident_id
    decision = Decision(choice, by, datetime.now(UTC), reason)
    ledger.update(lambda state: state.with_decision(incident_id, decision))


def closed_incidents(stream):
    """Incidents that were decided and carried out, or vanished."""
    return list(open_ledger(stream).closed_incidents())


def halts(harness, stream, spark, run_id="halted"):
    """Make a run that halts; the kinds of its findings."""
    with pytest.raises(ResetDetected) as halted:
        harness.run(stream, run_id, spark)
    return [i.finding.kind for i in halted.value.incidents]


def is_clean(harness, stream):
    """Whether an audit finds nothing."""
    audit, findings = harness.audit(stream)
    return audit.clean and not findings


def gap_reasons(record):
    """How many offsets of a run have no row, by reason."""
    found = {}
    for verified in record.verified:
        for gap in verified.gaps:
            found[gap.reason] = found.get(gap.reason, 0) + len(gap.offsets)
    return found


def freeze_only(stream, run_id, spark):
    """A run that died after its plan was frozen."""
    with open_run(stream, run_id, RunRequest(), spark) as run, hold_lane(run):
        plan_offset_ranges(run)
        return detect_earliest_reset(run)


def commit_only(stream, run_id, spark):
    """A run that died after the table's commit, before the head moved."""
    record = freeze_only(stream, run_id, spark)
    with open_run(stream, run_id, RunRequest(), spark) as run:
        ingest_ranges(run)
    return record
