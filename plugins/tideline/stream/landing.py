"""The sections of a stream file about landing: kafka, table, start, limits, on_reset, spark."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic import model_validator as whole

from tideline.model.request import in_utc
from tideline.model.verdicts import POLICIES, VERDICTS, FindingClass
from tideline.stream.sections import (
    LARGEST_OFFSET,
    LARGEST_PARTITION,
    OPERATION_DAGS,
    Address,
    ConnectionId,
    Records,
    Section,
    each_once,
    written_out,
)

IsolationLevel = Literal["read_committed", "read_uncommitted"]
PartitionColumn = Literal["topic_id", "generation", "topic", "partition"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,200}$")]


def _of_no_operation(value: str) -> str:
    if value in OPERATION_DAGS:
        raise ValueError("the name of an operation's Dag; choose another one")
    return value


DagName = Annotated[Name, AfterValidator(_of_no_operation)]
"""Of a stream or a fleet, and so of its Dag."""


def _as_kafka_writes(value: object) -> object:
    """No yes and no 03: as a key, each would stand for a number that may be there as well."""
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value)):
        raise ValueError("allowed: the number of a partition, in digits")
    return value


_NUMBER = re.compile("0|[1-9][0-9]*")
PartitionNumber = Annotated[
    int, BeforeValidator(_as_kafka_writes), Field(ge=0, le=LARGEST_PARTITION)
]
Offset = Annotated[int, Field(ge=0, le=LARGEST_OFFSET, strict=True)]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._\-]{1,249}$")]


def _compiling(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return value


TopicNames = Annotated[list[TopicName], each_once("named twice: {1}")]
TopicPattern = Annotated[str, AfterValidator(_compiling)]
"""Of `re`; a topic's whole name has to match."""


class Kafka(Section):
    """Where the records come from."""

    connection: ConnectionId = Field(
        "kafka_default", description="Airflow connection of type kafka; brokers and secrets."
    )
    topics: TopicNames = Field(
        default_factory=list,
        description="Topics by name. Either this or topic_pattern. A topic that is removed keeps"
        " its rows and next offsets; landing continues there when the topic is added again.",
    )
    topic_pattern: TopicPattern | None = Field(
        None, description="Regular expression that a topic's whole name matches."
    )
    isolation_level: IsolationLevel = Field(
        "read_committed", description="read_committed stops at the last stable offset."
    )
    commit_group: str | None = Field(
        None,
        min_length=1,
        description="Consumer group that gets the next offsets after each advance; none without.",
    )

    @whole(mode="after")
    def _one_way_to_name_topics(self) -> Kafka:
        if bool(self.topics) == (self.topic_pattern is not None):
            raise ValueError("give either topics or topic_pattern, and only one of them")
        return self

    def means(self, topic: str) -> bool:
        """Whether the file names a topic, or its pattern matches the topic's whole name."""
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return topic in self.topics


class Table(Section):
    """Where the rows go."""

    uri: Address = Field(
        description="Absolute path, or file://, s3a://, abfss:// or gs:// address of the Delta"
        " table."
    )
    connection: ConnectionId | None = Field(
        None,
        description="Airflow connection for every address of the stream in an object store: of type"
        " aws for s3a://, wasb or adls for abfss://, google_cloud_platform for gs://. Without one,"
        " delta-rs and Spark find credentials as they do by default.",
    )
    partition_by: list[PartitionColumn] = Field(
        default=["topic_id"], description="Partition columns of the table, in order."
    )


def _with_zone(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("needs a UTC offset, for example 2026-01-31T00:00:00Z")
    return in_utc(value)


_AN_INSTANT = "a time with its offset from UTC, for example 2026-01-31T00:00:00Z"
Instant = Annotated[datetime, written_out(_AN_INSTANT), AfterValidator(_with_zone)]


class StartAt(Section):
    """First positions other than `earliest` and `latest`; exactly one of the three keys."""

    timestamp: Instant | None = Field(
        None, description="First record at or after this time; with its offset from UTC."
    )
    offsets: dict[TopicName, dict[PartitionNumber, Offset]] | None = Field(
        None, description="topic -> partition -> next offset to read."
    )
    group: str | None = Field(None, min_length=1, description="A group's committed offsets.")

    @whole(mode="after")
    def _exactly_one(self) -> StartAt:
        given = [n for n in ("timestamp", "offsets", "group") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of timestamp, offsets, group")
        return self

    def __str__(self) -> str:
        if self.timestamp is not None:
            return f"timestamp {self.timestamp.astimezone(UTC).isoformat()}"
        if self.group is not None:
            return f"group {self.group}"
        return f"offsets {self.offsets}"


def _start_form(value: Any) -> str:
    # the form is told by the type: otherwise an error in one form is an error of both
    return "place" if isinstance(value, dict | StartAt) else "word"


Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("word")] | Annotated[StartAt, Tag("place")],
    Discriminator(_start_form),
]


class Limits(Section):
    """How much one run may take, counted in offsets."""

    max_records_per_run: Records = Field(5_000_000, description="Offsets over all partitions.")
    max_records_per_partition: Records = Field(1_000_000, description="Offsets of one partition.")


_FOR_ALL = ("fail", "approve")
"""The policies that every class allows."""


def _policy(kind: FindingClass) -> Any:
    cause = VERDICTS[kind].cause
    return Field("fail", description=f"{cause[0].upper()}{cause[1:]}.")


class OnReset(Section):
    """The policy for each class of findings: fail, ask a person (approve), or always decide so."""

    retention_loss: Literal["fail", "approve", "accept_loss"] = _policy("retention_loss")
    truncation: Literal["fail", "approve", "accept_loss", "restart"] = _policy("truncation")
    topic_recreated: Literal["fail", "approve", "accept_loss", "restart"] = _policy(
        "topic_recreated"
    )
    topic_missing: Literal["fail", "approve", "retire"] = _policy("topic_missing")
    partition_missing: Literal["fail", "approve", "retire"] = _policy("partition_missing")
    cluster_changed: Literal["fail", "approve", "restart"] = _policy("cluster_changed")
    log_hole: Literal["fail", "approve", "accept_loss"] = _policy("log_hole")
    unexplained_gap: Literal["fail", "approve", "accept_loss"] = _policy("unexplained_gap")
    unreadable_record: Literal["fail", "approve", "accept_loss"] = _policy("unreadable_record")
    table_changed: Literal["fail", "approve"] = _policy("table_changed")
    unknown: Literal["fail", "approve"] = _policy("unknown")


# the policy of a finding is looked up by its class
assert set(OnReset.model_fields) == set(POLICIES)


def _for_each_class(value: Any) -> Any:
    """A word for all classes as a policy for each."""
    if not isinstance(value, str):
        return value
    if value not in _FOR_ALL:
        raise ValueError(f"allowed for all classes: {', '.join(_FOR_ALL)}; or keys: a class each")
    return dict.fromkeys(OnReset.model_fields, value)


Policies = Annotated[
    OnReset, BeforeValidator(_for_each_class, json_schema_input_type=Literal[_FOR_ALL] | OnReset)
]
"""A policy for each class of findings; one word stands for all of them."""


class Spark(Section):
    """Which Spark does the reading and writing."""

    connection: ConnectionId = Field(
        "spark_default", description="Airflow connection of type spark; local[*] if undefined."
    )
    keep_warm_seconds: int = Field(
        900,
        ge=0,
        le=86_400,
        strict=True,
        description="With a local master: how long Spark waits for the next run; 0 starts one for"
        " each run.",
    )
    stall_seconds: int = Field(
        3600,
        ge=60,
        le=86_400,
        strict=True,
        description="A job is cancelled if no task has ended, and no record was read, for so long.",
    )
