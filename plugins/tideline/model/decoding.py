"""What decoding freezes, and what the ledger knows of it.

WriterSchema    a schema that records were written with, by its id in the registry
ReaderSchema    columns of the typed table, and what gives them their values
DecodePlan      the frozen input of one decoding: coordinates, raw version, schemas
DecodeRecord    that plan, and how many rows of each partition became what
Decoding        the decoding's own head: what is decoded, the plan that is open, the schemas
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime
from hashlib import sha256
from itertools import count
from typing import Any, Literal, get_args

from tideline.model.incident import Incident, Notice
from tideline.model.offsets import CoordinateRange
from tideline.model.places import NOWHERE, Places
from tideline.model.wording import first_few

RecordPart = Literal["key", "value"]
ErrorClass = Literal[
    "framing",
    "unknown_schema",
    "wrong_subject",
    "malformed",
    "too_large",
    "trailing_bytes",
    "invalid_utf8",
    "duplicate_field",
    "type_mismatch",
    "out_of_range",
    "event_time",
    "transform",
    "no_change",
    "expectation",
    "other_type",
]
PLAIN_ID = -1
"""Stands for the id of the one schema of records that carry none."""

_OWN_IDS = 2**30
"""So many ids, from -2 downwards, are no registry's."""


def free_id(text: str, taken: Collection[int]) -> int:
    """An id for a schema that records bring themselves: negative, so it is never a registry's.

    The same text gets the same one wherever it can. Whoever writes records may have built two texts
    that would have one; so it stands for a text only where the ledger says so.

    Args:
        text: The schema's.
        taken: Ids that stand for other schemas.
    """
    first = int.from_bytes(sha256(text.encode()).digest()[:8])
    return next(i for n in count(first) if (i := -2 - n % _OWN_IDS) not in taken)


NO_CHANGE: ErrorClass = "no_change"
"""Of an envelope that tells no change of a row: it is set aside, and no fault."""
OTHER_TYPE: ErrorClass = "other_type"
"""Of an event type that the stream file does not name: it is set aside, and no fault."""
NO_FAULT: tuple[ErrorClass, ...] = (NO_CHANGE, OTHER_TYPE)
"""Neither `max_share` counts them, nor does an alert tell of them."""
OTHER_TYPES = "*"
"""Type of the part that knows the ids which no event type claims; no type is called so."""
QUARANTINE = "quarantine"
SINGLE_VALUES = {
    "text": '"string"',
    "long": '"long"',
    "int": '"int"',
    "short": '"int"',
    "float": '"float"',
    "double": '"double"',
    "uuid": '"string"',
    "bytes": '"bytes"',
}
"""Formats that are no documents -> the schema that stands for each, in Avro's words."""

OwnColumn = Literal[
    "topic",
    "timestamp",
    "is_tombstone",
    "schema_id",
    "headers",
    "op",
    "source_timestamp",
    "snapshot",
    "transaction_id",
    "source_position",
]
"""The table's own columns that one may keep or drop, in the table's order."""
CHOOSABLE: tuple[str, ...] = get_args(OwnColumn)
KEPT_BY_DEFAULT: tuple[OwnColumn, ...] = ("topic", "timestamp", "is_tombstone", "schema_id")
OF_ENVELOPE: tuple[OwnColumn, ...] = (
    "op",
    "source_timestamp",
    "snapshot",
    "transaction_id",
    "source_position",
)
"""What a change event says of itself; only tables of envelopes have these, and by default all."""
UNAVAILABLE = "unavailable_columns"
"""Names the columns whose value a change did not bring; each table has it that may lack some."""
INVALID = "invalid_columns"
"""Names the columns that could not hold what the record has there (`decode.on_value`)."""
OWN_COLUMNS = (
    "topic_id",
    "generation",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "is_tombstone",
    "schema_id",
    "headers",
    "event_date",
    "decode_plan_id",
)
"""Columns of the typed table that no field gives its value. Their names are reserved, whether the
table has them or not: it may get them later."""


def without_case(name: str) -> str:
    """A name such that two are equal where Spark takes them for one column.

    Java's `equalsIgnoreCase`, which Spark's resolver uses, compares upper and then lower case of
    each character: so the long s is an s, and a micro sign a mu, which `lower` tells apart.
    """
    return "".join(map(_without_case, name))


def _without_case(character: str) -> str:
    upper = character.upper()
    upper = upper if len(upper) == 1 else character  # Java maps one character to one
    lower = upper.lower()
    return lower if len(lower) == 1 else lower[0]  # of the dotted I


@dataclass(frozen=True, slots=True)
class FieldChoice:
    """A field that becomes a column, as a stream file names it.

    Args:
        path: The field's name in the records, with dots between it and the records that it is in.
        column: The column's name; None for the one that is made of the path.
    """

    path: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column of the typed table that a field, at any depth, gives its value.

    Args:
        name: The column's name.
        field: The field's path, as in `FieldChoice`.
        steps: How to reach it in what the format decodes: the name of one of its columns, then
            names of nested fields, as tables have them.
        type: As in `ColumnSource`.
        is_given: Whether the stream file gives the name.
    """

    name: str
    field: str
    steps: tuple[str, ...]
    type: object
    is_given: bool = False


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A schema that records were written with.

    Args:
        schema_id: Its id in the registry; `PLAIN_ID` for records that carry no id, and of the
            ledger's own (`free_id`) where they bring the schema.
        text: The schema itself, in its own language; references are part of it already. In a
            plan, it is what the decoder is given.
        digest: SHA-256 of the text, in hex.
        known_as: `SUBJECT:VERSION` in the registry, or the schema file's name.
        references: Protobuf's imports: name and text of each file, whoever needs it first.
        schema_type: `avro`, `json` or `protobuf`, as the registry says; empty for a schema file.
    """

    schema_id: int
    text: str
    digest: str
    known_as: str = ""
    references: tuple[tuple[str, str], ...] = ()
    schema_type: str = ""

    def says_the_same(self, other: WriterSchema) -> bool:
        """Whether records decode alike with another one, by whatever name it is known."""
        mine, theirs = ((s.schema_type, s.text, s.references) for s in (self, other))
        return mine == theirs


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """One column that a format makes of an outermost field.

    It is one of the typed table's, unless the stream file lists fields (`ReaderSchema.listed`).

    Args:
        name: The column's name.
        field: The field's name in the record.
        type: The column's type as Delta and Spark write it in JSON: `"long"`, or
            `{"type": "struct", "fields": [...]}`.
    """

    name: str
    field: str
    type: object


@dataclass(frozen=True, slots=True)
class ReaderSchema:
    """What one part of a record is read as.

    Args:
        part: Key or value.
        format: `avro`, `json` or `protobuf`.
        text: What the decoder is given: a merged Avro schema, a JSON Schema, or the merged fields
            of Protobuf's messages.
        columns: What the format makes, in order.
        listed: The table's columns, where the stream file lists fields; None where `columns` are.
        dropped: Columns that the table has got from fields which are listed no more.
        history: As `text`, of every field that ever had a column; empty where that is `text`.
    """

    part: RecordPart
    format: str
    text: str
    columns: tuple[ColumnSource, ...]
    listed: tuple[TypedColumn, ...] | None = None
    dropped: tuple[TypedColumn, ...] = ()
    history: str = ""

    @property
    def in_table(self) -> tuple[TypedColumn, ...]:
        """The columns of the typed table that records fill, in order."""
        if self.listed is not None:
            return self.listed
        return tuple(TypedColumn(c.name, c.field, (c.name,), c.type) for c in self.columns)

    @property
    def size(self) -> int:
        """How many fields the table has of it, those inside of others counted.

        A name counts as one more for each further 250 characters: names are kept for good.
        """
        return sum(_weight(c.name) + _fields_in(c.type) for c in self.in_table)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the part has in the table, those of dropped columns included."""
        return tuple(c.name for c in (*self.in_table, *self.dropped))


_NAME = 250


def _weight(name: str) -> int:
    return 1 + len(name) // _NAME


def _fields_in(kind: Any) -> int:
    if isinstance(kind, dict) and kind["type"] == "struct":
        return sum(_weight(field["name"]) + _fields_in(field["type"]) for field in kind["fields"])
    return sum(map(_fields_in, kind.values())) if isinstance(kind, dict) else 0


DECODER_FORM = 2
"""With 1 a root that is a record or null was a single value, no default was told, and 1.0 was no
integer of a JSON Schema."""


@dataclass(frozen=True, slots=True)
class PartPlan:
    """How one part of the records is decoded.

    Args:
        part: Key or value.
        format: `avro`, `json` or `protobuf`.
        framing: `confluent`, `plain`, or `connect`: records bring their schema.
        subject: Which subject the ids have to belong to; None where a file is the schema.
        writers: The schemas that the records were written with, as far as anybody knows them.
        unknown: Ids that the registry does not know: their records go into quarantine.
        foreign: Ids of schemas that belong to other subjects: so do theirs (`wrong_subject`).
        unfit: Ids of schemas that do not fit the typed table, or cannot be read: so do theirs
            (`type_mismatch`).
        reader: What they are read as.
        message: Protobuf's message; None for the schema's first.
        fields: The fields that become columns; empty for every field.
        envelope: `debezium`: the columns are those of the row that a change event is about.
        unavailable: The text that stands for a value which a change did not bring; None for none.
        unfit_digests: Where records bring their schemas, id and SHA-256 of each in `unfit`.
        unreadable: Those of `unfit` that cannot be read: id and why.
        null_values: Which bytes count as no value: `empty`, `json_null`, `connect_null`.
        lenient: Columns that are null where they cannot hold what a record has there.
        form: Of the writers' texts, as decoders are given them; `DECODER_FORM` today.
        type: The event type whose values they are, where there are several; `OTHER_TYPES` for what
            is said of all of them. Then `subject` and `record` may be patterns.
        record: The full name of its records; None for any.
    """

    part: RecordPart
    format: str
    framing: str
    subject: str | None
    writers: tuple[WriterSchema, ...]
    unknown: tuple[int, ...]
    foreign: tuple[int, ...]
    reader: ReaderSchema
    message: str | None = None
    unfit: tuple[int, ...] = ()
    fields: tuple[FieldChoice, ...] = ()
    envelope: str | None = None
    unavailable: str | None = None
    unfit_digests: tuple[tuple[int, str], ...] = ()
    unreadable: tuple[tuple[int, str], ...] = ()
    null_values: tuple[str, ...] = ()
    lenient: tuple[str, ...] = ()
    form: int = 1
    type: str = ""
    record: str | None = None

    @property
    def claimed(self) -> tuple[int, ...]:
        """Ids of the schemas that are its own, whether they fit or not."""
        return (*(w.schema_id for w in self.writers), *self.unfit)

    @property
    def key(self) -> str:
        """Where the stream file says it."""
        return f"decode.{self.part}.types.{self.type}" if self.type else f"decode.{self.part}"

    @property
    def language(self) -> str:
        """What its schemas are written in: Connect's JSON has one of its own."""
        return "connect" if self.framing == "connect" else self.format


@dataclass(frozen=True, slots=True)
class EventDate:
    """How `event_date` is made.

    Args:
        field: The column with the event's time; None for Kafka's.
        first, last: The window's days, both inclusive.
        outside: `quarantine` or `catch_all`.
    """

    field: str | None
    first: date
    last: date
    outside: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What each row of the typed table is expected to meet.

    Args:
        name: What failing rows are counted under.
        sql: A condition of Spark's over the typed table's columns.
        on_fail: Where it is false: `quarantine` puts the record there, `halt` does so once somebody
            has decided it, `count` only counts.
        on_null: Whether a row of which nobody can tell fails as well: `fail` or `pass`.
    """

    name: str
    sql: str
    on_fail: str
    on_null: str = "fail"


@dataclass(frozen=True, slots=True)
class TypePlan:
    """One event type of several, each with a typed table.

    Args:
        name: The type's.
        table_uri: Where its rows go.
        expect: What they are expected to meet.
    """

    name: str
    table_uri: str
    expect: tuple[Expectation, ...] = ()


AGAIN = ("again",)
_FEW = 10


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """The frozen input of one decoding. Every retry, clear and recovery executes exactly this.

    Args:
        plan_id: Derived from the run that froze it; a column of each row.
        run_id: That run.
        frozen_at: When, UTC-aware.
        raw_table_id: Delta's id of the raw table, when the plan was frozen.
        raw_version: Version of the raw table at that time. The newest one is read: its rows are
            the same, and files of this one may be merged by now.
        ranges: Coordinates whose rows are decoded; ends are exclusive.
        removes: Coordinates whose decoded rows go, since the raw rows have gone.
        parts: The value, the key, or both.
        tombstones: `keep` or `drop`.
        event_date: None without that column.
        transform: `module:function`; None for none.
        max_share: Largest share of records that may go into quarantine.
        table_uri, quarantine_uri: Where the rows go.
        redrives: Error classes whose quarantined records are decoded again; `AGAIN` for all records
            that were decoded; empty for a plan that decodes what was landed.
        own_columns: Which columns of its own the typed table gets, of those that one may choose.
        by: Who has asked for it to be done again; None otherwise.
        expect: What the rows are expected to meet, in the stream file's order.
        left_at: Other tables and quarantines that attempts of this plan may have written to: their
            addresses were edited before it was closed.
        types: The event types, in the order of their commits, where each has a typed table. Then
            `table_uri` and `expect` are empty, and there is a value's part for each.
    """

    plan_id: str
    run_id: str
    frozen_at: datetime
    raw_table_id: str
    raw_version: int
    ranges: tuple[CoordinateRange, ...]
    removes: tuple[CoordinateRange, ...]
    parts: tuple[PartPlan, ...]
    tombstones: str
    event_date: EventDate | None
    transform: str | None
    max_share: float
    table_uri: str
    quarantine_uri: str
    redrives: tuple[str, ...] = ()
    own_columns: tuple[str, ...] = KEPT_BY_DEFAULT
    by: str | None = None
    expect: tuple[Expectation, ...] = ()
    left_at: tuple[tuple[str, str], ...] = ()
    types: tuple[TypePlan, ...] = ()

    @property
    def is_again(self) -> bool:
        """Whether it makes rows anew that were decoded before."""
        return self.redrives == AGAIN

    @property
    def tables(self) -> dict[str, str]:
        """Addresses of the typed tables by event type; of the only one by ""."""
        return {t.name: t.table_uri for t in self.types} or {"": self.table_uri}

    @property
    def rules(self) -> dict[str, Expectation]:
        """What rows are expected to meet, by the name under which failing ones are counted."""
        of_types = {f"{t.name}.{rule.name}": rule for t in self.types for rule in t.expect}
        return of_types or {rule.name: rule for rule in self.expect}

    @property
    def framed(self) -> tuple[PartPlan, ...]:
        """The parts that tell which schema a record has; one for the values of all types."""
        if not self.types:
            return self.parts
        keys = [p for p in self.parts if p.part == "key"]
        values = [p for p in self.parts if p.type == OTHER_TYPES]
        types = [p for p in self.parts if p.type not in ("", OTHER_TYPES)]  # a key's ids are not
        own = {n: _claimed(n) for p in types for n in p.claimed}
        return (*(replace(p, writers=tuple(own.values())) for p in values), *keys)

    def of_type(self, name: str) -> DecodePlan:
        """The plan of the records of one event type, and of its table; of "" the plan itself.

        A type without a schema has no good record, and none of the columns that conditions name.
        """
        if not self.types:
            return self
        one = next(t for t in self.types if t.name == name)
        parts = tuple(p for p in self.parts if p.part == "key" or p.type == name)
        expect = one.expect if any(p.type == name and p.writers for p in parts) else ()
        return replace(self, parts=parts, table_uri=one.table_uri, expect=expect, types=())

    @property
    def has_writers(self) -> bool:
        """Whether records of all parts have come, so that there are columns."""
        return all(part.writers for part in self.parts)

    def without_halts(self) -> DecodePlan:
        """The plan whose expectations halt nothing: what would halt is quarantined."""
        types = tuple(replace(t, expect=_without_halts(t.expect)) for t in self.types)
        return replace(self, expect=_without_halts(self.expect), types=types)


def _claimed(schema_id: int) -> WriterSchema:
    return WriterSchema(schema_id, "", "")


def _without_halts(rules: Iterable[Expectation]) -> tuple[Expectation, ...]:
    halting, to = "halt", "quarantine"
    return tuple(replace(e, on_fail=to) if e.on_fail == halting else e for e in rules)


@dataclass(frozen=True, slots=True)
class DecodedRange:
    """What became of the raw rows of one planned range.

    Args:
        range: The coordinates.
        rows: Raw rows.
        typed: Rows in the typed table, kept tombstones included.
        quarantined: Rows in quarantine.
    """

    range: CoordinateRange
    rows: int
    typed: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class TypeRows:
    """What became of one event type.

    Args:
        name: The type's.
        table_version: Its commit.
        rows: Typed rows.
    """

    name: str
    table_version: int
    rows: int


@dataclass(frozen=True, slots=True)
class DecodeRecord:
    """A plan to decode, and how far it has come.

    Args:
        plan: Frozen.
        status: `planned` until its rows are verified.
        table_version, quarantine_version: Its commits; None where there was nothing to change.
        tombstones: Records without a value, whether their rows are kept or not.
        classes: Quarantined rows by error class.
        ranges: What became of the rows; empty until verified.
        closed_at: When it was verified, UTC-aware.
        failed: Rows that fail each expectation, wherever they went.
        untold: Columns that nobody was told of before in which a null may be an untold value.
        by_type: Of each event type where there are several; `table_version` is the last one's.
    """

    plan: DecodePlan
    status: Literal["planned", "done"] = "planned"
    table_version: int | None = None
    quarantine_version: int | None = None
    tombstones: int = 0
    classes: tuple[tuple[str, int], ...] = ()
    ranges: tuple[DecodedRange, ...] = ()
    closed_at: datetime | None = None
    failed: tuple[tuple[str, int], ...] = ()
    untold: tuple[str, ...] = ()
    by_type: tuple[TypeRows, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What it reports without halting."""
        text = (
            f"a null in {first_few(self.untold, _FEW)} may be a value that did not come: Debezium"
            " writes null for a long value of such a type that an update has left alone, and"
            " updates bring no row as it was before. Next: ALTER TABLE ... REPLICA IDENTITY FULL"
        )
        topic = self.plan.ranges[0].topic if self.plan.ranges else ""
        return (Notice("untold_value", topic, None, text),) if self.untold else ()

    def without(self, gone: Places) -> DecodeRecord | None:
        """The record of the rest of the plan, of which nothing is done yet; None without a rest.

        Args:
            gone: Offsets that are not to be decoded.
        """
        left = gone.rest(self.plan.ranges)
        if left == self.plan.ranges:
            return self
        return DecodeRecord(replace(self.plan, ranges=left)) if left or self.plan.removes else None

    @property
    def decoded(self) -> int:
        """Rows in the typed table that are no tombstones."""
        kept = self.tombstones if self.plan.tombstones == "keep" else 0
        return sum(r.typed for r in self.ranges) - kept

    @property
    def quarantined(self) -> int:
        """Rows in quarantine."""
        return sum(r.quarantined for r in self.ranges)


@dataclass(frozen=True, slots=True)
class Decoding:
    """The decoding's own head, in coordinates. Landing neither reads nor moves it.

    Args:
        coverage: Coordinates whose rows are decoded and verified.
        open: The plan that is under way; whoever decodes next finishes it first.
        parts: How the newest plan decoded the parts; the next one begins with that.
        incidents: What halted decoding, until a decision has been executed.
        table_ids: Delta's ids of the typed tables and, at last, of the quarantine, which hold what
            is decoded; empty before the first decoding.
        undone: Coordinates that a rewind has undone: their decoded rows go before anything else is
            done there, also if raw rows stand there again by then.
        token: The newest fencing token of both tables when a plan was last closed; None if unknown.
        failed: Rows that failed each expectation in the newest decoding.
        told: Columns of which somebody was told that a null there may be an untold value.
        in_quarantine: Rows of the quarantine when something was last done to it; None if unknown.
        types: The event types whose tables the first of `table_ids` are; none for one typed table.
    """

    coverage: Places = NOWHERE
    open: DecodeRecord | None = None
    parts: tuple[PartPlan, ...] = ()
    incidents: tuple[Incident, ...] = ()
    table_ids: tuple[str, ...] = ()
    undone: Places = NOWHERE
    token: int | None = None
    failed: tuple[tuple[str, int], ...] = ()
    told: tuple[str, ...] = ()
    in_quarantine: int | None = None
    types: tuple[str, ...] = ()

    @property
    def known_tables(self) -> dict[str, str]:
        """Delta's ids of the tables by event type, and by `QUARANTINE`; as `table_ids`."""
        names = (*(self.types or ("",)), QUARANTINE) if self.table_ids else ()
        return dict(zip(names, self.table_ids, strict=True))

    def having_undone(self, ranges: Iterable[CoordinateRange]) -> Decoding:
        """The decoding with these coordinates to be undone, as far as they are decoded.

        A plan that is open lets go of them, too, and is executed anew: finished without their raw
        rows, it would call them decoded.
        """
        gone = Places.of(ranges)
        claimed = self.coverage | Places.of(() if self.open is None else self.open.plan.ranges)
        return replace(
            self,
            coverage=self.coverage - gone,
            open=None if self.open is None else self.open.without(gone),
            undone=self.undone | (claimed & gone),
        )

    def part(self, part: RecordPart, type: str = "") -> PartPlan | None:
        """How a part was last decoded, or the values of an event type; None before that."""
        return next((p for p in self.parts if (p.part, p.type) == (part, type)), None)


def context_of(name: str) -> str:
    """Confluent's context that a subject, or a version of one, is of: `.dev` of `:.dev:orders`.

    Every context gives out ids of its own; the default context has no name.
    """
    return name[1:].partition(":")[0] if name.startswith(":.") else ""


class SchemaUnusable(ValueError):
    """A schema that no column can be made of; becomes a finding, never leaves this package.

    Args:
        field: Dotted path of the field; empty for the schema itself.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Redriven:
    """What a redrive came to.

    Args:
        records: One per pass that has moved records into the typed table.
    """

    asked: int
    records: tuple[DecodeRecord, ...]

    @property
    def moved(self) -> int:
        """Records that are in the typed table now."""
        return sum(r.decoded + r.tombstones for r in self.records)


@dataclass(frozen=True, slots=True)
class DecodedAgain:
    """What it came to when records were decoded again.

    Args:
        asked: Offsets that were decoded again.
        changed: Rows of the typed table that are others than before, new or gone.
        quarantine_changed: The same of the quarantine.
        records: One per pass that has changed rows.
    """

    asked: int = 0
    changed: int = 0
    quarantine_changed: int = 0
    records: tuple[DecodeRecord, ...] = ()
