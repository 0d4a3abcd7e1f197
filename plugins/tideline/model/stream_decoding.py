"""The sections of a stream file that make typed rows of raw bytes, and look after the tables."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic import model_validator as whole

from tideline.model.addresses import safe_uri
from tideline.model.section import ConnectionId, Section

Format = Literal["avro", "json", "protobuf", "none"]
Framing = Literal["confluent", "plain"]
ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")]
FOLDER = "folder"
"""Key of the validation context: the folder of the stream file, which schema files are beside."""


class Registry(Section):
    """Where schemas are looked up: Confluent's API, which others have as well."""

    connection: ConnectionId = Field(
        "registry_default", description="Airflow connection of type http; URL and secrets."
    )


class Part(Section):
    """How the keys, or the values, of the records are written."""

    format: Format = Field("none", description="none leaves the bytes undecoded, and out.")
    framing: Framing | None = Field(
        None,
        description="confluent: a magic byte and the schema's id come first; the default where a"
        " registry is named. plain: nothing does.",
    )
    subject: str | None = Field(
        None, min_length=1, description="Subject of the registry that the schemas belong to."
    )
    schema_file: str | None = Field(
        None, alias="schema", description="A schema file instead; relative to the stream file."
    )
    message: str | None = Field(
        None, min_length=1, description="Only for protobuf: the message's full name."
    )

    @field_validator("format")
    @classmethod
    def _is_there(cls, value: Format) -> Format:
        if value == "protobuf":
            raise ValueError("protobuf is not there yet; allowed: avro, json, none")
        return value

    @field_validator("schema_file")
    @classmethod
    def _beside_the_stream_file(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        path = Path((info.context or {}).get(FOLDER, "."), value).absolute()
        if not path.is_file():
            raise ValueError(f"no such file: {path}")
        return str(path)

    @whole(mode="after")
    def _fits_together(self) -> Part:
        if self.format == "none":
            given = [
                name
                for name, value in (
                    ("framing", self.framing),
                    ("subject", self.subject),
                    ("schema", self.schema_file),
                    ("message", self.message),
                )
                if value is not None
            ]
            if given:
                raise ValueError(f"format none takes no {given[0]}")
            return self
        if (self.subject is None) == (self.schema_file is None):
            raise ValueError("give either subject or schema, and only one of them")
        if self.message is not None and self.format != "protobuf":
            raise ValueError("message is for format protobuf only")
        return self


class DecodedTable(Section):
    """Where the typed rows go."""

    uri: str = Field(description="Absolute path, file:// or s3a:// address of the Delta table.")
    partition_by: list[ColumnName] = Field(
        default_factory=list,
        description="Partition columns, in order: event_date, topic_id, generation, topic,"
        " partition.",
    )

    @field_validator("uri")
    @classmethod
    def _safe_address(cls, value: str) -> str:
        return safe_uri(value)

    @field_validator("partition_by")
    @classmethod
    def _known_columns(cls, value: list[str]) -> list[str]:
        allowed = ("event_date", "topic_id", "generation", "topic", "partition")
        for name in value:
            if name not in allowed:
                raise ValueError(f"allowed: {', '.join(allowed)}")
        if len(set(value)) < len(value):
            raise ValueError("each column once")
        return value


class Quarantine(Section):
    """Where records go that cannot be decoded."""

    uri: str = Field(description="Absolute path, file:// or s3a:// address of the Delta table.")
    max_share: float = Field(
        0.05, ge=0, le=1, description="A larger share of a run's records halts the decoding."
    )

    @field_validator("uri")
    @classmethod
    def _safe_address(cls, value: str) -> str:
        return safe_uri(value)


class OnSchema(Section):
    """What happens when schemas change."""

    new_field: Literal["add_column", "halt"] = "add_column"
    incompatible: Literal["halt", "quarantine"] = "halt"
    unknown_id: Literal["quarantine", "halt"] = "quarantine"


class EventTime(Section):
    """The column `event_date`: the day of a field, or of Kafka's time."""

    field: str | None = Field(
        None, min_length=1, description="A field with a time; without one, Kafka's time."
    )
    earliest: date = Field(date(2020, 1, 1), description="First day of the window.")
    latest_ahead_seconds: int = Field(
        86_400, ge=0, strict=True, description="The window's end, from the time of the run."
    )
    outside: Literal["quarantine", "catch_all"] = Field(
        "quarantine", description="catch_all: the row gets no event_date."
    )


class Decode(Section):
    """Typed tables from the raw one."""

    value: Part
    key: Part = Part()
    table: DecodedTable
    quarantine: Quarantine
    on_schema: OnSchema = OnSchema()
    event_time: EventTime | None = None
    tombstones: Literal["keep", "drop"] = Field(
        "keep", description="keep: a row whose fields are null, is_tombstone true."
    )
    transform: str | None = Field(
        None, description="module:function of DataFrame -> DataFrame; keeps the coordinates."
    )

    @field_validator("transform")
    @classmethod
    def _dotted_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[\w.]+:\w+", value):
            raise ValueError("allowed: module:function")
        return value

    @whole(mode="after")
    def _has_work(self) -> Decode:
        if self.value.format == "none" and self.key.format == "none":
            raise ValueError("value and key both have format none: nothing is decoded")
        if "event_date" in self.table.partition_by and self.event_time is None:
            raise ValueError("table.partition_by names event_date, which needs event_time")
        return self

    def window(self, now: datetime) -> tuple[date, date] | None:
        """First and last day (both inclusive) of the events that a run accepts.

        Args:
            now: UTC-aware.
        """
        if self.event_time is None:
            return None
        ahead = now.timestamp() + self.event_time.latest_ahead_seconds
        return self.event_time.earliest, datetime.fromtimestamp(ahead, UTC).date()


class Maintenance(Section):
    """How the stream's tables are kept small and quick."""

    compact_below_mb: int = Field(
        64, ge=1, strict=True, description="Data files below this size are merged."
    )
    target_mb: int = Field(256, ge=1, strict=True, description="Size of merged files.")
    vacuum_hours: int = Field(
        168, ge=1, strict=True, description="Files that no version needs any more are kept so long."
    )

    @whole(mode="after")
    def _grows(self) -> Maintenance:
        if self.compact_below_mb > self.target_mb:
            raise ValueError("compact_below_mb is above target_mb")
        return self
