"""The sections of a stream file about typed tables, and the one about looking after all tables.

registry and decode belong together: a subject of `decode` is looked up in `registry`. The columns
that a schema makes are not known here; that they fit is checked when a run has the schemas.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)
from pydantic import model_validator as whole

from tideline.model.addresses import safe_uri
from tideline.model.decoding import (
    INVALID,
    KEPT_BY_DEFAULT,
    OF_ENVELOPE,
    OWN_COLUMNS,
    SINGLE_VALUES,
    UNAVAILABLE,
    Expectation,
    OwnColumn,
    context_of,
    without_case,
)
from tideline.model.wording import first_few
from tideline.stream.sections import (
    FOLDER,
    TEN_YEARS,
    Address,
    ConnectionId,
    Day,
    Flag,
    Seconds,
    Section,
    each_once,
    given_twice,
)

Format = Literal[
    "avro",
    "json",
    "protobuf",
    "text",
    "long",
    "int",
    "short",
    "float",
    "double",
    "uuid",
    "bytes",
    "none",
]
Framing = Literal["confluent", "plain", "connect"]
NullValue = Literal["empty", "json_null", "connect_null"]
ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")]
FieldPath = Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$", max_length=1000)]
Megabytes = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
TYPE = "{type}"
"""Stands for an event type's name in the address of its table."""
PLACEHOLDER = "__debezium_unavailable_value"


class Registry(Section):
    """Where schemas are looked up: Confluent's API, which others have as well."""

    connection: ConnectionId = Field(
        "registry_default", description="Airflow connection of type http; URL and secrets."
    )


class ListedField(Section):
    """A field of the records that becomes a column."""

    field: FieldPath = Field(
        description="Its name in the records; dots lead into records, as in customer.id."
    )
    column: ColumnName | None = Field(
        None, alias="as", description="The column's name. Default: the path, joined with _."
    )

    @field_validator("column")
    @classmethod
    def _not_an_own_column(cls, value: str | None) -> str | None:
        if value is not None and without_case(value) in OWN_COLUMNS:
            raise ValueError(f"the table's own columns are called {', '.join(OWN_COLUMNS)}")
        return value


def _field_form(value: Any) -> str:
    return "place" if isinstance(value, dict | ListedField) else "word"


FieldItem = Annotated[
    Annotated[FieldPath, Tag("word")] | Annotated[ListedField, Tag("place")],
    Discriminator(_field_form),
]


def _listed(fields: list[str | ListedField] | None) -> tuple[ListedField, ...]:
    return tuple(f if isinstance(f, ListedField) else ListedField(field=f) for f in fields or ())


def _fields_once(value: list[str | ListedField]) -> list[str | ListedField]:
    listed = _listed(value)
    for what, names in (
        ("field", [f.field for f in listed]),
        ("column", [without_case(f.column) for f in listed if f.column is not None]),
    ):
        if twice := given_twice(names):
            raise ValueError(f"each {what} once; {twice[0]} is named twice")
    return value


FieldItems = Annotated[
    Annotated[list[FieldItem], Field(min_length=1), AfterValidator(_fields_once)] | None,
    Field(description="The fields that become columns; every field without it."),
]


class Expect(Section):
    """What each row of the typed table is expected to meet."""

    name: ColumnName = Field(description="What failing rows are counted under.")
    sql: str = Field(
        min_length=1,
        max_length=4000,
        description="A condition of Spark SQL over the typed table's columns: amount > 0.",
    )
    on_fail: Literal["quarantine", "halt", "count"] = Field(
        "quarantine",
        description="quarantine: the record goes there, error_class expectation. halt: decoding"
        " halts until somebody decides. count: the row stays, and is counted.",
    )
    on_null: Literal["fail", "pass"] = Field(
        "fail", description="What a row does for which the condition is null."
    )


_MOST_RULES = 50


Expectations = Annotated[
    list[Expect], each_once("each name once; {0} is named twice", attrgetter("name"))
]
TypeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
Pattern = Annotated[str, Field(min_length=1, max_length=500)]
_MOST_TYPES = 100


class EventType(Section):
    """One event type of a topic that has several, and its typed table."""

    type: TypeName = Field(description="Its name, which stands for {type} in decode.table.uri.")
    subject: Pattern | None = Field(
        None,
        description="Subject of the registry that its schemas belong to; * stands for any text."
        " Default: value.subject.",
    )
    record: Pattern | None = Field(
        None,
        description="Full name of its records: Avro's record, Protobuf's message, the title of a"
        " JSON Schema; * stands for any text.",
    )
    fields: FieldItems = None
    expect: Expectations = Field(
        default_factory=list,
        max_length=_MOST_RULES,
        description="What its rows are expected to meet.",
    )
    ended: Flag = Field(
        False,
        description="Its table stays looked after, and gets no more rows: records that come are of"
        " no type.",
    )

    @field_validator("type")
    @classmethod
    def _no_other_table(cls, value: str) -> str:
        if value in _NO_TYPES:
            raise ValueError(f"{', '.join(_NO_TYPES)} are called so: tables of other kinds")
        return value


_NO_TYPES = ("raw", "decoded", "quarantine", "current")
EventTypes = Annotated[
    list[EventType],
    Field(min_length=1, max_length=_MOST_TYPES),
    each_once("each type once; {0} is named twice", attrgetter("type")),
]


class Part(Section):
    """How the keys, or the values, of the records are written."""

    format: Format = Field(
        "none",
        description="avro, json, protobuf; or a single value as serializers of Kafka's write it:"
        " text, long, int, short, float, double, uuid, bytes. none leaves the bytes undecoded, and"
        " out.",
    )
    framing: Framing | None = Field(
        None,
        description="confluent: a magic byte and the schema's id come first; the default where a"
        " registry is named. With a schema file, that schema reads the bytes behind them. plain:"
        " nothing does. connect: Kafka Connect's JSON, where each record"
        " has its schema beside its payload.",
    )
    subject: str | None = Field(
        None,
        min_length=1,
        description="Subject of the registry that the schemas belong to. json may do without"
        " subject and schema: each document becomes one VARIANT.",
    )
    schema_file: str | None = Field(
        None, alias="schema", description="A schema file instead; relative to the stream file."
    )
    message: str | None = Field(
        None,
        min_length=1,
        description="Only for protobuf: the message's full name; without it, the schema's first.",
    )
    logical_types: Flag = Field(
        True,
        description="Whether Kafka Connect's and Debezium's logical types (connect.name in Avro)"
        " become columns of their meaning: dates, times, exact numbers. Existing columns keep their"
        " type.",
    )
    envelope: Literal["debezium"] | None = Field(
        None,
        description="Only for values: records are change events of Debezium's. The columns are"
        " those of the changed row, and fields chooses among them.",
    )
    unavailable_value: str | None = Field(
        None,
        min_length=1,
        description="Debezium's unavailable.value.placeholder: the text that Debezium"
        " writes for a long value that a change did not touch. Such a column is null, and"
        " unavailable_columns names the column."
        f" Default with an envelope: {PLACEHOLDER}; without one, no text is taken for it.",
    )
    null_values: Annotated[list[NullValue], each_once("each word once")] = Field(
        default_factory=list,
        description="Only for values: which bytes count as no value, as a tombstone's do. empty: no"
        ' bytes. json_null: the text null. connect_null: {"schema": null, "payload": null}. A null'
        " that a schema allows is one anyway.",
    )
    fields: FieldItems = None
    types: EventTypes | None = Field(
        None,
        description="Only for values: the event types of a topic that has several, each with a"
        " typed table. The schema's id says which one a record is of; records of no type go into"
        " quarantine, error_class other_type.",
    )

    @field_validator("schema_file")
    @classmethod
    def _beside_the_stream_file(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        path = Path((info.context or {}).get(FOLDER, "."), value).absolute()
        # looked at while the file is read: a Dag shows what is wrong before any run
        if not os.path.isfile(path):
            raise ValueError(f"no such file: {path}")
        return str(path)

    @property
    def listed(self) -> tuple[ListedField, ...]:
        """The fields that become columns; empty for every field."""
        return _listed(self.fields)

    @property
    def unavailable(self) -> str | None:
        """The text that stands for a value which a change did not bring; None for none."""
        return self.unavailable_value or (PLACEHOLDER if self.envelope else None)

    @property
    def is_schemaless(self) -> bool:
        """Whether documents come without any schema, and become one column each."""
        return self.format != "none" and not self._is_named and self.framing != "connect"

    @property
    def _is_named(self) -> bool:
        return (self.subject, self.schema_file, self.types) != (None, None, None)

    @whole(mode="after")
    def _fits_together(self) -> Part:
        if self.format == "none" or self.format in SINGLE_VALUES:
            self._refuse_what_single_values_lack()
            return self
        if self.types is not None:
            self._refuse_what_types_lack(self.types)
        if self.subject is not None and self.schema_file is not None:
            raise ValueError("give either subject or schema, and only one of them")
        if self.framing == "connect" and (self.format != "json" or self._is_named):
            raise ValueError(
                "framing connect is for format json, and its records bring their schema: give"
                " neither subject nor schema"
            )
        if self.is_schemaless:
            self._refuse_what_needs_a_schema()
        if self.message is not None and self.format != "protobuf":
            raise ValueError("message is for format protobuf only")
        if self.envelope is not None and self.format == "protobuf":
            raise ValueError("envelope debezium is for the formats avro and json")
        own = (*(OF_ENVELOPE if self.envelope else ()), UNAVAILABLE)
        for field in self.listed if self.unavailable else ():
            if field.column is not None and without_case(field.column) in own:
                raise ValueError(f"columns of the table's own are called {', '.join(own)}")
        return self

    def _refuse_what_types_lack(self, types: list[EventType]) -> None:
        if self.framing not in (None, "confluent"):
            raise ValueError(f"types are told by a schema's id, which framing {self.framing} lacks")
        known = {"format", "framing", "subject", "logical_types", "types"}
        given = self.model_dump(by_alias=True, exclude=known, exclude_defaults=True)
        if given:
            instead = {"message": "record", "fields": "fields"}.get(name := next(iter(given)))
            raise ValueError(
                f"{name} does not go with types" + (f": give {instead} to each" if instead else "")
            )
        for one in types:
            if (one.subject or self.subject or one.record) is None:
                raise ValueError(f"type {one.type}: give subject or record, which tell its records")
        claims: dict[tuple[str | None, str | None], list[str]] = {}
        for one in types:
            if not one.ended:
                claims.setdefault((one.subject or self.subject, one.record), []).append(one.type)
        if twice := next((names for names in claims.values() if len(names) > 1), None):
            raise ValueError(f"types {first_few(twice)} claim the same records: make them distinct")

    def _refuse_what_single_values_lack(self) -> None:
        known = {"format"} if self.format == "none" else {"format", "null_values"}
        known |= {"framing"} if self.format != "none" and self.framing == "plain" else set()
        given = self.model_dump(by_alias=True, exclude=known, exclude_defaults=True)
        if given:
            raise ValueError(f"format {self.format} takes no {next(iter(given))}")

    def _refuse_what_needs_a_schema(self) -> None:
        if self.format != "json":
            raise ValueError("give either subject or schema, and only one of them")
        if self.framing == "confluent":
            raise ValueError("framing confluent needs a subject, whose ids come first, or a schema")
        if self.fields is not None:
            raise ValueError("fields are chosen of a schema's; give subject or schema")
        if self.envelope is not None:
            raise ValueError("an envelope is read by its schema; give subject, schema or framing")


def _safe_template(value: str) -> str:
    safe_uri(value.replace(TYPE, "type"))
    return value


def _known_columns(value: list[str]) -> list[str]:
    allowed = ("event_date", "topic_id", "generation", "topic", "partition")
    if not set(value).issubset(allowed):
        raise ValueError(f"allowed: {', '.join(allowed)}")
    return value


class DecodedTable(Section):
    """Where the typed rows go."""

    uri: Annotated[str, AfterValidator(_safe_template)] = Field(
        default_factory=str,  # until `Decode.with_default_uris` has filled it in
        description="Absolute path, or file://, s3a://, abfss:// or gs:// address of the Delta"
        " table. Default: <table.uri>_decoded. With value.types {type} stands for the type's name,"
        " and the default is <table.uri>_{type}",
    )
    partition_by: Annotated[
        list[ColumnName], AfterValidator(_known_columns), each_once("each column once")
    ] = Field(
        default_factory=list,
        description="Partition columns, in order: event_date, topic_id, generation, topic,"
        " partition.",
    )
    own_columns: Annotated[list[OwnColumn], each_once("each column once")] = Field(
        list(KEPT_BY_DEFAULT),
        description="Columns of the table's own that it gets beside the coordinates. Default with"
        f" value.envelope: also {', '.join(OF_ENVELOPE)}.",
    )


class Quarantine(Section):
    """Where records go that cannot be decoded."""

    uri: Address = Field(
        default_factory=str,  # until `Decode.with_default_uris` has filled it in
        description="Absolute path, or file://, s3a://, abfss:// or gs:// address of the Delta"
        " table. Default: <table.uri>_quarantine",
    )
    max_share: float = Field(
        0.05,
        ge=0,
        le=1,
        strict=True,
        description="A larger share of a run's records halts the decoding.",
    )


class OnSchema(Section):
    """What happens when schemas change."""

    new_field: Literal["add_column", "halt"] = Field(
        "add_column", description="A schema has a field that the table has no column for."
    )
    most_new_fields: int = Field(
        100,
        ge=1,
        le=10_000,
        strict=True,
        description="How many fields schemas that records bring, or name, may add at a time, those"
        " inside of others counted, and long names once more for each further 250 characters; of a"
        " table without columns, ten times as many. More halt.",
    )
    incompatible: Literal["halt", "quarantine"] = Field(
        "halt", description="A schema does not fit the table's columns."
    )
    unknown_id: Literal["quarantine", "halt"] = Field(
        "quarantine", description="A record names a schema that the registry does not know."
    )


class EventTime(Section):
    """The column `event_date`: the day of a field, or of Kafka's time."""

    field: str | None = Field(
        None, min_length=1, description="A field with a time; without one, Kafka's time."
    )
    earliest: Day = Field(date(2020, 1, 1), description="First day of the window.")
    latest_ahead_seconds: Seconds = Field(
        86_400, description="The window's end, from the time of the run."
    )
    outside: Literal["quarantine", "catch_all"] = Field(
        "quarantine", description="catch_all: the row gets no event_date."
    )


_MOST_LENIENT = 1000
_OnValue = Literal["null", "quarantine"]
OnValue = Annotated[
    _OnValue,
    BeforeValidator(
        lambda value: "null" if value is None else value,  # as YAML reads that word
        json_schema_input_type=_OnValue | None,
    ),
]
ColumnOfTable = Annotated[str, Field(min_length=1, max_length=1000)]


class Decode(Section):
    """Typed tables from the raw one."""

    value: Part = Part()
    key: Part = Part()
    table: DecodedTable = Field(default_factory=DecodedTable)
    quarantine: Quarantine = Field(default_factory=Quarantine)
    on_schema: OnSchema = OnSchema()
    on_value: dict[ColumnOfTable, OnValue] = Field(
        default_factory=dict,
        max_length=_MOST_LENIENT,
        description="By column of the values: what becomes of a value that it cannot hold. null:"
        f" the column is null, and {INVALID} names it. quarantine: the record goes there, as it"
        " does for every column that is not listed.",
    )
    event_time: EventTime | None = None
    tombstones: Literal["keep", "drop"] = Field(
        "keep", description="keep: a row whose fields are null, is_tombstone true."
    )
    expect: Expectations = Field(
        default_factory=list,
        max_length=_MOST_RULES,
        description="What rows are expected to meet. Tombstones and deletes are not asked.",
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

    @property
    def own_columns(self) -> tuple[OwnColumn, ...]:
        """Which columns of its own the typed table gets, of those that one may choose."""
        given = "own_columns" in self.table.model_fields_set or self.value.envelope is None
        return tuple(self.table.own_columns) if given else (*KEPT_BY_DEFAULT, *OF_ENVELOPE)

    @property
    def types(self) -> tuple[EventType, ...]:
        """The event types that have a typed table each; none where there is one for all."""
        return tuple(self.value.types or ())

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects, and patterns of such, that the section names; all of one context."""
        named = (self.value.subject, self.key.subject, *(t.subject for t in self.types))
        return tuple(subject for subject in named if subject is not None)

    @property
    def addresses(self) -> dict[str, str]:
        """Addresses of the typed tables by event type; of the only one by ""."""
        return {t.type: self.table.uri.replace(TYPE, t.type) for t in self.types} or {
            "": self.table.uri
        }

    def of_type(self, name: str) -> Decode:
        """The section as if there were one event type only; of "" the section itself."""
        if not self.types:
            return self
        one = next(t for t in self.types if t.type == name)
        subject = one.subject or self.value.subject or "*"
        message = (
            one.record
            if self.value.format == "protobuf" and "*" not in (one.record or "*")
            else None
        )
        value = {"types": None, "subject": subject, "fields": one.fields, "message": message}
        table = self.table.model_copy(update={"uri": self.addresses[name]})
        return self.model_copy(
            update={
                "value": self.value.model_copy(update=value),
                "table": table,
                "expect": one.expect,
            }
        )

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """What rows are expected to meet, for a plan."""
        return tuple(Expectation(e.name, e.sql, e.on_fail, e.on_null) for e in self.expect)

    @property
    def lenient(self) -> tuple[str, ...]:
        """Columns that are null where they cannot hold what a record has there."""
        return tuple(name for name, choice in self.on_value.items() if choice == "null")

    @whole(mode="after")
    def _fits_together(self) -> Decode:
        own = self.own_columns
        self._refuse_parts_apart()
        self._refuse_beside_types()
        self._refuse_lenient()
        if self.value.envelope is None and (strange := [n for n in own if n in OF_ENVELOPE]):
            raise ValueError(
                f"table.own_columns names {strange[0]}, which needs value.envelope: debezium"
            )
        if self.tombstones == "keep" and "is_tombstone" not in own:
            raise ValueError("table.own_columns lacks is_tombstone, which tombstones: keep needs")
        if "topic" in self.table.partition_by and "topic" not in own:
            raise ValueError("table.own_columns lacks topic, which table.partition_by names")
        for value in (self.value.listed, *(_listed(t.fields) for t in self.types)):
            listed = [f.column for f in (*value, *self.key.listed)]
            # in lower case: Delta and Spark take `a` and `A` for one column
            names = [without_case(name) for name in listed if name is not None]
            if twice := given_twice(names):
                raise ValueError(f"value.fields and key.fields both have a column {twice[0]}")
        if self.value.format == "none" and self.key.format == "none":
            raise ValueError("value and key both have format none: nothing is decoded")
        if "event_date" in self.table.partition_by and self.event_time is None:
            raise ValueError("table.partition_by names event_date, which needs event_time")
        return self

    def _refuse_beside_types(self) -> None:
        if not self.types:
            if TYPE in self.table.uri:
                raise ValueError(f"table.uri: {TYPE} is for value.types")
            return
        if self.table.uri and TYPE not in self.table.uri:
            raise ValueError(f"table.uri needs {TYPE}: each of value.types has a table of its own")
        if self.tombstones == "keep":
            raise ValueError(
                "tombstones: keep does not go with value.types: a record without a value names no"
                " type. Give tombstones: drop"
            )
        if self.expect:
            raise ValueError("expect does not go with value.types: give expect to each type")
        for name in ("transform", "on_value"):
            if getattr(self, name):
                raise ValueError(f"{name} does not go with value.types")

    def _refuse_parts_apart(self) -> None:
        for name in ("envelope", "unavailable_value", "null_values", "types"):
            if getattr(self.key, name):
                raise ValueError(f"{name} is for value, not for key")
        if self.value.null_values and self.tombstones == "drop":
            raise ValueError("value.null_values needs tombstones: keep")
        if len({context_of(subject) for subject in self.subjects}) > 1:
            raise ValueError(
                "the subjects of value and key are of two contexts of the registry, and each has"
                " ids of its own: give subjects of one context"
            )

    def _refuse_lenient(self) -> None:
        if not self.on_value:
            return
        if self.value.format == "none" or self.value.format in SINGLE_VALUES:
            raise ValueError(f"value.format {self.value.format} takes no on_value")
        if self.event_time is not None and self.event_time.field in self.lenient:
            raise ValueError(
                f"on_value.{self.event_time.field} cannot be null: event_time.field names that"
                " column, and event_time.outside says what becomes of a record without a day"
            )
        names = [f.column for part in (self.value, self.key) for f in part.listed]
        if self.lenient and INVALID in [without_case(name) for name in names if name is not None]:
            raise ValueError(f"with on_value the table has a column {INVALID} of its own")

    def with_default_uris(self, raw: str) -> Decode:
        """The same with an address for each table that got none, beside that of the raw table."""
        raw = raw.rstrip("/")
        table = self.table.uri or f"{raw}_{TYPE if self.types else 'decoded'}"
        quarantine = self.quarantine.uri or f"{raw}_quarantine"
        return self.model_copy(
            update={
                "table": self.table.model_copy(update={"uri": table}),
                "quarantine": self.quarantine.model_copy(update={"uri": quarantine}),
            }
        )

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

    compact_below_mb: Megabytes = Field(64, description="Data files below this size are merged.")
    target_mb: Megabytes = Field(256, description="Size of merged files.")
    vacuum_hours: int = Field(
        168,
        ge=1,
        le=TEN_YEARS // 3600,
        strict=True,
        description="Files that no version needs any more are kept so long.",
    )
    quarantine_days: int | None = Field(
        None,
        ge=1,
        le=36_500,
        strict=True,
        description="Quarantined rows are removed so long after they were decoded; never without.",
    )

    @whole(mode="after")
    def _grows(self) -> Maintenance:
        # merged files would be merged again and again
        if self.compact_below_mb > self.target_mb:
            raise ValueError("compact_below_mb is above target_mb")
        return self
