"""A stream: topics of one cluster that land in one table. The model of a stream file.

Every field states its unit and default; unknown keys are errors. `tideline.stream_files` reads the
files and adds line numbers to the errors.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import combinations
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import Discriminator, Field, Tag, field_validator
from pydantic import model_validator as whole
from pydantic_core import PydanticCustomError

from tideline.model.addresses import is_in_object_store, one_inside_the_other, safe_uri
from tideline.model.airflow_settings import OPERATION_DAGS, AirflowSettings
from tideline.model.ledger_location import DEFAULT_CONNECTION, LedgerKind, LedgerLocation
from tideline.model.section import (
    LARGEST_OFFSET,
    LARGEST_PARTITION,
    TEN_YEARS,
    ConnectionId,
    Section,
    given_twice,
)
from tideline.model.stream_decoding import Decode, Maintenance, Registry
from tideline.model.verdicts import POLICIES, VERDICTS, FindingClass
from tideline.model.window import in_utc
from tideline.model.wording import first_few

IsolationLevel = Literal["read_committed", "read_uncommitted"]
PartitionColumn = Literal["topic_id", "generation", "topic", "partition"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,200}$")]
PartitionNumber = Annotated[int, Field(ge=0, le=LARGEST_PARTITION)]
Offset = Annotated[int, Field(ge=0, le=LARGEST_OFFSET)]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._\-]{1,249}$")]


class Kafka(Section):
    """Where the records come from."""

    connection: ConnectionId = Field(
        "kafka_default", description="Airflow connection of type kafka; brokers and secrets."
    )
    topics: list[TopicName] = Field(
        default_factory=list,
        description="Topics by name. Either this or topic_pattern. A topic that is taken out keeps"
        " its rows and next offsets; landing goes on there when it is put back.",
    )
    topic_pattern: str | None = Field(
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

    @field_validator("topic_pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"not a regular expression: {error}") from error
        return value

    @field_validator("topics")
    @classmethod
    def _no_topic_twice(cls, value: list[str]) -> list[str]:
        if twice := given_twice(value):
            raise ValueError(f"named twice: {first_few(twice)}")
        return value

    @whole(mode="after")
    def _one_way_to_name_topics(self) -> Kafka:
        if bool(self.topics) == (self.topic_pattern is not None):
            raise ValueError("give either topics or topic_pattern, and only one of them")
        return self


class Table(Section):
    """Where the rows go."""

    uri: str = Field(description="Absolute path, file:// or s3a:// address of the Delta table.")
    connection: ConnectionId | None = Field(
        None,
        description="Airflow connection of type aws for every s3a:// address of the stream. Without"
        " one, delta-rs and Spark find credentials as they do by default.",
    )
    partition_by: list[PartitionColumn] = Field(
        default=["topic_id"], description="Partition columns of the table, in order."
    )

    @field_validator("uri")
    @classmethod
    def _safe_address(cls, value: str) -> str:
        return safe_uri(value)


class StartAt(Section):
    """First positions other than `earliest` and `latest`; exactly one of the three keys."""

    timestamp: datetime | None = Field(
        None, description="First record at or after this time; with its offset from UTC."
    )
    offsets: dict[TopicName, dict[PartitionNumber, Offset]] | None = Field(
        None, description="topic -> partition -> next offset to read."
    )
    group: str | None = Field(None, min_length=1, description="A group's committed offsets.")

    @field_validator("timestamp")
    @classmethod
    def _has_zone(cls, value: datetime | None) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("needs a UTC offset, for example 2026-01-31T00:00:00Z")
        return in_utc(value)

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
    return "place" if isinstance(value, dict | StartAt) else "word"


Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("word")] | Annotated[StartAt, Tag("place")],
    Discriminator(_start_form),
]


class Limits(Section):
    """How much one run may take, counted in offsets."""

    max_records_per_run: int = Field(
        5_000_000, ge=1, le=LARGEST_OFFSET, strict=True, description="Offsets over all partitions."
    )
    max_records_per_partition: int = Field(
        1_000_000, ge=1, le=LARGEST_OFFSET, strict=True, description="Offsets of one partition."
    )


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


class Stream(Section):
    """One stream file."""

    stream: Name = Field(description="The stream's name, and the Dag's id.")
    kafka: Kafka
    table: Table
    schedule: str | None = Field(
        None,
        description="Cron expression of five fields, or a preset such as @hourly; without one,"
        " only manual runs.",
    )
    timezone: str = Field("UTC", description="Time zone of the schedule.")
    start: Start = Field(
        "earliest",
        description="Where the first run begins; resolved once, later runs ignore it.",
    )
    limits: Limits = Limits()
    on_reset: OnReset = OnReset()
    on_incident: Literal["halt", "proceed"] = Field(
        "halt", description="With proceed, other partitions go on while an incident is open."
    )
    gaps: Literal["explain", "refuse", "transactional", "compacted"] = Field(
        "explain",
        description="Which offsets without a row are admitted. explain looks at just these in the"
        " log and admits markers and aborted records; refuse admits none; transactional and"
        " compacted admit them by declaration, and the log is not looked at.",
    )
    patience_seconds: float = Field(
        60,
        gt=0,
        le=3600,
        description="How long a run observes again until two observations agree and no transient"
        " fault is left; then it fails as retriable.",
    )
    headroom_warning_seconds: int = Field(
        3600,
        ge=0,
        le=TEN_YEARS,
        strict=True,
        description="Warn when headroom is below these seconds; 0: never.",
    )
    ledger: LedgerKind = Field(
        "delta", description="Where plans and positions are: a Delta table, or a database."
    )
    ledger_uri: str | None = Field(
        None, description="Only with ledger: delta. Default: <table.uri>.ledger"
    )
    ledger_connection: ConnectionId | None = Field(
        None, description=f"Only with ledger: airflow. Default: {DEFAULT_CONNECTION}"
    )
    spark: Spark = Spark()
    registry: Registry | None = None
    decode: Decode | None = None
    maintenance: Maintenance = Maintenance()
    airflow: AirflowSettings = AirflowSettings()

    @field_validator("stream")
    @classmethod
    def _no_operation(cls, value: str) -> str:
        if value in OPERATION_DAGS:
            raise ValueError("the name of an operation's Dag; choose another one")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        if value not in available_timezones():
            raise ValueError("not a time zone of the IANA database, for example Europe/Berlin")
        return value

    @field_validator("ledger_uri")
    @classmethod
    def _safe_ledger_address(cls, value: str | None) -> str | None:
        return None if value is None else safe_uri(value)

    @whole(mode="after")
    def _one_location_of_the_ledger(self) -> Stream:
        other, key = "airflow", "ledger_connection"
        if self.ledger == "airflow":
            other, key = "delta", "ledger_uri"
        if getattr(self, key) is not None:
            raise PydanticCustomError(
                key,  # the key that the whole file's check is about
                "only with ledger: {other}; here ledger is {ledger}",
                {"other": other, "ledger": self.ledger},
            )
        return self

    @whole(mode="after")
    def _table_is_not_ledger(self) -> Stream:
        if self.ledger != "delta":
            return self
        if one_inside_the_other(self.table.uri, str(self.ledger_location)):
            raise PydanticCustomError(
                "ledger_uri",  # the key that the whole file's check is about
                "neither ledger nor table may lie inside the other",
            )
        return self

    @whole(mode="after")
    def _tables_apart(self) -> Stream:
        if self.decode is None:
            return self
        places = {
            "table.uri": self.table.uri,
            "ledger_uri": str(self.ledger_location),
            "decode.table.uri": self.decode.table.uri,
            "decode.quarantine.uri": self.decode.quarantine.uri,
        }
        for (one, uri), (other, beside) in combinations(places.items(), 2):
            if other != "ledger_uri" and one_inside_the_other(uri, beside):
                raise PydanticCustomError(
                    "decode",
                    "neither {one} nor {other} may lie inside the other",
                    {"one": one, "other": other},
                )
        return self

    @whole(mode="after")
    def _connection_is_for_a_store(self) -> Stream:
        if self.table.connection is not None and not self.store_addresses:
            raise PydanticCustomError(
                "table", "connection: only with s3a:// addresses; this stream has none"
            )
        return self

    @whole(mode="after")
    def _schemas_are_somewhere(self) -> Stream:
        if self.decode is None or self.registry is not None:
            return self
        for part in (self.decode.value, self.decode.key):
            if part.subject is not None:
                raise PydanticCustomError(
                    "registry", "decode names the subject {subject}", {"subject": part.subject}
                )
        return self

    @whole(mode="after")
    def _quarantine_to_maintain(self) -> Stream:
        if self.decode is None and self.maintenance.quarantine_days is not None:
            raise PydanticCustomError("maintenance", "quarantine_days: only with decode")
        return self

    @property
    def store_addresses(self) -> tuple[str, ...]:
        """The addresses of this stream that lie in an object store."""
        addresses = [self.table.uri]
        if self.ledger == "delta":
            addresses.append(self.ledger_location.address)
        if self.decode is not None:
            addresses += [self.decode.table.uri, self.decode.quarantine.uri]
        return tuple(uri for uri in addresses if is_in_object_store(uri))

    @property
    def ledger_location(self) -> LedgerLocation:
        """Where the ledger is stored."""
        if self.ledger == "airflow":
            address = self.ledger_connection or DEFAULT_CONNECTION
        else:
            address = self.ledger_uri or f"{self.table.uri.rstrip('/')}.ledger"
        return LedgerLocation(self.ledger, address, self.stream)


assert set(OnReset.model_fields) == set(POLICIES)
