"""The form that asks a person about incidents: its text, its options, and how to read an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tideline.errors import BadInput
from tideline.model.incident import Incident
from tideline.model.runbook import class_entry
from tideline.model.verdicts import POLICIES, VERDICTS, valid_choices
from tideline.model.wording import first_few, kept_reason, shown

COMMENT = "comment"
_SHOWN = 20

ALL_OPTIONS = sorted(
    {choice for kind in POLICIES for choice in valid_choices(kind)}
    | {f"{kind}: {choice}" for kind in POLICIES for choice in valid_choices(kind)}
)
"""Every option that any form can have; Airflow needs them when it parses the Dag."""


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

    Args:
        incidents: What is asked about.
        deciders: Whose answers count; None for everybody's.
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
    return kept_reason(" ".join(text.split()))


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


def who(event: Mapping[str, Any]) -> str:
    """The name or id of the user who answered."""
    user = event.get("responded_by_user") or {}
    if not isinstance(user, Mapping):
        user = {"id": getattr(user, "id", None), "name": getattr(user, "name", None)}
    return str(user.get("name") or user.get("id") or "unknown")


def _choices(incidents: Iterable[Incident]) -> dict[str, tuple[str, ...]]:
    return {i.finding.kind: i.finding.choices for i in incidents}
