"""Who may act on a stream and decide about it, and the form that asks for a decision. Pure.

Airflow decides who may trigger, clear and answer at all, Dag by Dag. A Dag that works on any stream
has one right for all of them, and a task cannot ask Airflow what a user may do with another Dag: so
the names stand in the stream file, and are held against the user whom Airflow itself names
(docs/adr/0031-rights-are-names-in-the-stream-file.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tideline.errors import BadInput, NotEntitled
from tideline.model.incident import Incident, class_entry
from tideline.model.verdicts import POLICIES, VERDICTS, valid_choices
from tideline.model.wording import LONGEST_REASON, first_few, shown
from tideline.stream.stream import Stream
from tideline.texts import one_line

NOBODY = "airflow"
"""What is recorded where Airflow names nobody: a schedule, or an asset's event."""
COMMENT = "comment"
"""Name of the form's field for the reason."""
_SHOWN = 20
"""Incidents in a form; each has a paragraph of its own."""
ALL_OPTIONS = sorted(
    {choice for kind in POLICIES for choice in valid_choices(kind)}
    | {f"{kind}: {choice}" for kind in POLICIES for choice in valid_choices(kind)}
)
"""Every option that any form can have; Airflow needs them when it parses the Dag."""


def acting_user(dag_run: Any) -> str | None:
    """The user who has triggered a run; None where nobody has.

    A run that another Dag has triggered has the user of that Dag's run. One that a backfill runs
    again goes on naming whoever had triggered it before.
    """
    if is_reprocessed(dag_run):
        return None
    return getattr(dag_run, "triggering_user_name", None) or None


def given_in(dag_run: Any) -> dict[str, Any]:
    """What is asked for in a run's conf: a form that was left as it is asks for nothing."""
    conf = getattr(dag_run, "conf", None) or {}
    return {key: value for key, value in conf.items() if value not in (None, "", [], {}, False)}


def is_reprocessed(dag_run: Any) -> bool:
    """Whether Airflow's backfill has taken over a run that was there before.

    It may have put another person's conf into it. The run id still says what it was created for.
    """
    is_of_backfill = getattr(dag_run, "run_type", None) == "backfill"
    return is_of_backfill and not dag_run.run_id.startswith("backfill__")


def require_operator(
    stream: Stream,
    dag_run: Any,
    task: Any = None,
    *,
    from_form: bool = False,
    decides: bool = False,
) -> str | None:
    """Make sure that who asks for something may have it: the right of every run and operation.

    A run that asks for nothing of its own needs nobody: a schedule, an asset's event. What a form
    asks for needs a person who has filled it in.

    Args:
        task: The task instance that asks; needed for both of the following.
        from_form: Whether the run's form has named the stream, and not the Dag's author.
        decides: Whether it is also a decision about losses.

    Returns:
        The user; None where nobody has triggered the run.

    Raises:
        NotEntitled: They may not, or nobody is known who might.
    """
    operators = stream.airflow.operators
    user = acting_user(dag_run)
    if operators is not None and (user is not None or given_in(dag_run)):
        _known(stream, user)
        if user not in operators:
            problem = f"user {user} is not among airflow.operators of its file"
            raise _refused(stream, problem, user)
    if operators is not None and from_form:
        _sender(stream, dag_run, task)
    return require_decider(stream, dag_run, task) if decides else user


def require_decider(stream: Stream, dag_run: Any, task: Any) -> str | None:
    """Make sure that whoever has sent a run's form may decide about losses of a stream.

    Returns:
        The user; None where nobody has triggered the run.
    """
    if stream.airflow.deciders is None:
        return acting_user(dag_run)
    user = _sender(stream, dag_run, task)
    require_approver(stream, user)
    return user


def _sender(stream: Stream, dag_run: Any, task: Any) -> str:
    """Who has filled in a run's form.

    Raises:
        NotEntitled: Nobody is known who has.
    """
    user = _known(stream, acting_user(dag_run))
    # A cleared run goes on naming the user who triggered it, whoever has cleared it.
    if was_cleared(dag_run, task):
        problem = "this run was cleared, and Airflow does not say by whom: trigger a new one"
        raise _refused(stream, problem, user)
    return user


def was_cleared(dag_run: Any, task: Any) -> bool:
    """Whether somebody has had a task run again: the run tells, or the task's tries do.

    Airflow counts the clears of a run. A clear that leaves the run as it was (`reset_dag_runs:
    false`) is not among them; but each clear lets the task have its tries once more, or, where it
    was at work, begins a try that its retries do not allow.
    """
    if (getattr(dag_run, "clear_number", None) or 0) > 0:
        return True
    if task is None:
        return False
    retries = task.task.retries
    return bool(task.max_tries > retries or task.try_number > retries + 1)


def _known(stream: Stream, user: str | None) -> str:
    if user is None:
        raise _refused(stream, "Airflow names no user who has triggered this run", user)
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


def options_for(incidents: Iterable[Incident]) -> list[str]:
    """The choices of the class that was found; with several classes, `CLASS: CHOICE` for each."""
    by_kind = _choices(incidents)
    if len(by_kind) == 1:
        return list(next(iter(by_kind.values())))
    return [f"{kind}: {choice}" for kind, choices in by_kind.items() for choice in choices]


def subject_for(stream: str, incidents: Iterable[Incident]) -> str:
    """The form's headline."""
    places = (f"{i.finding.place} ({i.finding.kind})" for i in incidents)
    return f"{stream}: {first_few(places, 3)}"


def body_for(incidents: Iterable[Incident], deciders: Collection[str] | None = None) -> str:
    """What was found, what is at stake, and what each choice does, in Markdown.

    `deciders` are those whose answers count; None for everybody's.
    """
    asked = list(incidents)
    lines = [line for i in asked[:_SHOWN] for line in _paragraph(i)]
    if len(asked) > _SHOWN:
        lines.append(f"and {len(asked) - _SHOWN} more: `tideline incident FILE` lists them")
    lines += ["", "Nothing has moved. A choice applies to all incidents of its class:", ""]
    for kind in _choices(asked):
        texts = VERDICTS[kind].choices  # type: ignore[index]
        lines += [f"- `{choice}` ({kind}): {text}" for choice, text in texts.items()]
    lines += ["- `fail`: this run fails and the incidents stay open"]
    if deciders is not None:
        lines += [
            "",
            f"An answer counts from {first_few(deciders, 10)}; after others it asks again.",
        ]
    return "\n".join(lines)


def _paragraph(incident: Incident) -> list[str]:
    finding = incident.finding
    lines = [
        f"**{incident.incident_id}** {finding.place}: {finding.kind}: {_line(finding.cause)}.",
        "",
        f"- expected: {_verbatim(finding.expected)}",
        f"- found: {_verbatim(finding.actual)}",
    ]
    if finding.intervals:
        lines.append(f"- at stake: offsets {finding.at_stake}")
    lines += [f"- next: {finding.next_step}", f"- runbook: {class_entry(finding.kind)}"]
    return [*lines, ""]


def _verbatim(text: str) -> str:
    """What was observed, which others may have written: it makes no line, link or image here."""
    line = _line(text).replace("`", "'")
    return f"`{line}`"


def _line(text: str) -> str:
    return one_line(text, LONGEST_REASON)


def choices_from(options: Iterable[str], incidents: Iterable[Incident]) -> Mapping[str, str]:
    """The choice per class; `fail` for a class that the answer leaves out.

    Raises:
        BadInput: Two choices for one class, or one that is not valid for it.
    """
    by_kind = _choices(incidents)
    chosen: dict[str, str] = {}
    for option in options if by_kind else ():
        kind, separator, choice = option.rpartition(": ")
        if not separator:
            kind = next(iter(by_kind))
        elif kind in POLICIES and kind not in by_kind:
            continue  # somebody answered it elsewhere while the form was open
        if choice not in by_kind.get(kind, ()) or kind in chosen:
            allowed = ", ".join(options_for(incidents))
            raise BadInput(f"the answer: got {shown(option)}; allowed: one per class of {allowed}")
        chosen[kind] = choice
    return {kind: chosen.get(kind, "fail") for kind in by_kind}


def answering_user(event: Mapping[str, Any]) -> str:
    """The name or id of the user who answered."""
    user = event.get("responded_by_user") or {}
    if not isinstance(user, Mapping):
        user = {"id": getattr(user, "id", None), "name": getattr(user, "name", None)}
    return str(user.get("name") or user.get("id") or "unknown")


def _choices(incidents: Iterable[Incident]) -> dict[str, tuple[str, ...]]:
    return {i.finding.kind: i.finding.choices for i in incidents}
