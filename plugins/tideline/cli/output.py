"""Tables for people, or one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tideline.core.incident import Finding, Incident
from tideline.errors import TidelineError
from tideline.json_codec import to_data


class Output:
    """Where a command's answer goes.

    Args:
        as_json: Nothing but one JSON object on standard output.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        width = None if sys.stdout.isatty() else 250  # nothing is folded where a program reads
        self._console = Console(highlight=False, soft_wrap=True, width=width)

    def answer(self, data: Mapping[str, Any], *lines: str | Table) -> None:
        """Print the answer: the data as JSON, or the lines for a person."""
        if self.as_json:
            json.dump(data, sys.stdout)
            sys.stdout.write("\n")
            return
        for line in lines:
            self._console.print(line, markup=not isinstance(line, str))

    def error(self, error: TidelineError, facts: Mapping[str, Any] | None = None) -> None:
        """Print why a command ends without its answer, and what is known all the same."""
        if self.as_json:
            data = {
                **(facts or {}),
                "status": error.status,
                "error": type(error).__name__,
                "message": error.message,
                "retriable": error.retriable,
                "incidents": [incident_data(i) for i in error.facts.get("incidents", ())],
            }
            if "problems" in error.facts:
                data["problems"] = error.facts["problems"]
            self.answer(data)
        print(error.message, file=sys.stderr)


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without ornament."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    return table


def incident_data(incident: Incident) -> dict[str, Any]:
    """An incident with the keys of the contract."""
    finding = finding_data(incident.finding)
    return {"id": incident.incident_id, **finding, "decision": incident.decision}


def finding_data(finding: Finding) -> dict[str, Any]:
    """A finding with the keys of the contract."""
    data: dict[str, Any] = to_data(finding)
    data["class"] = data.pop("kind")
    return data
