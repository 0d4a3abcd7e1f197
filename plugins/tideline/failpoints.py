"""Named places where a test can kill or stop the process. Off unless a variable is set.

`TIDELINE_FAILPOINT=<place>:<action>` acts once at a place; the action is `kill` (SIGKILL) or `stop`
(SIGSTOP). A place is right before or right after a change that other processes can see: a write to
the ledger, a commit to the table, a start of Spark, a commit of the consumer group's offsets.
`TIDELINE_TRACE=<file>` writes down when each place is reached, which shows where a run spends time.
"""

from __future__ import annotations

import os
import signal
import time

PLACES = (
    "lease:live",
    "plan:proposing",
    "plan:proposed",
    "detect:freezing",
    "detect:frozen",
    "lease:writer",
    "ingest:fenced",
    "ingest:leased",
    "ingest:written",
    "table:committing",
    "ingest:committed",
    "ingest:released",
    "verify:keeping",
    "verify:kept",
    "verify:verified",
    "advance:moving",
    "advance:advanced",
    "advance:told_group",
)
"""Every run that lands rows reaches these, in this order."""
SPARK_PLACES = ("spark:started", "spark:writing", "spark:written", "spark:answered")
"""Its Spark driver reaches these, in this order; and again where it decodes."""
DECODE_PLACES = (
    "lease:decoder",
    "decode:prepared",
    "decode:freezing",
    "decode:frozen",
    "decode:committed",
    "decode:noted",
    "decode:closing",
    "decode:closed",
)
"""Every run that decodes rows reaches these too, in this order."""
FOLD_PLACES = (
    "lease:decoder",
    "fold:prepared",
    "fold:freezing",
    "fold:frozen",
    "fold:committed",
    "fold:noted",
    "fold:closing",
    "fold:closed",
)
"""Every run that folds changes reaches these too, in this order."""
ERASE_PLACES = (
    "erase:begun",
    "erase:taken",
    "erase:out",
    "erase:folded",
    "erase:removed",
    "erase:vacuumed",
)
"""Every erasure reaches these, in this order."""
RARE_PLACES = (
    "plan:finishing",
    "plan:superseded",
    "table:created",
    "halt:opening",
    "halt:opened",
    "resolve:answered",
    "resolve:decided",
    "resolve:carried_out",
    "resolve:accepted",
    "recover:closed_partly",
    "resolve:removed",
    "resolve:took_table",
    "resolve:took_over",
    "event:ready",
    "rewind:begun",
    "rewind:removed",
    "rewind:finished",
    "move:begun",
    "move:copied",
    "move:marked",
    "tidy:written",
    "tidy:merged",
    "maintain:merged",
    "maintain:committed",
    "maintain:vacuuming",
    "maintain:vacuumed",
    "maintain:let_go_noted",
    "maintain:let_go",
)
"""Reached only in some cases: there is no table yet, an earlier run is unfinished, there are
findings, rows are replaced, a stream is rewound, its ledger is moved or tidied, or its tables are
maintained."""
_ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def reach(place: str) -> None:
    """Kill or stop this process here, once, if `TIDELINE_FAILPOINT` names this place."""
    if trace := os.environ.get("TIDELINE_TRACE"):
        with open(trace, "a") as file:
            file.write(f"{time.time():.4f} {place}\n")
    wanted, _, action = os.environ.get("TIDELINE_FAILPOINT", "").rpartition(":")
    if wanted == place:
        del os.environ["TIDELINE_FAILPOINT"]
        os.kill(os.getpid(), _ACTIONS[action])
