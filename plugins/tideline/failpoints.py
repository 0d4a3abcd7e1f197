"""Named places where a test can make the process die or stop. Off unless the variable is set.

`TIDELINE_FAILPOINT=<place>:<action>`, action `kill` (SIGKILL) or `stop` (SIGSTOP).
"""

from __future__ import annotations

import os
import signal

PLACES = (
    "plan:proposed",
    "detect:frozen",
    "ingest:leased",
    "ingest:committed",
    "verify:verified",
    "advance:advanced",
    "advance:told_group",
)
RARE_PLACES = (
    "resolve:decided",
    "ingest:staged",
    "rewind:begun",
    "rewind:removed",
    "rewind:finished",
    "move:begun",
    "move:copied",
    "move:marked",
)
"""Reached only where something was found, rows are replaced, a stream rewound or a ledger moved."""
_ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def reach(place: str) -> None:
    """Die or stop here if a test asked for it."""
    wanted, _, action = os.environ.get("TIDELINE_FAILPOINT", "").rpartition(":")
    if wanted == place:
        os.kill(os.getpid(), _ACTIONS[action])
