"""Which columns the schemas of a part make, and what its records are read as. Pure.

The previous reader is history: its columns keep name, type and order, whatever became of their
fields. New fields come behind them. Schemas are merged in the order of their ids; a table's first
ones are merged newest first instead where fewer of them are left out then, as with a field that
was an int and became a double.

Where the stream file lists fields, the others are left out of every schema before it is merged:
they neither make columns nor fail to fit. Fields that were listed once stay known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tideline.decoding.schemas.avro import (
    avro_defaults,
    avro_for_decoder,
    avro_may_be_null,
    avro_shape,
    avro_text,
    read_avro,
)
from tideline.decoding.schemas.connect_json import (
    connect_defaults,
    connect_may_be_null,
    connect_shape,
)
from tideline.decoding.schemas.envelope import (
    as_texts,
    envelope_paths,
    refuse_no_event,
    row_choices,
)
from tideline.decoding.schemas.joining import Joiner, Path, described
from tideline.decoding.schemas.json_schema import (
    json_may_be_null,
    json_shape,
    json_text,
    read_json,
)
from tideline.decoding.schemas.protobuf import (
    protobuf_for_decoder,
    protobuf_of_decoder,
    protobuf_shape,
    protobuf_text,
    read_protobuf,
)
from tideline.decoding.schemas.schema_changes import (
    Change,
    Incompatible,
    MergedSchemas,
    NewField,
    Unusable,
)
from tideline.decoding.schemas.selecting import (
    Naming,
    chain_to,
    columns_so_far,
    is_inside,
    leads_to,
    listed_columns,
    name_of,
    paths_in,
    selected,
)
from tideline.decoding.schemas.shapes import Record, Scalar, Shape, column_type
from tideline.model.decoding import (
    INVALID,
    OF_ENVELOPE,
    OWN_COLUMNS,
    SINGLE_VALUES,
    UNAVAILABLE,
    ColumnSource,
    FieldChoice,
    PartPlan,
    ReaderSchema,
    RecordPart,
    SchemaUnusable,
    WriterSchema,
    without_case,
)

_MALFORMED = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a schema raises that has another form than anybody thought of."""


@dataclass(frozen=True, slots=True)
class _Language:
    """How one format's schemas are read and written.

    Args:
        shape: Writer schema, the table's shape if there is one, the paths of the fields that are
            asked for (None for all) -> shape.
        read: The reader's text -> shape.
        text: Shape -> the reader's text.
        for_decoder: Writer schema and reader -> the text that the decoder is given.
        may_be_null: Whether a whole value may be null by a writer's text.
        one_case: Whether the decoder takes names that differ only in case for the same.
    """

    shape: Callable[[WriterSchema, Record | None, Collection[str] | None], Record]
    read: Callable[[str], Record]
    text: Callable[[Record], str]
    for_decoder: Callable[[WriterSchema, Record], str]
    may_be_null: Callable[[str], bool]
    one_case: bool


@dataclass(frozen=True, slots=True)
class Protobuf:
    """What Protobuf needs beside the schemas' texts.

    Args:
        compiled: Protoc's set of a schema's files, imports first; it raises `SchemaUnusable`.
        message: The message's full name, if somebody has said it.
    """

    compiled: Callable[[WriterSchema], bytes]
    message: str | None = None


_LANGUAGES = {
    "avro": _Language(
        lambda w, _, listed: avro_shape(w.text, listed),
        read_avro,
        avro_text,
        lambda w, known: avro_for_decoder(w.text, known),
        avro_may_be_null,
        one_case=True,
    ),
    "json": _Language(
        lambda w, _, listed: json_shape(w.text, listed),
        read_json,
        json_text,
        lambda w, _: w.text,
        json_may_be_null,
        one_case=False,
    ),
    "connect": _Language(
        lambda w, _, listed: connect_shape(w.text, listed),
        read_json,
        json_text,
        lambda w, _: w.text,
        connect_may_be_null,
        one_case=False,
    ),
}
_LANGUAGES |= dict.fromkeys(SINGLE_VALUES, _LANGUAGES["avro"])


def _protobuf(by: Protobuf) -> _Language:
    """Protobuf's language."""

    def shape(writer: WriterSchema, known: Record | None, listed: Collection[str] | None) -> Record:
        name = known.name if known else ""
        return protobuf_shape(by.compiled(writer), by.message, name, listed)

    def for_decoder(writer: WriterSchema, known: Record) -> str:
        return protobuf_for_decoder(by.compiled(writer), shape(writer, known, ()).name)

    return _Language(
        shape, read_protobuf, protobuf_text, for_decoder, lambda _: False, one_case=False
    )


def reader_schema(
    part: RecordPart,
    format: str,
    writers: Sequence[WriterSchema],
    previous: ReaderSchema | None,
    reserved: Collection[str] = (),
    fields: Sequence[FieldChoice] = (),
    protobuf: Protobuf | None = None,
    *,
    plain: bool = False,
    envelope: bool = False,
    unavailable: bool = False,
    invalid: bool = False,
) -> MergedSchemas:
    """What a part's records are read as, from the schemas that they were written with.

    Args:
        part: Key or value.
        format: `avro`, `json`, `connect` (its JSON) or `protobuf`.
        writers: Schemas that are known, in any order.
        previous: What the part was last read as; None before its first plan.
        reserved: Names that its new columns cannot have: the table's other columns. The names of
            `OWN_COLUMNS` are reserved anyway.
        fields: The fields that become columns; empty for every field.
        protobuf: Only for that format.
        plain: Whether new columns take no notice of Connect's logical types.
        envelope: Whether records are change events, and the row's fields become columns.
        unavailable: Whether a column of the table's own names values that did not come.
        invalid: Whether one names values that their columns could not hold.
    """
    ordered = sorted(writers, key=lambda w: (w.schema_id, w.digest))
    more_own = {UNAVAILABLE: unavailable, INVALID: invalid}
    own = (*OWN_COLUMNS, *(name for name, is_there in more_own.items() if is_there))
    naming = Naming(part == "key", (*own, *OF_ENVELOPE) if envelope else own, bare=int(envelope))
    more = (previous, reserved, fields, protobuf, naming)
    merging = _Merging(part, format, ordered, *more, plain=plain)
    if previous is None and merging.misfits:
        other = _Merging(part, format, ordered[::-1], *more, plain=plain)
        if other.misfits < merging.misfits:
            merging = other
    return merging.merged()


def paths_of(format: str, writers: Iterable[WriterSchema]) -> tuple[str, ...]:
    """The paths of all fields that some schemas have, each once.

    Args:
        format: As in `reader_schema`.
        writers: Those of a `PartPlan`.
    """
    if format == "protobuf":
        shapes = [protobuf_of_decoder(writer.text) for writer in writers]
    else:
        shapes = [_LANGUAGES[format].shape(writer, None, ()) for writer in writers]
    return tuple(dict.fromkeys(path for shape in shapes for path in paths_in(shape)))


def wrapped_column(reader: ReaderSchema) -> str | None:
    """The column that is a whole value, where records are no records of fields; else None."""
    if reader.format == "protobuf" or not reader.text:
        return None
    is_wrapped = _LANGUAGES[reader.format].read(reader.text).wrapped
    return reader.columns[0].name if is_wrapped and reader.columns else None


def nullable_writers(part: PartPlan) -> tuple[int, ...]:
    """Ids of the writers by whose schemas a whole value may be null."""
    if part.format == "protobuf":
        return ()
    may_be_null = _LANGUAGES[part.language].may_be_null
    return tuple(w.schema_id for w in part.writers if may_be_null(w.text))


def written_defaults(part: PartPlan, inside: Sequence[str]) -> dict[str, list[object]]:
    """The defaults of fields, as the writers' schemas have them, by the fields' names.

    Args:
        part: Of Connect's JSON, or Avro; other schemas say nothing of a database's defaults.
        inside: The records that lead to the fields, outermost first.
    """
    if part.language not in ("connect", "avro"):
        return {}
    read = connect_defaults if part.language == "connect" else avro_defaults
    found: dict[str, list[object]] = {}
    for writer in part.writers:
        for name, default in read(writer.text, inside).items():
            known = found.setdefault(name, [])
            known += [] if default in known else [default]
    return found


def writers_without(part: PartPlan, field: str) -> tuple[int, ...]:
    """Ids of the writers whose records have no such outermost field.

    Args:
        part: Of the formats that have envelopes: avro and json.
    """
    language = _LANGUAGES[part.language]
    shapes = ((w.schema_id, language.shape(w, None, ())) for w in part.writers)
    return tuple(n for n, shape in shapes if field not in [f.name for f in shape.fields])


class _Merging:
    """One way through the schemas."""

    def __init__(
        self,
        part: RecordPart,
        format: str,
        writers: Sequence[WriterSchema],
        previous: ReaderSchema | None,
        reserved: Collection[str],
        choices: Sequence[FieldChoice],
        protobuf: Protobuf | None,
        naming: Naming,
        *,
        plain: bool,
    ) -> None:
        self.plain = plain
        self.part: RecordPart = part
        self.format = format
        self.writers = writers
        self.previous = previous
        self.reserved = reserved
        self.choices = choices
        self.language = _protobuf(protobuf) if protobuf else _LANGUAGES[format]
        self.naming = naming
        self.is_envelope = naming.bare > 0
        self.paths = [choice.path for choice in choices]
        if self.is_envelope:
            self.paths = envelope_paths(choices)
        history = (previous.history or previous.text) if previous else None
        self.known = self._read(self.language.read(history)) if history is not None else None
        self.left_out: list[Incompatible | Unusable] = []
        self.fitting: list[WriterSchema] = []
        self.added: list[tuple[str, Path, Shape]] = []
        self.kept: list[str] = []
        left = list(writers)
        while left:  # a schema may fit what a later one has made wider
            self.left_out = []
            before = len(self.fitting)
            for writer in left:
                self._merge(writer)
            if len(self.fitting) == before:
                break
            left = [w for w in left if w not in self.fitting]
        self._leave_out_unread()

    def _leave_out_unread(self) -> None:
        """Leave out schemas that name no field of objects that may have any.

        Such a document has a row while the table has no columns. Beside columns that other schemas
        bring, that row would hold nulls, whatever the document says.
        """
        if self.format != "json" or self.paths or not self.known or not self.known.fields:
            return
        for writer in () if self.known.wrapped else tuple(self.fitting):
            shape = self._shape(writer)
            if not (shape.fields or shape.wrapped or shape.closed):
                reason = "it names no field, and the table has columns: none would be filled"
                more = ("", reason, writer.text)
                self.left_out.append(Unusable(writer.known_as, writer.schema_id, *more))
                self.fitting.remove(writer)

    @property
    def misfits(self) -> int:
        """How many schemas are left out."""
        return len(self.writers) - len(self.fitting)

    def _merge(self, writer: WriterSchema) -> None:
        try:
            shape = self._shape(writer)
            if self.is_envelope:
                refuse_no_event(shape)
                shape = self._read(shape)
        except SchemaUnusable as found:
            self.left_out.append(
                Unusable(writer.known_as, writer.schema_id, found.field, found.reason, writer.text)
            )
            return
        known = replace(shape, fields=()) if self.known is None else self.known
        if not known.fields:  # so far no value of any kind has come
            known = replace(known, wrapped=shape.wrapped)
        if known.wrapped != shape.wrapped and known.fields and shape.fields:
            self.left_out.append(self._no_record(writer, known, shape))
            return
        joiner = Joiner(writer.known_as, self.language.one_case, self.plain)
        wanted = selected(shape, self.paths, known) if self.paths else shape
        joined = joiner.record(known, wanted)
        for misfit in joiner.misfits:
            self.left_out.append(
                Incompatible(
                    writer.known_as,
                    writer.schema_id,
                    ".".join(misfit.path),
                    misfit.reason,
                    described(misfit.known),
                    described(misfit.found),
                    misfit.since,
                    self._text_of(misfit.since),
                    writer.text,
                )
            )
        if not joiner.misfits:
            self.known = joined
            self.fitting.append(writer)
            self.kept += [".".join(path) for path in joiner.kept]
            self.added += [(writer.known_as, path, shape) for path, shape in joiner.added]

    def _shape(self, writer: WriterSchema) -> Record:
        """What a schema's records hold; whoever registers schemas decides what is in them."""
        try:
            return self.language.shape(writer, self.known, self.paths or None)
        except SchemaUnusable:
            raise
        except _MALFORMED as error:
            raise SchemaUnusable("", f"malformed: {type(error).__name__}: {error}") from error

    def _read(self, shape: Record) -> Record:
        """What a record is read as: of an event, what it says of itself as texts."""
        if not self.is_envelope:
            return shape
        return as_texts(shape, Scalar("string" if self.format == "avro" else "text"))

    def _no_record(self, writer: WriterSchema, known: Record, shape: Record) -> Incompatible:
        since = known.fields[0].since
        names = ["single values" if r.wrapped else "records" for r in (known, shape)]
        return Incompatible(
            writer.known_as,
            writer.schema_id,
            "",
            f"the table holds {names[0]}, the schema is of {names[1]}",
            names[0],
            names[1],
            since,
            self._text_of(since),
            writer.text,
        )

    def _text_of(self, since: str) -> str:
        """The schema that brought a field, or else the previous reader."""
        texts = {w.known_as: w.text for w in self.writers}
        return texts.get(since, self.previous.text if self.previous else "")

    def merged(self) -> MergedSchemas:
        """What the way through the schemas came to."""
        known = self.known or Record(())
        decoded, refused = known, tuple[str, ...]()
        if self.paths:  # whether other fields are forbidden is nothing to it
            decoded = replace(selected(known, self.paths), closed=False)
        columns = self._columns(decoded)
        reader = ReaderSchema(self.part, self.format, self.language.text(decoded), columns)
        so_far = columns_so_far(self.previous)
        if self.paths:
            sources = {c.field: c.name for c in columns}
            choices = row_choices(decoded, self.choices) if self.is_envelope else self.choices
            more = (sources, so_far, self.reserved, self.naming)
            listed = listed_columns(choices, decoded, *more)
            refused = listed.refused
            history = self.language.text(known)
            reader = replace(reader, listed=listed.columns, history=history)
        filled = {c.name for c in reader.in_table}
        dropped = {c.name: c for c in so_far if c.name not in filled}
        reader = replace(reader, dropped=tuple(dropped.values()))
        fitting = sorted(self.fitting, key=lambda w: w.schema_id)
        new = self._new_fields(reader, decoded)
        return MergedSchemas(
            reader,
            tuple(replace(w, text=self.language.for_decoder(w, decoded)) for w in fitting),
            tuple(sorted((*new, *self.left_out), key=self._place)),
            refused,
            tuple(dict.fromkeys(self.kept)),
        )

    def _columns(self, decoded: Record) -> tuple[ColumnSource, ...]:
        """What the format makes; the table's own names and columns where no fields are listed."""
        so_far = () if self.paths else columns_so_far(self.previous)
        reserved = () if self.paths else self.reserved
        taken = {without_case(n) for n in (*reserved, *(c.name for c in so_far))}
        columns = []
        for field in decoded.fields:
            name = name_of((field,), field.name, so_far, taken, replace(self.naming, bare=0))
            taken.add(without_case(name))
            columns.append(ColumnSource(name, field.name, column_type(field.shape)))
        return tuple(columns)

    def _new_fields(self, reader: ReaderSchema, decoded: Record) -> list[NewField]:
        """Of listed fields, what is new inside of them: they themselves were asked for.

        Nobody has asked for a field of an event's row, unless some are listed.
        """
        if self.previous is None:
            return []
        names = {c.field: c.name for c in reader.columns}
        chains = [(c.name, chain_to(decoded, c.field)) for c in reader.listed or ()]
        found = []
        for schema, path, shape in self.added:
            name = names.get(path[0], "")
            if reader.listed is not None:
                asked = not self.is_envelope or self.choices
                inside = (
                    column
                    for column, chain in chains
                    if is_inside(path, chain) or (not asked and leads_to(path, chain))
                )
                name = next(inside, "")
            if name:
                found.append(NewField(schema, ".".join(path), name, column_type(shape)))
        return found

    def _place(self, change: Change) -> int:
        return next(i for i, w in enumerate(self.writers) if w.known_as == change.schema)
