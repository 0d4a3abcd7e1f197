"""Operations as Dags, triggered by hand. Parsing connects to no service, reads no stream file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from airflow.sdk import DAG, Param

from tideline.airflow.operations import (
    AUDIT_FORM,
    AuditStream,
    Folder,
    MaintainStream,
    RedriveRecords,
    RewindStream,
)

_TAGS = ("tideline", "operations")


def _text(description: str) -> Param:
    """A field that has to be filled."""
    return Param(type="string", minLength=1, description=description)


_STREAM = _text("The stream's name.")


def _audit(dag_id: str, folder: Folder) -> DAG:
    with DAG(
        dag_id=dag_id,
        description="Compare a stream's ledger, table and broker",
        schedule=None,
        catchup=False,
        tags=_TAGS,
        params={"stream": _STREAM},
        doc_md="Fails with every flaw named, or publishes an event of `tideline/<stream>/audited`.",
    ) as dag:
        stream = "{{ params.stream }}"
        AuditStream(task_id="audit_stream", stream=stream, form=AUDIT_FORM, folder=folder)
    return dag


def _rewind(dag_id: str, folder: Folder) -> DAG:
    with DAG(
        dag_id=dag_id,
        description="Put a stream's table and ledger back to the state after a run",
        schedule=None,
        catchup=False,
        max_active_runs=1,
        tags=_TAGS,
        params={
            "stream": _STREAM,
            "to_run": _text("The last run to keep."),
            "reason": _text("Why; kept in the ledger."),
            "accept_loss": Param(
                False,
                type="boolean",
                description="Rewind although Kafka can no longer give back some of the rows.",
            ),
            "confirm": Param(
                type="string", minLength=1, description="The stream's name once more."
            ),
        },
        doc_md="""Removes the rows of every later run and moves the position back; see the runbook.

It refuses to remove rows that Kafka can no longer give back, unless `accept_loss` is set. To finish
an interrupted rewind, clear the task, or trigger it once more where the stream names operators:
until then no other run of the stream starts.
""",
    ) as dag:
        RewindStream(task_id="rewind_stream", folder=folder)
    return dag


def _maintenance(dag_id: str, folder: Folder) -> DAG:
    dry_run = Param(False, type="boolean", description="Only look.")
    with DAG(
        dag_id=dag_id,
        description="Merge small files of a stream's tables, delete those that nobody needs",
        schedule=None,
        catchup=False,
        tags=_TAGS,
        params={"stream": _STREAM, "dry_run": dry_run},
        doc_md="No row changes. While a run writes the tables, it waits; so do runs, for it.",
    ) as dag:
        MaintainStream(task_id="maintain_stream", folder=folder)
    return dag


def _redrive(dag_id: str, folder: Folder) -> DAG:
    with DAG(
        dag_id=dag_id,
        description="Decode a stream's quarantined records again",
        schedule=None,
        catchup=False,
        tags=_TAGS,
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
    ) as dag:
        RedriveRecords(task_id="redrive_records", folder=folder)
    return dag


BUILDERS: Mapping[str, Callable[[str, Folder], DAG]] = MappingProxyType(
    {
        "tideline_audit": _audit,
        "tideline_rewind": _rewind,
        "tideline_maintenance": _maintenance,
        "tideline_redrive": _redrive,
    }
)
"""The Dags by id."""
