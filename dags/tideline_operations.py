"""Operations, triggered by hand. Parsing connects to no service and reads no stream file."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tideline.airflow.operations import (
    AUDIT_FORM,
    AuditStream,
    MaintainStream,
    RedriveRecords,
    RewindStream,
)

_STREAM = Param(type="string", minLength=1, description="The stream's name.")

with DAG(
    dag_id="tideline_audit",
    description="Compare a stream's ledger, table and broker",
    schedule=None,
    catchup=False,
    tags=["tideline", "operations"],
    params={"stream": _STREAM},
    doc_md="Fails with every flaw named, or publishes an event of `tideline/<stream>/audited`.",
) as tideline_audit:
    AuditStream(task_id="audit_stream", stream="{{ params.stream }}", form=AUDIT_FORM)

with DAG(
    dag_id="tideline_rewind",
    description="Put a stream's table and ledger back to the state after a run",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["tideline", "operations"],
    params={
        "stream": _STREAM,
        "to_run": Param(type="string", minLength=1, description="The last run to keep."),
        "reason": Param(type="string", minLength=1, description="Why; kept in the ledger."),
        "accept_loss": Param(
            False,
            type="boolean",
            description="Rewind although Kafka can no longer give back some of the rows.",
        ),
        "confirm": Param(type="string", minLength=1, description="The stream's name once more."),
    },
    doc_md="""Removes the rows of every later run and moves the position back; see the runbook.

It refuses to remove rows that Kafka can no longer give back, unless `accept_loss` is set. To finish
an interrupted rewind, clear the task: until then no other run of the stream starts.
""",
) as tideline_rewind:
    RewindStream(task_id="rewind_stream")

with DAG(
    dag_id="tideline_maintenance",
    description="Merge small files of a stream's tables, delete those that nobody needs",
    schedule=None,
    catchup=False,
    tags=["tideline", "operations"],
    params={"stream": _STREAM, "dry_run": Param(False, type="boolean", description="Only look.")},
    doc_md="No row changes. While a run writes the tables, it waits; so do runs, for it.",
) as tideline_maintenance:
    MaintainStream(task_id="maintain_stream")

with DAG(
    dag_id="tideline_redrive",
    description="Decode a stream's quarantined records again",
    schedule=None,
    catchup=False,
    tags=["tideline", "operations"],
    params={
        "stream": _STREAM,
        "class": Param(
            None,
            type=["null", "string", "array"],
            items={"type": "string"},
            description="Only these error classes, with commas between them; without it, all.",
        ),
        "since": Param(
            None,
            type=["null", "string"],
            description="Only records with this time in Kafka or a later one, as ISO 8601.",
        ),
    },
    doc_md="What can be decoded now moves into the typed table; Kafka is not asked.",
) as tideline_redrive:
    RedriveRecords(task_id="redrive_records")
