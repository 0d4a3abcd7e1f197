"""Dags for a Dag file: two lines there make a Dag of every stream file in a folder.

    from tideline.airflow.dags import stream_dags
    globals().update(stream_dags("/opt/streams"))

Airflow parses a file only if its text has both words, `airflow` and `dag`: these lines have them.
Everything here runs at every parse, so it connects to no service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, get_parsing_context

from tideline.airflow import operation_forms as forms
from tideline.airflow import operations
from tideline.airflow import stream_dags as streams
from tideline.airflow.forms import links


def stream_dags(folder: str | Path | None = None) -> dict[str, DAG]:
    """A Dag for each stream file, by its id. It reads files and connects to no service.

    In a task's own process, it reads the file of that task's Dag alone.

    Args:
        folder: Folder of stream files; None: `TIDELINE_STREAMS`, otherwise the checkout's.
    """
    wanted = get_parsing_context().dag_id
    if wanted in OPERATIONS:  # its process needs no stream's Dag, and no stream has its id
        return {}
    return {dag.dag_id: dag for dag in streams.stream_dags(wanted, folder)}


def operation_dags(folder: str | Path | None = None) -> dict[str, DAG]:
    """The Dags `tideline_resolve`, `..._audit`, `..._rewind`, and further ones of `OPERATIONS`.

    Their forms name a stream. Airflow allows each id once: call it in one Dag file only.

    Args:
        folder: As for `stream_dags`; their tasks look for the stream there.
    """
    wanted = get_parsing_context().dag_id
    return {
        dag_id: _operation_dag(dag_id, operation, folder)
        for dag_id, operation in OPERATIONS.items()
        if wanted is None or wanted == dag_id
    }


@dataclass(frozen=True)
class Operation:
    """A Dag of one task, triggered by hand.

    Args:
        description: In a line.
        task_id: The task's name.
        operator: Its class.
        notes: Shown on the Dag's page, in Markdown.
        form: Its fields; the task checks what they may hold.
        arguments: Further ones of the operator.
        settings: Further ones of the Dag.
    """

    description: str
    task_id: str
    operator: type[BaseOperator]
    notes: str
    form: forms.Form
    arguments: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def _operation_dag(dag_id: str, operation: Operation, folder: str | Path | None) -> DAG:
    with DAG(
        dag_id=dag_id,
        description=operation.description,
        schedule=None,
        catchup=False,
        tags=("tideline", "operations"),
        params=operation.form,
        doc_md=f"{operation.notes.rstrip()}\n\n{links()}\n",
        # A further try is somebody's clear: no default of the site may hide that.
        default_args={"retries": 0},
        **operation.settings,
    ) as dag:
        operation.operator(task_id=operation.task_id, folder=folder, **operation.arguments)
    return dag


_NOT_PAUSED = {"is_paused_upon_creation": False}
"""For a Dag without a schedule: paused, it would keep a run waiting that the page has asked for."""
OPERATIONS: Mapping[str, Operation] = {
    "tideline_resolve": Operation(
        description="Decide about open incidents of a stream",
        task_id="resolve_incidents",
        operator=operations.ResolveIncidents,
        notes="""Records who decided what; the stream's next run, or the halted one cleared, carries
it out. The stream's page shows the incidents, what is at stake and what each choice does, and fills
this form in.
""",
        form=forms.RESOLVE,
        settings=_NOT_PAUSED,
    ),
    "tideline_audit": Operation(
        description="Compare a stream's ledger, table and broker",
        task_id="audit_stream",
        operator=operations.AuditStream,
        notes="""If the audit finds flaws, the task fails and names them. Otherwise it publishes an
event of `tideline/<stream>/audited`. With `buckets` Spark also reads all rows of so many buckets of
the current table, each day of others in turn, and folds their changes again.
""",
        form=forms.AUDIT,
        arguments={"stream": "{{ params.stream }}", "form": forms.AUDIT},
        settings=_NOT_PAUSED,
    ),
    "tideline_rewind": Operation(
        description="Put a stream's table and ledger back to the state after a run",
        task_id="rewind_stream",
        operator=operations.RewindStream,
        notes="""Removes the rows of every later run and moves the position back; see the runbook.

The rewind refuses to remove rows that Kafka can no longer give back, unless `accept_loss` is set.
To finish an interrupted rewind, clear the task. If the stream names operators, trigger the Dag
again instead. Until then no other run of the stream starts.
""",
        form=forms.REWIND,
        settings={"max_active_runs": 1},
    ),
    "tideline_erase": Operation(
        description="Erase the records of keys out of streams' tables, and keep them out",
        task_id="erase_records",
        operator=operations.EraseRecords,
        notes="""With `plan`, the default, nothing changes: the log says what would be erased.
`keys_from` is a CSV file in the worker's folder that `TIDELINE_ERASE_KEYS` names. Its first line
names columns of the typed table. A key in the form would stay in Airflow's database. `now` ends
time travel, and readers of older versions fail.
""",
        form=forms.ERASE,
        settings={"max_active_runs": 1},
    ),
    "tideline_maintenance": Operation(
        description="Merge small files of a stream's tables, delete those that nobody needs",
        task_id="maintain_stream",
        operator=operations.MaintainStream,
        notes="No row changes. While a run writes the tables, it waits; so do runs, for it.",
        form=forms.MAINTENANCE,
    ),
    "tideline_redrive": Operation(
        description="Decode a stream's quarantined records again",
        task_id="redrive_records",
        operator=operations.RedriveRecords,
        notes="What can be decoded now moves into the typed table; Kafka is not asked.",
        form=forms.REDRIVE,
    ),
}
"""The operations' Dags by id. `stream.sections.OPERATION_DAGS` keeps streams from these names."""
