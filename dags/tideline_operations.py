"""Maintenance Dags, triggered by hand. Parsing connects to no service and reads no stream file."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tideline.airflow.operations import AUDIT_FORM, AuditStream, RewindStream

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
