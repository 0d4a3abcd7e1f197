"""Representative objects of the core, with and without their optional parts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.worlds.build import ID, NOW, head, plan, planned, position
from tideline.model.addresses import LedgerLocation
from tideline.model.head import Headroom
from tideline.model.incident import Decision, Finding, Incident, Notice
from tideline.model.observation import Gap
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.plan import VerifiedRange
from tideline.model.request import RunRequest, Window
from tideline.model.run import Lost, Rewind, RunRecord, TableCommit

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)
ISO = "2026-01-01T12:00:00.123456+00:00"

COORDINATES = {
    "topic": "orders",
    "topic_id": ID,
    "generation": 0,
    "partition": 0,
    "start_offset": 1,
    "end_offset": 5,
}

LOSS = Finding(
    kind="retention_loss",
    expected="the log from 1",
    actual="the log from 9",
    topic="orders",
    topic_id=ID,
    partition=0,
    intervals=(OffsetRange(1, 5), OffsetRange(7, 9)),
    lost_from=AT,
    lost_until=AT + timedelta(hours=1),
)
CLUSTER = Finding("cluster_changed", "cluster a", "cluster b", decidable=False)
CLOSED = Incident(
    incident_id="incident-1",
    run_id="run-1",
    opened_at=AT,
    finding=LOSS,
    plan_id="plan-1",
    unverified=(planned(1, 5),),
    decision=Decision("accept_loss", "ann", AT, "it was meant"),
    closed_at=AT,
    outcome="6 offsets lost",
    removed_in_version=7,
)
OPEN = Incident("incident-2", "run-2", NOW, CLUSTER)
DONE = RunRecord(
    run_id="run-1",
    lane="live",
    status="done",
    request_digest="d",
    updated_at=AT,
    plan=plan(planned(1, 5)),
    table_commit=TableCommit("table", 4, token=2, rows=3, bytes=99),
    verified=(VerifiedRange(planned(1, 5), 3, (Gap(OffsetRange(3, 4), "marker"),)),),
    resolved=(CLOSED,),
    notices=(Notice("new_topic", "orders", None, "followed"),),
    request=RunRequest(Window(AT, AT + timedelta(days=1)), reason="again"),
)
FROZEN = RunRecord("run-2", "live", "planned", "d", AT, plan=plan(planned(1, 5)))
SUPERSEDED = RunRecord("run-3", "backfill", "superseded", "d", AT, superseded_by="run-4")
REWIND = Rewind(
    rewind_id="rewind-1",
    to_run="run-1",
    reason="bad rows",
    by="ann",
    begun_at=AT,
    head_key="key",
    undone_runs=("run-2",),
    rows=4,
    lost=(
        Lost(planned(1, 5).as_read, 2, True, "expired"),
        Lost(planned(5, 9).as_read, 0, False, "nothing"),
    ),
    removed_in_version=7,
    finished_at=AT,
)
BEGUN = Rewind("rewind-2", "run-1", "bad rows", "ann", NOW, "key")
HEAD = head(
    position(5),
    position(0, partition=1, epoch=None),
    table_version=9,
    coverage=Places({PartitionIdentity(ID, 0, 0): (OffsetRange(1, 5),)}),
    headroom=(Headroom("orders", 0, 5, AT, 1000), Headroom("orders", 1, 0, None, None)),
)
HERE, THERE = LedgerLocation("delta", "/l", "orders"), LedgerLocation("airflow", "db", "orders")
