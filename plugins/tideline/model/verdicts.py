"""Every class of finding: what it means, what to do, and which decisions are valid (R9).

The one table behind messages, policies, forms and docs/verdicts.md. Run this module to print
that page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FindingClass = Literal[
    "transient",
    "retention_loss",
    "truncation",
    "topic_recreated",
    "topic_missing",
    "partition_missing",
    "cluster_changed",
    "log_hole",
    "unexplained_gap",
    "table_changed",
    "unknown",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One class.

    Args:
        cause: What happened, in a sentence.
        told_by: What the verdict rests on.
        next_step: What a person can do.
        choices: Decisions that are valid besides `fail`, and what each does.
    """

    cause: str
    told_by: str
    next_step: str
    choices: Mapping[str, str]


_GAP_CHOICES = {
    "accept_loss": "the missing offsets are recorded as lost, the other rows are verified and stay",
}

VERDICTS: dict[FindingClass, Verdict] = {
    "transient": Verdict(
        cause="the cluster does not give a settled answer",
        told_by="an error that brokers themselves call retriable, a leader epoch below the known"
        " one, or looks that do not agree",
        next_step="nothing has moved; try again when the brokers have settled",
        choices={},
    ),
    "retention_loss": Verdict(
        cause="records were deleted before they were read",
        told_by="the log start has passed the position, same topic id, known epoch intact",
        next_step="raise the retention or run more often, then decide",
        choices={"accept_loss": "go on at the log start; the interval is recorded as lost"},
    ),
    "truncation": Verdict(
        cause="the log was cut below where it had been; what stands there now are other records",
        told_by="the known leader epoch ends below the position, or below the high watermark that"
        " was seen with it, or is unknown to the leader",
        next_step="look for unclean elections and replaced disks, then decide",
        choices={
            "accept_loss": "go on where the log was cut, in a new generation if rows were landed"
            " past the cut; they stay in the table. An unread tail that was cut is lost",
            "restart": "read the whole log again in a new generation, beside the old rows",
        },
    ),
    "topic_recreated": Verdict(
        cause="the topic was deleted and re-created",
        told_by="the name leads to another topic id",
        next_step="find out who re-created it, then decide; the rows of the old one stay",
        choices={
            "accept_loss": "what the old topic still held is lost; go on with the new one from its"
            " log start, beside the old rows",
            "restart": "the same: read the new topic from its log start, beside the old rows",
        },
    ),
    "topic_missing": Verdict(
        cause="the topic is gone",
        told_by="brokers agree that there is no topic of that name",
        next_step="if that was meant, retire it; unread records are lost with it",
        choices={"retire": "stop following this topic; its rows stay"},
    ),
    "partition_missing": Verdict(
        cause="the partition is gone",
        told_by="brokers agree that the topic, same id, has fewer partitions",
        next_step="find out who removed it; if that was meant, retire it",
        choices={"retire": "stop following this partition; its rows stay"},
    ),
    "cluster_changed": Verdict(
        cause="the brokers belong to another cluster",
        told_by="the cluster id differs",
        next_step="point the connection back; if the stream has really moved, decide",
        choices={
            "restart": "follow the new cluster's topics from their log starts, beside the old rows"
        },
    ),
    "log_hole": Verdict(
        cause="offsets inside the range have neither a record nor a marker in the log",
        told_by="the committed rows were counted, and the log was looked at where rows are missing",
        next_step="a lost segment or compaction: for a compacted topic set gaps: compacted,"
        " otherwise look at the broker's disks, then decide",
        choices=_GAP_CHOICES,
    ),
    "unexplained_gap": Verdict(
        cause="offsets inside the range have no row, and no evidence says why",
        told_by="the committed rows were counted, and the log holds records there, or can no"
        " longer be looked at",
        next_step="clear ingest_ranges (or run the same run id again) to read the range once more;"
        " if it stays, decide",
        choices=_GAP_CHOICES,
    ),
    "table_changed": Verdict(
        cause="the table is not as this ledger left it",
        told_by="the table's id and marks, and every commit since the last one that the ledger"
        " knows",
        next_step="if the change was meant, approve it; otherwise restore the table and approve"
        " that, since a RESTORE is a change of its own",
        choices={
            "approve": "take the table as it is now; verified rows that are no longer in it are"
            " recorded as removed"
        },
    ),
    "unknown": Verdict(
        cause="the cluster refused to answer, which is neither a loss nor a passing fault",
        told_by="an error that is in none of the lists; missing rights are not a deleted topic",
        next_step="look at the error and give the rights back; the next run goes on by itself",
        choices={"approve": "leave the partition out of this run; its position stays"},
    ),
}

HALTING: tuple[FindingClass, ...] = tuple(kind for kind in VERDICTS if kind != "transient")

POLICIES: dict[str, tuple[str, ...]] = {
    kind: ("fail", "approve", *(c for c in VERDICTS[kind].choices if c != "approve"))
    for kind in HALTING
}
"""What a stream file may say per class in `on_reset`."""


def valid_choices(kind: str, decidable: bool = True) -> tuple[str, ...]:
    """What a person may decide about a finding of that class."""
    choices = VERDICTS[kind].choices if decidable else {}  # type: ignore[index]
    return (*choices, "fail")


def build_page() -> str:
    """docs/verdicts.md."""
    lines = [
        "# Verdicts",
        "",
        "Written by `make verdicts` from `model/verdicts.py`; a test holds the two together.",
        "",
        "A message reads `incident-N: PLACE: CLASS: CAUSE. Expected ..., found ... Offsets at",
        "stake: [START, END) ... Next: ...`. Decide with `tideline resolve FILE --incident",
        "incident-N --choice CHOICE --reason TEXT`, or in Airflow's form where `on_reset.CLASS` is",
        "`approve`; then clear the halted run or wait for the next. `fail` is always valid: the",
        "incident stays open.",
        "",
    ]
    for kind, verdict in VERDICTS.items():
        lines += [f"## {kind}", "", f"{_sentence(verdict.cause)}.", ""]
        lines += [f"- Told by: {verdict.told_by}.", f"- Next: {verdict.next_step}."]
        lines += [f"- `{choice}`: {text}." for choice, text in verdict.choices.items()]
        if kind == "transient":
            lines += ["- Not an incident: the run ends with exit status 4 and Airflow tries again."]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    print(build_page(), end="")
