"""A whole stream file: topics of one cluster that land in one table.

What one key may be is checked in its section; here is what the sections say of each other. A check
of the whole file gives the key that it is about as the error's type: `tideline.stream.files` finds
the line by it. Run this module to print the JSON Schema (`make schema`).
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any, Literal
from zoneinfo import available_timezones

from pydantic import Field, ValidationInfo, field_validator
from pydantic import model_validator as whole
from pydantic_core import PydanticCustomError

from tideline.model.addresses import (
    DEFAULT_CONNECTION,
    LedgerKind,
    LedgerLocation,
    account_of,
    is_in_object_store,
    one_inside_the_other,
    store_of,
)
from tideline.model.maintenance import TableRole, role_of
from tideline.stream.current_columns import refused_column
from tideline.stream.current_section import Current
from tideline.stream.decode_section import Decode, Maintenance, Registry
from tideline.stream.landing import DagName, Kafka, Limits, OnReset, Policies, Spark, Start, Table
from tideline.stream.sections import (
    Address,
    AirflowSettings,
    Catalog,
    ConnectionId,
    FileSchema,
    Schedule,
    Seconds,
    Section,
    Trigger,
)


class Stream(Section):
    """One stream file."""

    stream: DagName = Field(description="The stream's name, and the Dag's id.")
    kafka: Kafka
    table: Table
    schedule: Schedule | None = Field(
        None,
        description="Cron expression of five fields, or a preset such as @hourly; without one,"
        " only manual runs.",
    )
    trigger: Trigger | None = None
    timezone: str = Field("UTC", description="Time zone of the schedule.")
    start: Start = Field(
        "earliest",
        description="Where the first run begins; resolved once, later runs ignore it.",
    )
    limits: Limits = Limits()
    on_reset: Policies = Field(
        OnReset(),
        description="The policy for each class of findings: fail, ask a person (approve), or a"
        " decision that is always taken. A single word, fail or approve, is for all classes.",
    )
    on_incident: Literal["halt", "proceed"] = Field(
        "halt", description="With proceed, other partitions continue while an incident is open."
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
        strict=True,
        description="How long a run observes again until two observations agree and no transient"
        " fault is left; then it fails as retriable.",
    )
    headroom_warning_seconds: Seconds = Field(
        3600, description="Warn when headroom is below these seconds; 0: never."
    )
    ledger: LedgerKind = Field(
        "delta", description="Where plans and positions are: a Delta table, or a database."
    )
    ledger_uri: Address | None = Field(
        None, description="Only with ledger: delta. Default: <table.uri>.ledger"
    )
    ledger_connection: ConnectionId | None = Field(
        None, description=f"Only with ledger: airflow. Default: {DEFAULT_CONNECTION}"
    )
    spark: Spark = Spark()
    registry: Registry | None = None
    decode: Decode | None = None
    current: Current | None = None
    catalog: Catalog | None = None
    maintenance: Maintenance = Maintenance()
    airflow: AirflowSettings = AirflowSettings()

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        if value not in available_timezones():
            raise ValueError("not a time zone of the IANA database, for example Europe/Berlin")
        return value

    @field_validator("decode", "current")
    @classmethod
    def _tables_beside_the_raw_one(
        cls, value: Decode | Current | None, info: ValidationInfo
    ) -> Decode | Current | None:
        raw = info.data.get("table")  # absent where it is refused, and so the whole file
        return value if value is None or raw is None else value.with_default_uris(raw.uri)

    @whole(mode="after")
    def _can_be_folded(self) -> Stream:
        if self.current is None:
            return self
        topics = len(self.kafka.topics) if self.kafka.topic_pattern is None else None
        if (what := self.current.lacking(self.decode, topics)) is not None:
            raise PydanticCustomError("current", "{what}", {"what": what})
        if (refused := refused_column(self.current, self.source)) is not None:
            key: Any = refused.key
            raise PydanticCustomError(key, "{why}", {"why": refused.why})
        return self

    @whole(mode="after")
    def _one_location_of_the_ledger(self) -> Stream:
        other, key = "airflow", "ledger_connection"
        if self.ledger == "airflow":
            other, key = "delta", "ledger_uri"
        if getattr(self, key) is not None:
            raise PydanticCustomError(
                key,
                "only with ledger: {other}; here ledger is {ledger}",
                {"other": other, "ledger": self.ledger},
            )
        return self

    @whole(mode="after")
    def _tables_apart(self) -> Stream:
        for (one, uri), (other, beside) in combinations(self.addresses.items(), 2):
            if one_inside_the_other(uri, beside):
                is_ledger = other == "ledger_uri"  # which the raw table alone stands before
                raise PydanticCustomError(
                    other.partition(".")[0],
                    "neither {one} nor {other} may lie inside the other",
                    {"one": "ledger", "other": "table"}
                    if is_ledger
                    else {"one": one, "other": other},
                )
        return self

    @whole(mode="after")
    def _lag_beside_a_clock(self) -> Stream:
        if self.trigger is not None and self.schedule is None:
            raise PydanticCustomError(
                "trigger", "needs a schedule beside it, for events that get lost; @daily is enough"
            )
        return self

    @whole(mode="after")
    def _connection_is_for_a_store(self) -> Stream:
        if self.table.connection is not None and not self.store_addresses:
            raise PydanticCustomError(
                "table", "connection: only with addresses in an object store; this stream has none"
            )
        return self

    @whole(mode="after")
    def _one_store(self) -> Stream:
        places = {(store_of(uri), account_of(uri)): uri for uri in self.store_addresses}
        if len(places) > 1:
            one, other, *_ = sorted(places.values())
            raise PydanticCustomError(
                "table",
                "all addresses of a stream are in one kind of store, and one account: they are"
                " reached by one connection; got {one} and {other}",
                {"one": one, "other": other},
            )
        return self

    @whole(mode="after")
    def _schemas_are_somewhere(self) -> Stream:
        if self.decode is None or self.registry is not None:
            return self
        if self.decode.types:
            raise PydanticCustomError("registry", "decode.value.types are told by its ids", {})
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
    def addresses(self) -> dict[str, str]:
        """Address of each table, the ledger's among them, by its key in the file."""
        found = {"table.uri": self.table.uri}
        if self.ledger == "delta":
            found["ledger_uri"] = self.ledger_location.address
        if self.decode is not None:
            for name, uri in self.decode.addresses.items():
                found[f"decode.table.uri of {name}" if name else "decode.table.uri"] = uri
            found["decode.quarantine.uri"] = self.decode.quarantine.uri
        if self.current is not None:
            found["current.table.uri"] = self.current.table.uri
        return found

    @property
    def store_addresses(self) -> tuple[str, ...]:
        """The addresses of this stream that lie in an object store."""
        return tuple(filter(is_in_object_store, self.addresses.values()))

    @property
    def source(self) -> Decode:
        """The section of the typed table that the current table is folded from."""
        assert self.decode is not None
        current = self.current
        return self.decode.of_type(current.type or "" if current is not None else "")

    @property
    def ledger_location(self) -> LedgerLocation:
        """Where the ledger is stored."""
        if self.ledger == "airflow":
            address = self.ledger_connection or DEFAULT_CONNECTION
        else:
            address = self.ledger_uri or f"{self.table.uri.rstrip('/')}.ledger"
        return LedgerLocation(self.ledger, address, self.stream)


def tables_of(stream: Stream) -> dict[TableRole, str]:
    """Address of each table that a stream's rows are in."""
    found: dict[TableRole, str] = {"raw": stream.table.uri}
    if stream.decode is not None:
        found |= {role_of(name): uri for name, uri in stream.decode.addresses.items()}
        found["quarantine"] = stream.decode.quarantine.uri
    if stream.current is not None:
        found["current"] = stream.current.table.uri
    return found


def json_schema_of(model: type[Section]) -> str:
    """The JSON Schema of a file as text that ends with a newline."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(schema_generator=FileSchema),
    }
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(json_schema_of(Stream), end="")
