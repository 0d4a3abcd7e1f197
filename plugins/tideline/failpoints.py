"""Named places where a test can make the process die or stop. Off unless a variable is set.

`TIDELINE_FAILPOINT=<place>:<action>`, action `kill` (SIGKILL) or `stop` (SIGSTOP). A place lies
right before or right after something that others can see: a write to the ledger, a commit to the
table, a call of Spark, a message to the consumer group. `TIDELINE_TRACE=<file>` notes when each
place was reached, which shows where a run's time goes.
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
    "ingest:adding",
    "ingest:committed",
    "ingest:released",
    "verify:verified",
    "advance:moving",
    "advance:advanced",
    "advance:told_group",
)
"""Every run that lands something passes them, in this order."""
SPARK_PLACES = ("spark:started", "spark:writing", "spark:written", "spark:answered")
"""The same, in Spark's driver."""
RARE_PLACES = (
    "plan:finishing",
    "plan:superseded",
    "ingest:created",
    "ingest:staged",
    "spark:staged",
    "spark:published",
    "verify:kept",
    "halt:opening",
    "halt:opened",
    "resolve:answered",
    "resolve:decided",
    "resolve:carried_out",
    "resolve:accepted",
    "resolve:settled",
    "resolve:removed",
    "resolve:took_table",
    "event:ready",
    "rewind:begun",
    "rewind:removed",
    "rewind:finished",
    "move:begun",
    "move:copied",
    "move:marked",
)
"""Reached only where there is no table yet, an earlier run left something, something was found,
rows are replaced, a stream is rewound or its ledger moved."""
_ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def reach(place: str) -> None:
    """Die or stop here, once, if a test asked for it."""
    if trace := os.environ.get("TIDELINE_TRACE"):
        with open(trace, "a") as file:
            file.write(f"{time.time():.4f} {place}\n")
    wanted, _, action = os.environ.get("TIDELINE_FAILPOINT", "").rpartition(":")
    if wanted == place:
        del os.environ["TIDELINE_FAILPOINT"]
        os.kill(os.getpid(), _ACTIONS[action])
