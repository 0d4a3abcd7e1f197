"""Maintenance Dags, by hand only. Parsing touches no service and reads no stream file."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tideline.airflow.operations import AUDIT_FORM, AuditStream, RewindStream

_STREAM = Param(type="string", minLength=1, description="The stream's name.")

with DAG(
    dag_id="tideline_audit",
    description="Hold a stream's ledger, table and broker against each other",
    schedule=None,
    catchup=False,
    tags=["tideline", "operations"],
    params={"stream": _STREAM},
    doc_md="Fails with every flaw named; clean, it publishes `tideline/<stream>/audited`.",
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
        "reason": Param(type="string", minLength=1, description="Why; for the ledger."),
        "accept_loss": Param(
            False,
            type="boolean",
            description="Go on although Kafka can no longer give back some of the rows.",
        ),
        "confirm": Param(type="string", minLength=1, description="The stream's name once more."),
    },
    doc_md="""Removes the rows of every later run and moves the position back; see the runbook.

It refuses what Kafka can no longer give back, unless `accept_loss` is set. Clear the task to finish
a rewind that was cut off: until then nothing else of the stream runs.
""",
) as tideline_rewind:
    RewindStream(task_id="rewind_stream")
