"""Every metric that a stream's tasks publish: its name, unit, tags and meaning.

Tasks, the table in docs/observability.md, the dashboard and the alert rules all use this one table.
Run this module with the page's path to write the page's table anew.

Each one is a gauge: a task's process lives for seconds, and a counter would begin at 0 in each.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge.

    Args:
        name: As Airflow is told; it puts a prefix before it.
        when: The tasks that set it.
        tags: Names of its tags; `stream` is the stream's name.
    """

    name: str
    unit: str
    meaning: str
    when: str
    tags: tuple[str, ...] = ("stream",)


OFFSET_LAG = Metric(
    "tideline.offset_lag",
    "offsets",
    "everything unread when the run planned; after the advance: what the limits have left",
    "`plan_offset_ranges`, `advance_offsets`",
)
LAG_SECONDS = Metric(
    "tideline.lag_seconds",
    "seconds",
    "age of the oldest record that was unread when the run looked; 0 if nothing was",
    "`detect_earliest_reset`",
)
HEADROOM_SECONDS = Metric(
    "tideline.retention_headroom_seconds",
    "seconds",
    "until retention may reach an unread record, the least of the up to 200 partitions that are"
    " furthest behind; below 0 if overdue. It keeps its value while nothing is unread",
    "`detect_earliest_reset`",
)
ROWS = Metric("tideline.rows", "rows", "rows that the run has landed", "`advance_offsets`")
BYTES = Metric(
    "tideline.bytes", "bytes", "size of the data files that it has written", "`advance_offsets`"
)
SUCCEEDED_AT = Metric(
    "tideline.succeeded_timestamp_seconds",
    "seconds since 1970",
    "when a run last ended well, also one with nothing new",
    "`detect_earliest_reset`, `advance_offsets`",
)
OPEN_INCIDENTS = Metric(
    "tideline.open_incidents",
    "incidents",
    "how many are open; each [class](incidents-and-errors.md) is set, those without an incident"
    " to 0",
    "`detect_earliest_reset`, `resolve_reset`, every task that halts",
    ("stream", "class"),
)
STEP_SECONDS = Metric(
    "tideline.step_duration_seconds",
    "seconds",
    "how long the step worked, however it ended; waiting for the lane does not count",
    "every task",
    ("stream", "step"),
)
STEP_RETRIES = Metric(
    "tideline.step_retries",
    "tries",
    "how many tries the task had before this one; to clear a task adds one",
    "every task",
    ("stream", "step"),
)
DECODED = Metric("tideline.decoded", "records", "records that got a typed row", "`verify_decoded`")
QUARANTINED = Metric(
    "tideline.quarantined",
    "records",
    "records that went into quarantine; the tag is the"
    " [error class](decoding.md#error-classes), those without a record are set to 0",
    "`verify_decoded`",
    ("stream", "class"),
)
EXPECTATION_FAILED = Metric(
    "tideline.expectation_failed",
    "rows",
    "rows that fail it, wherever they went; each [expectation](how-to/expectations.md) of the"
    " stream file is set",
    "`verify_decoded`",
    ("stream", "expectation"),
)
UNDECODED = Metric(
    "tideline.undecoded",
    "offsets",
    "landed offsets that are not decoded yet, as the run before this one has left them; only with"
    " `decode`, once its tables are there; 0 once `decode` was taken out of the file",
    "`detect_earliest_reset`",
)
WRONG_NAMES = Metric(
    "tideline.wrong_names",
    "names",
    "names in a [catalog](how-to/names.md) that do not stand for the stream's tables, or could not"
    " be asked for, as the run before this one has left them; only with `catalog`; 0 once it"
    " was taken out of the file",
    "`detect_earliest_reset`",
)
ERASURES_OVERDUE = Metric(
    "tideline.erasures_overdue",
    "erasures",
    "[erasures](how-to/erase.md) that were cut off, or whose files of older versions should have"
    " gone a day ago; only once something was erased",
    "`detect_earliest_reset`",
)
FOLDED = Metric("tideline.folded", "changes", "changes that were folded", "`verify_current`")
CURRENT_ROWS = Metric(
    "tideline.current_rows",
    "rows",
    "rows of the current table, without those of keys that are gone",
    "`verify_current`",
)

LAG_WATCH_ERRORS = Metric(
    "tideline.lag_watch_errors",
    "polls",
    "polls in a row that could not tell a lag, for brokers or a ledger that did not answer; 0 once"
    " one can",
    "the triggerer",
    ("connection",),
)

METRICS: tuple[Metric, ...] = (
    OFFSET_LAG,
    LAG_SECONDS,
    HEADROOM_SECONDS,
    ROWS,
    BYTES,
    SUCCEEDED_AT,
    OPEN_INCIDENTS,
    STEP_SECONDS,
    STEP_RETRIES,
    DECODED,
    QUARANTINED,
    EXPECTATION_FAILED,
    UNDECODED,
    WRONG_NAMES,
    ERASURES_OVERDUE,
    FOLDED,
    CURRENT_ROWS,
    LAG_WATCH_ERRORS,
)


def build_table() -> str:
    """The table of metrics, as the page has it between its two marks."""
    lines = ["| gauge | unit | tags | value | set by |", "|---|---|---|---|---|"]
    for metric in METRICS:
        tags = ", ".join(f"`{tag}`" for tag in metric.tags)
        lines.append(
            f"| `{metric.name}` | {metric.unit} | {tags} | {metric.meaning} | {metric.when} |"
        )
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """A page with the table between its two marks as it is now.

    Raises:
        ValueError: A mark is missing.
    """
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n{build_table()}{END}{after}"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(with_table(path.read_text()))
