"""Every class of finding: what it means, what to do, and which decisions are valid (R9).

Messages, policies, forms and docs/incidents-and-errors.md all use this one table.
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
    "unreadable_record",
    "table_changed",
    "unknown",
    "quarantine_share",
    "schema_changed",
    "key_moved",
    "current_changed",
    "expectation_failed",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The texts and decisions of one class.

    Args:
        evidence: What has shown it.
        choices: Valid decisions besides `fail`, and what each does.
    """

    cause: str
    evidence: str
    next_step: str
    choices: Mapping[str, str]


_GAP_CHOICES = {
    "accept_loss": "the missing offsets are recorded as lost; the other rows are verified and stay",
}

VERDICTS: dict[FindingClass, Verdict] = {
    "transient": Verdict(
        cause="the cluster gives no consistent answer",
        evidence="an error that Kafka's protocol calls retriable, a leader epoch below the known"
        " one, or observations that differ from each other",
        next_step="no position has moved; run again when the brokers are stable",
        choices={},
    ),
    "retention_loss": Verdict(
        cause="records were deleted before they were read",
        evidence="the log start is past the position; the topic id is the same, and the known"
        " leader epoch still reaches its end",
        next_step="raise the retention or run more often, then decide",
        choices={
            "accept_loss": "continue at the log start; the offsets below it are recorded as lost"
        },
    ),
    "truncation": Verdict(
        cause="the log was truncated; its old offsets may hold other records now",
        evidence="the known leader epoch ends below the position or below the high watermark"
        " observed with that epoch, or the leader does not know the epoch",
        next_step="look for unclean leader elections and replaced disks, then decide",
        choices={
            "accept_loss": "continue at the truncation offset, in a new generation; landed"
            " rows stay. Unread records above that offset are lost",
            "restart": "read the whole log again, in a new generation; the old rows stay",
        },
    ),
    "topic_recreated": Verdict(
        cause="the topic was deleted and re-created",
        evidence="the topic of that name has another topic id",
        next_step="find out who re-created it, then decide; the rows of the old topic stay",
        choices={
            "accept_loss": "read the new topic from its log start; the old rows stay, and unread"
            " records of the old topic are lost",
            "restart": "the same as accept_loss",
        },
    ),
    "topic_missing": Verdict(
        cause="the topic no longer exists",
        evidence="repeated observations show no topic of that name",
        next_step="if the deletion was intended, retire the topic; its unread records are lost",
        choices={"retire": "stop following this topic; its rows stay"},
    ),
    "partition_missing": Verdict(
        cause="the partition no longer exists",
        evidence="repeated observations show the same topic id without this partition",
        next_step="find out who removed it; if that was intended, retire the partition",
        choices={"retire": "stop following this partition; its rows stay"},
    ),
    "cluster_changed": Verdict(
        cause="the brokers belong to another cluster",
        evidence="the cluster id differs from the known one",
        next_step="correct the connection; if the stream has moved to that cluster, decide",
        choices={
            "restart": "read the new cluster's topics from their log starts; the old rows stay"
        },
    ),
    "log_hole": Verdict(
        cause="offsets inside the range have neither a record nor a marker in the log",
        evidence="the committed rows were counted, and the log was read where rows are missing",
        next_step="the log was compacted or has lost a segment: for a compacted topic set gaps:"
        " compacted, otherwise check the broker's disks; then decide",
        choices=_GAP_CHOICES,
    ),
    "unexplained_gap": Verdict(
        cause="offsets inside the range have no row, and no evidence explains it",
        evidence="the committed rows were counted, and where rows are missing the log holds records"
        " or can no longer be read",
        next_step="clear ingest_ranges (or run the same run id again) to read the range again;"
        " if rows are still missing, decide",
        choices=_GAP_CHOICES,
    ),
    "unreadable_record": Verdict(
        cause="Spark cannot read some records, however often it tries",
        evidence="the ranges were read in halves until single offsets were left; each of them"
        " failed twice with an error that a record's content causes, such as a timestamp in"
        " nanoseconds or a damaged batch. A run names at most 1,000 offsets",
        next_step="look at the offsets with another reader, repair the producer or the broker's"
        " disk, then decide; clearing the halted run tries again",
        choices={
            "accept_loss": "the unreadable offsets are recorded as lost and never read again;"
            " everything around them is landed",
            "retry": "read the records again; if that fails, a new incident is opened",
        },
    ),
    "table_changed": Verdict(
        cause="the table was changed by something other than this ledger's runs",
        evidence="the table's id and properties, and the metadata of every commit since the last"
        " known one",
        next_step="if the change was intended, approve it: rows that no run had verified yet are"
        " landed again, so rows that somebody erased have to be erased again; otherwise restore the"
        " table and approve the RESTORE, which is a change as well",
        choices={
            "approve": "accept the table as it is now; verified rows that it no longer holds are"
            " recorded as lost, or read again if an older ledger knows nothing of their removal"
        },
    ),
    "unknown": Verdict(
        cause="the cluster refused to answer; that proves no loss, and trying again does not help",
        evidence="an error that is not transient, such as missing rights; it does not prove that a"
        " topic was deleted",
        next_step="read the error and restore the rights; then the next run continues by itself, or"
        " asks about unverified rows: approve, and the rows that verify stay",
        choices={
            "approve": "leave the partition out of this run; its position stays. Its unverified"
            " rows are removed, unless the cluster answers by then and all of them verify"
        },
    ),
    "quarantine_share": Verdict(
        cause="more records than the stream allows cannot be decoded; landing continues",
        evidence="the records at the plan's coordinates were decoded, and their errors counted;"
        " nothing was committed",
        next_step="look at the error classes; correct a mistake in a schema or in the stream file"
        " first, then decide",
        choices={
            "quarantine": "these records go into quarantine, and the others into the typed table;"
            " later records are judged again",
            "retry": "decode the records again, with the present schemas and stream file",
        },
    ),
    "schema_changed": Verdict(
        cause="a schema does not fit the typed table; landing continues",
        evidence="the schema of newer records was compared with the table's columns",
        next_step="register a schema that fits or change `on_schema`, then decide",
        choices={
            "quarantine": "records with that schema go into quarantine; a redrive decodes them"
            " later",
            "retry": "compare the schemas with the table again",
        },
    ),
    "expectation_failed": Verdict(
        cause="rows fail an expectation that halts; landing continues",
        evidence="the rows were checked against the conditions under `decode.expect`, and counted;"
        " nothing was committed",
        next_step="look at the records with `tideline explain`; correct the source, or the rule in"
        " the stream file, then decide",
        choices={
            "quarantine": "records at these offsets that fail these rules go into quarantine, and"
            " the others into the typed table; later records, and other rules, are judged again; a"
            " redrive decodes the quarantined records later",
            "retry": "decode the records again, with the present rules of the stream file",
        },
    ),
    "key_moved": Verdict(
        cause="changes of one key are in several partitions, so their offsets have no order;"
        " landing and decoding continue",
        evidence="the partition of each key's last change was compared with that of the key's row",
        next_step="find out why the key moved: partitions were added, the key's schema has another"
        " id, another client writes; then decide",
        choices={
            "by_time": "from now on the change with the later Kafka timestamp counts, and the"
            " table is rebuilt in that order",
            "retry": "check again",
        },
    ),
    "current_changed": Verdict(
        cause="the current table has changed since the last fold; landing and decoding continue",
        evidence="the rows of the buckets that a fold touches were summed up and compared with the"
        " ledger, before anything was written",
        next_step="find out who has written to the table; restore it and run again, or decide; or"
        " rebuild it: tideline fold FILE --anew",
        choices={
            "refold": "every bucket is rebuilt from the typed table",
            "retry": "check again",
        },
    ),
}

FOLDING: tuple[FindingClass, ...] = ("key_moved", "current_changed")
"""They halt the fold, and neither landing nor decoding."""

DECODING: tuple[FindingClass, ...] = (
    "quarantine_share",
    "schema_changed",
    "expectation_failed",
)
"""They halt the decoding and not the landing; `decode` in the stream file says what they allow."""

HALTING: tuple[FindingClass, ...] = tuple(
    kind for kind in VERDICTS if kind not in ("transient", *DECODING, *FOLDING)
)
"""The classes that halt landing, each with a policy in `on_reset`."""

GAP_CLASSES: tuple[FindingClass, ...] = ("log_hole", "unexplained_gap", "unreadable_record")
"""The classes of offsets without a row. `accept_loss` records exactly them as lost, and the plan
that they belong to goes on."""

VERIFIED_FIRST: tuple[FindingClass, ...] = (*GAP_CLASSES, "unknown")
"""The classes whose rows may verify when they are decided. They are decided before others: rows
that verify then are not lost, whatever the log has lost since."""

POLICIES: dict[str, tuple[str, ...]] = {
    kind: ("fail", "approve", *(c for c in VERDICTS[kind].choices if c not in ("approve", "retry")))
    for kind in HALTING
}
"""The values that `on_reset` of a stream file allows, per class. To try again is a person's choice:
as a policy it would start Spark in vain with every run."""


def valid_choices(kind: str, decidable: bool = True) -> tuple[str, ...]:
    """The decisions that are valid for a finding.

    Args:
        decidable: Whether a decision other than `fail` can be executed.
    """
    choices = VERDICTS[kind].choices if decidable else {}  # type: ignore[index]
    return (*choices, "fail")
