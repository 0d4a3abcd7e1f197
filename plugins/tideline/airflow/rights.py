"""Who may do what with one stream, by the names in its file. Pure.

Airflow decides who may trigger, clear and answer at all, Dag by Dag. A Dag that works on any stream
has one right for all of them, and a task cannot ask Airflow what a user may do with another Dag: so
the names stand in the stream file, and are held against the user whom Airflow itself names.
"""

from __future__ import annotations

from typing import Any

from tideline.errors import NotEntitled
from tideline.model.stream import Stream

NOBODY = "airflow"
"""What is recorded where Airflow names nobody: a schedule, or an asset's event."""


def acting_user(dag_run: Any) -> str | None:
    """The user who has triggered a run; None where nobody has.

    A run that another Dag has triggered has the user of that Dag's run.
    """
    return getattr(dag_run, "triggering_user_name", None) or None


def require_operator(stream: Stream, dag_run: Any, *, from_form: bool = False) -> str | None:
    """Make sure that whoever has triggered a run may operate on a stream.

    Args:
        stream: The stream that is acted upon.
        dag_run: Airflow's.
        from_form: Whether the run's form has named the stream, and not the Dag's author.

    Returns:
        The user; None where nobody has triggered the run.

    Raises:
        NotEntitled: They may not, or nobody is known who might.
    """
    user, operators = acting_user(dag_run), stream.airflow.operators
    if operators is None:
        return user
    if from_form and user is None:
        raise _refused(stream, "Airflow names no user who has triggered this run", user)
    if from_form and (getattr(dag_run, "clear_number", None) or 0) > 0:
        problem = "this run was cleared, and Airflow does not say by whom: trigger a new one"
        raise _refused(stream, problem, user)
    if user is not None and user not in operators:
        raise _refused(stream, f"user {user} is not among airflow.operators of its file", user)
    return user


def require_approver(stream: Stream, user: str | None) -> None:
    """Make sure that somebody may decide about losses of a stream.

    Raises:
        NotEntitled: They may not.
    """
    if not may_decide(stream, user):
        keys = "airflow.approvers (or operators, without any) of its file"
        raise _refused(stream, f"user {user} is not among {keys}", user)


def may_decide(stream: Stream, user: str | None) -> bool:
    """Whether somebody's decision about an incident of a stream counts."""
    deciders = stream.airflow.deciders
    return deciders is None or user in deciders


def _refused(stream: Stream, problem: str, user: str | None) -> NotEntitled:
    return NotEntitled(
        f"stream {stream.stream}: {problem}. Nothing was done; ask an operator of the stream",
        stream=stream.stream,
        user=user,
    )
