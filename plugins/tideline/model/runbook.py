"""Where the runbook says what to do: an entry for each error and each class of findings."""

from __future__ import annotations

from collections.abc import Iterable

from tideline.errors import TidelineError
from tideline.model.incident import Incident
from tideline.model.verdicts import FindingClass

RUNBOOK = "docs/runbook"
"""Folder of the pages in a checkout. On the docs' site `docs/runbook/errors.md#x` is
`runbook/errors/#x`."""


def class_entry(kind: FindingClass) -> str:
    """Page and anchor of a class of findings."""
    return f"{RUNBOOK}/incidents.md#{kind}"


def error_entry(error: type[TidelineError]) -> str:
    """Page and anchor of a class of errors."""
    return f"{RUNBOOK}/errors.md#{error.__name__.lower()}"


def entries_for(error: TidelineError) -> tuple[str, ...]:
    """Where to read on about an error: at its incidents' classes, otherwise at its own class."""
    incidents: Iterable[Incident] = error.facts.get("incidents", ())
    kinds = dict.fromkeys(incident.finding.kind for incident in incidents)
    return tuple(map(class_entry, kinds)) or (error_entry(type(error)),)


def with_entries(error: TidelineError) -> str:
    """The error's message, and a line that says where to read on."""
    return f"{error.message}\nrunbook: {', '.join(entries_for(error))}"
