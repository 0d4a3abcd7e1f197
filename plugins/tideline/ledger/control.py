"""The ledger's control document: tokens, leases, open incidents, a rewind under way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tideline.model.incident import Incident
from tideline.model.rewind import Rewind

_LEASES_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Lease:
    """Somebody's right to work on a lane or to write the table, until it expires.

    Args:
        name: What is leased: `live`, `backfill:` and a run id, or `writer`.
        holder: The attempt that holds it.
        host, pid, process_started: Where it runs, so that its end can be noticed on that host.
        expires_at: When others may take it.
    """

    name: str
    holder: str
    host: str
    pid: int
    process_started: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Control:
    """The small, often changed part: tokens, leases, open incidents.

    Args:
        ledger_id: Written into the table's properties; ties the two together.
        token: The last fencing token given out (R5).
        incidents_opened: How many there ever were; the next one's number.
        kept_head: Names the newest head in the history; a run that changes nothing keeps no copy.
        rewinds: How many were ever begun; whoever took a lease before the last one is fenced.
        rewind: The one under way; until it is finished nobody else may work.
    """

    ledger_id: str
    stream: str
    token: int = 0
    leases: tuple[Lease, ...] = ()
    incidents: tuple[Incident, ...] = ()
    incidents_opened: int = 0
    kept_head: str = ""
    rewinds: int = 0
    rewind: Rewind | None = None

    def with_lease(self, lease: Lease) -> Control:
        """With a lease taken or renewed; those that ran out long ago are dropped."""
        forgotten = lease.expires_at - _LEASES_KEPT
        others = tuple(
            held for held in self.leases if held.name != lease.name and held.expires_at > forgotten
        )
        return replace(self, leases=(*others, lease))

    def without_lease(self, name: str, holder: str) -> Control:
        """With a lease given back; itself if somebody else has it by now."""
        kept = tuple(held for held in self.leases if held.name != name or held.holder != holder)
        return self if len(kept) == len(self.leases) else replace(self, leases=kept)
