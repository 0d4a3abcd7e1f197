"""Tables for people, or one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from tideline.errors import TidelineError
from tideline.json_codec import to_data
from tideline.model.headroom import Headroom
from tideline.model.incident import Finding, Incident
from tideline.model.rewind import Lost, Rewind


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
    decision = incident.decision
    return {
        "id": incident.incident_id,
        **finding_data(incident.finding),
        "run_id": incident.run_id,
        "opened_at": incident.opened_at.isoformat(),
        "plan_id": incident.plan_id,
        "choices": list(incident.finding.choices),
        "decision": decision.choice if decision is not None else None,
        "decided_by": decision.by if decision is not None else None,
        "decided_at": decision.at.isoformat() if decision is not None else None,
        "reason": decision.reason if decision is not None else None,
        "closed_at": incident.closed_at.isoformat() if incident.closed_at is not None else None,
        "outcome": incident.outcome,
        "removed_in_version": incident.removed_in_version,
    }


def rewind_data(rewind: Rewind) -> dict[str, Any]:
    """A rewind with the keys of the contract, and who did it when."""
    return {
        "rewind_id": rewind.rewind_id,
        "to_run": rewind.to_run,
        "reason": rewind.reason,
        "by": rewind.by,
        "begun_at": rewind.begun_at.isoformat(),
        "finished_at": rewind.finished_at.isoformat() if rewind.finished_at is not None else None,
        "removed_rows": rewind.rows,
        "table_version": rewind.removed_in_version,
        "undone_runs": list(rewind.undone_runs),
        "lost": [lost_data(item) for item in rewind.lost if item.rows],
    }


def lost_data(lost: Lost) -> dict[str, Any]:
    """Rows that Kafka can no longer give back, by coordinates."""
    names = ("topic", "topic_id", "generation", "partition", "start_offset", "end_offset")
    found = {name: getattr(lost.planned, name) for name in names}
    return {**found, "rows": lost.rows, "reason": lost.reason}


def ended_line(incident: Incident) -> str:
    """A closed incident in a line."""
    finding, decision = incident.finding, incident.decision
    by = f"{decision.choice} by {decision.by} ({decision.reason})" if decision is not None else ""
    return f"{incident.incident_id}: {finding.place}: {finding.kind}: {by} {incident.outcome}"


def headroom_data(headroom: Headroom) -> dict[str, Any]:
    """Time until retention reaches a next offset, counted from now."""
    return {**to_data(headroom), "seconds_left": headroom.seconds_left(datetime.now(UTC))}


def headroom_lines(headroom: Iterable[Headroom], most: int = 5) -> list[str]:
    """The nearest few, for people."""
    now = datetime.now(UTC)
    return [
        f"{h.topic}-{h.partition}: retention reaches offset {h.next_offset} in {left:,.0f} s"
        for h in list(headroom)[:most]
        if (left := h.seconds_left(now)) is not None
    ]


def finding_data(finding: Finding) -> dict[str, Any]:
    """A finding with the keys of the contract."""
    data: dict[str, Any] = to_data(finding)
    data["class"] = data.pop("kind")
    return {
        **data,
        "cause": finding.cause,
        "lost_start": finding.lost_start,
        "lost_end": finding.lost_end,
        "offsets_at_stake": finding.offsets_at_stake,
        "next_step": finding.next_step,
    }
