"""Each state in which a stream can halt, and each choice that it offers: does it lead back?

A case is a history: what has landed so far, what happens then, who meets it first, and which choice
people take from there on. `play` ends it: a bounded number of runs has to lead back to landing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.simulation.events import Event
from tests.simulation.histories import History

Events = tuple[Event, ...]
_LANDED: Events = (("produce", 0, 0, 6), ("live", 0), ("finish", 0), ("produce", 0, 0, 6))
STATES: dict[str, Events] = {
    "nothing landed": (("produce", 0, 0, 6), ("live", 0), ("step", 0, 12), ("kill", 0, 1)),
    "landed, and more to read": _LANDED,
    "a plan is open": (*_LANDED, ("live", 0), ("step", 0, 27), ("kill", 0, 1)),
    "a plan is committed": (*_LANDED, ("live", 0), ("step", 0, 46), ("kill", 0, 1)),
    "a plan is verified": (*_LANDED, ("live", 0), ("step", 0, 56), ("kill", 0, 1)),
    "a backfill is ahead": (*_LANDED, ("backfill", 0, 0, 70, 3), ("finish", 0)),
    "a backfill is open": (*_LANDED, ("backfill", 0, 0, 70, 3), ("step", 0, 25), ("kill", 0, 1)),
    "a backfill is committed": (
        *(*_LANDED, ("backfill", 0, 0, 70, 3)),
        *(("step", 0, 46), ("kill", 0, 1)),
    ),
    "a gap is open": (*_LANDED, ("spark_loses", 1), ("live", 0), ("finish", 0)),
}
FAULTS: dict[str, Events] = {
    "retention took what was not read": (("expire", 0, 0, 100),),
    "retention took a part": (("expire", 0, 0, 70),),
    "unread records were cut": (("truncate", 0, 0, 2, 0),),
    "landed records were cut": (("truncate", 0, 0, 9, 0),),
    "landed records were cut, others came": (("truncate", 0, 0, 9, 14),),
    "cut and expired": (("truncate", 0, 0, 2, 4), ("expire", 0, 0, 90)),
    "re-created": (("recreate", 0, 9),),
    "re-created empty": (("recreate", 0, 0),),
    "deleted": (("delete_topic", 0),),
    "deleted, and there again later": (
        ("delete_topic", 0),
        ("live", 0),
        ("finish", 0),
        ("create_topics", 3),
    ),
    "a partition is gone": (("grow", 0), ("live", 0), ("finish", 0), ("drop_partition", 0)),
    "another cluster": (("swap_cluster", 9),),
    "another cluster, and back": (
        ("swap_cluster", 9),
        ("live", 0),
        ("finish", 0),
        ("swap_cluster", 2),
    ),
    "a hole": (("hole", 0, 0, 1),),
    "a new record that cannot be read": (("unreadable", 0, 0, 0),),
    "a record that cannot be read": (("unreadable", 0, 0, 8),),
    "a reader that loses": (("spark_loses", 2),),
    "rows deleted": (("foreign_delete", 40),),
    "all rows deleted": (("foreign_delete", 100),),
    "restored": (("restore", 1),),
    "the table is gone": (("drop_table",),),
    "no rights": (("refuse", 0),),
}
MEETS: dict[str, Events] = {
    "a live run": (("live", 0), ("finish", 0)),
    "tasks of a live run": (("live", 1), ("finish", 0)),
    "a backfill": (("backfill", 0, 0, 0, 4), ("finish", 0)),
    "a run that is tried again": (("again", 0, 0), ("finish", 0)),
}
CHOICES = (0, 1)
"""No class of findings offers more than two choices that can be carried out."""


@dataclass(frozen=True)
class WayOut:
    """One case: names of the tables above, which choice, and `on_incident`."""

    state: str
    fault: str
    meets: str
    choice: int
    proceed: bool

    def history(self) -> History:
        """What happens."""
        events = (*STATES[self.state], *FAULTS[self.fault], *MEETS[self.meets])
        options: dict[str, Any] = {"kafka": {"topics": ["t"]}, "patience_seconds": 2}
        if self.proceed:
            options["on_incident"] = "proceed"
        return History(0, {"t": 1}, options, events, self.choice)


def ways_out() -> Iterator[WayOut]:
    """Every case."""
    for state in STATES:
        for fault in FAULTS:
            for meets in MEETS:
                for choice in CHOICES:
                    for proceed in (False, True):
                        yield WayOut(state, fault, meets, choice, proceed)
