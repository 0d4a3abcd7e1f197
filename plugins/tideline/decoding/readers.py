"""The schemas that a plan to decode freezes: those that are known, and those that records bring.

A stream file that names fields or columns which are not there is refused here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tideline.decoding.schemas.envelope import in_row, of_row
from tideline.decoding.schemas.json_schema import SCHEMALESS
from tideline.decoding.schemas.merging import Protobuf, paths_of, reader_schema
from tideline.decoding.schemas.schema_changes import MergedSchemas
from tideline.decoding.typed_tables import decoding_halted, may_quarantine
from tideline.errors import BadInput
from tideline.landing.context import RunContext, log
from tideline.model.decoding import (
    DECODER_FORM,
    INVALID,
    OTHER_TYPES,
    PLAIN_ID,
    SINGLE_VALUES,
    DecodePlan,
    Decoding,
    FieldChoice,
    PartPlan,
    ReaderSchema,
    RecordPart,
    WriterSchema,
    context_of,
)
from tideline.model.incident import Finding, decided_incident
from tideline.model.wording import first_few, system_message
from tideline.registry.protobuf_files import compiled_protobuf, imported_files
from tideline.registry.registry_port import RegistryPort, SchemaUnreadable
from tideline.stream.decode_section import Decode, Part
from tideline.texts import one_line

_LONGEST_REASON = 300
_MOST = 40
"""Names in a message."""
_FIRST = 10
"""So many times as many fields may come to a table that has no columns yet."""
_IN_RECORDS = "{}s of Kafka Connect's JSON"
"""Stands for the subject of schemas that a part's records bring themselves."""


def choices_of(part: Part) -> tuple[FieldChoice, ...]:
    """The fields that a part's section lists; none where every field becomes a column."""
    path = of_row if part.envelope is not None else str
    return tuple(FieldChoice(path(f.field), f.column) for f in part.listed)


def refuse_names(run: RunContext, part: PartPlan, refused: Iterable[str]) -> None:
    """Refuse names that listed fields cannot have.

    Raises:
        BadInput: There are some.
    """
    if wrong := tuple(refused):
        raise BadInput(
            f"stream {run.stream.stream}: {part.key}.fields: {'; '.join(wrong)}; give"
            " another name with as. Nothing was decoded"
        )


def has_all_schemas(part: PartPlan) -> bool:
    """Whether no record can bring another schema: it is known which fields there are."""
    return part.framing == "plain" or part.subject is None


def refuse_missing_fields(run: RunContext, parts: Iterable[PartPlan]) -> None:
    """Refuse listed fields that none of the schemas has, as far as they are known.

    Raises:
        BadInput: There is one; names the fields that there are.
    """
    for key, value, allowed in missing_fields(parts):
        raise BadInput(
            f"stream {run.stream.stream}: {key}: got {value!r}; {allowed}. Nothing was decoded"
        )


def missing_fields(parts: Iterable[PartPlan]) -> Iterator[tuple[str, str, str]]:
    """Listed fields that none of the schemas has: key, value and what is allowed."""
    for part in parts:
        there = {column.field for column in part.reader.listed or ()}
        for number, choice in enumerate(part.fields):
            if choice.path not in there:
                path, paths = choice.path, paths_of(part.language, part.writers)
                if part.envelope is not None:
                    path = in_row(path) or path
                    paths = tuple(p for p in map(in_row, paths) if p is not None)
                known = first_few(paths, _MOST) or "none"
                key = f"{part.key}.fields.{number}"
                yield key, path, f"no schema has that field; allowed: {known}"


def refuse_unknown_columns(run: RunContext, plan: DecodePlan) -> None:
    """Refuse columns that the stream file names, and that the typed table does not have.

    Raises:
        BadInput: There is one; names the columns that there are.
    """
    wanted = plan.event_date.field if plan.event_date is not None else None
    for key, value, allowed in unknown_columns(wanted, plan.parts):
        raise BadInput(
            f"stream {run.stream.stream}: {key}: got {value!r}; {allowed}. Nothing was decoded"
        )


def unknown_columns(
    wanted: str | None, parts: Collection[PartPlan]
) -> Iterator[tuple[str, str, str]]:
    """Columns that are named and are none: key, value and what is allowed.

    Args:
        wanted: The event's time; None for Kafka's, or none.
    """
    columns = [c.name for part in parts for c in part.reader.in_table]
    if wanted is not None and wanted not in columns:
        there = first_few(columns, _MOST) or "none"
        yield "decode.event_time.field", wanted, f"no column of the typed table; allowed: {there}"
    for part in parts:
        own = [c.name for c in part.reader.in_table]
        there = first_few(own, _MOST) or "none"
        for name in part.lenient:
            if name not in own:
                yield f"decode.on_value.{name}", "null", f"no column of values; allowed: {there}"
        if part.lenient and any(INVALID in p.reader.names for p in parts):
            why = f"a field of the records has the column {INVALID}: leave on_value out, or give"
            yield "decode.on_value", first_few(part.lenient, _MOST), f"{why} two new tables"


def parts_of(run: RunContext, decoding: Decoding, *, afresh: bool = False) -> tuple[PartPlan, ...]:
    """How the parts of the next records are decoded, as far as it is known before they are read.

    A part that was decoded before begins with the schemas of then. Only a part that never was, and
    one whose records carry no ids, asks the registry.

    Args:
        decoding: How the parts were decoded before.
        afresh: Whether schemas that did not fit, or were another subject's, are looked at again.

    Raises:
        BadInput: A schema file or a subject is missing.
    """
    decode = _decode(run)
    asked: tuple[tuple[RecordPart, Part], ...] = (("value", decode.value), ("key", decode.key))
    decoding = replace(decoding, parts=tuple(forget_unknown_ids(p, afresh) for p in decoding.parts))
    parts = list(decoding.parts)
    for name, wanted in asked:
        others = [p for p in parts if p.part != name]
        before = decoding.part(name)
        new = [part_of(run, name, wanted, before, others)] if wanted.format != "none" else []
        parts = [*others, *new]
    return tuple(_telling_unfit(run, part) for part in parts)


def _telling_unfit(run: RunContext, part: PartPlan) -> PartPlan:
    """A part that says which schemas of Connect's do not fit; their ids stand in no record."""
    unfit = part.unfit if part.framing == "connect" else ()
    known = run.ledger.known_schemas(unfit).values()
    return replace(part, unfit_digests=tuple(sorted((s.schema_id, s.digest) for s in known)))


def forget_unknown_ids(part: PartPlan, afresh: bool) -> PartPlan:
    """What the last plan knew: by now the registry may know ids that it did not know then."""
    unreadable = {schema_id for schema_id, _ in part.unreadable}
    unfit = tuple(n for n in part.unfit if n not in unreadable)
    part = replace(part, unknown=(), unfit=unfit, unreadable=())
    return replace(part, unfit=(), foreign=()) if afresh else part


def parts_with(
    run: RunContext,
    plan: DecodePlan,
    new_ids: Mapping[str, Iterable[int]],
    new_schemas: Mapping[str, Iterable[str]],
    sizes: Mapping[tuple[str, str], int],
) -> tuple[PartPlan, ...]:
    """The parts of a plan with the schemas whose ids records have brought.

    Args:
        plan: A redrive never halts: its records are in quarantine already.
        new_ids: By part.
        new_schemas: Texts of those that records bring themselves, by part.
        sizes: How many fields the tables had before any was brought, by part and type.
    """
    known = list(plan.parts)
    may_halt = not plan.redrives
    for part in tuple(known):
        texts = tuple(new_schemas.get(part.part, ()))
        own = run.ledger.brought(str(part.subject), part.format, texts) if texts else ()
        brought = {s.schema_id: s for s in own}
        if ids := (*new_ids.get(part.part, ()), *brought):
            others = [p for p in known if p.part != part.part]
            more = (may_halt, sizes[part.part, part.type])
            part = _with_ids(run, part, ids, others, *more, brought=brought)
            known = [*others, _telling_unfit(run, part)]
    return tuple(known)


def part_of(
    run: RunContext,
    name: RecordPart,
    wanted: Part,
    before: PartPlan | None,
    others: Iterable[PartPlan],
) -> PartPlan:
    """How a part of the next records is decoded, as far as it is known before they are read.

    Args:
        name: Key or value.
        wanted: What the stream file says.
        before: What the last plan knew; None before the first.
        others: Whose columns' names are taken.

    Raises:
        BadInput: A schema file or a subject is missing.
    """
    part = begin(name, wanted, _decode(run).lenient if name == "value" else ())
    is_asked = before is not None and before.fields != part.fields
    if before is not None and before.format == wanted.format:
        if part.subject is not None and part.framing != "plain" and _is_alike(part, before):
            kept = ("unavailable", "null_values", "lenient")
            known = replace(before, **{name: getattr(part, name) for name in kept})
            if not is_asked and before.form == part.form:
                return known
            # Of another form, the texts are made anew: a decoder of today would read them wrongly.
            known = replace(known, fields=part.fields, unfit=(), unreadable=(), form=part.form)
            return _with_ids(run, known, (), others, True, None, is_asked=is_asked)
        part = replace(part, reader=before.reader)
    newest = _newest(part, wanted, run.registry)
    if newest is None:
        return part  # the records bring their schemas
    if newest.schema_id != PLAIN_ID:
        note(run, [newest])
    is_brought = part.subject is not None and part.reader.text != "" and not is_asked
    size = part.reader.size if is_brought else None
    return with_writers(run, part, [newest], others, size, is_asked=is_asked)


def begin(name: RecordPart, wanted: Part, lenient: tuple[str, ...] = ()) -> PartPlan:
    """What the stream file alone says of a part."""
    framing = wanted.framing or ("plain" if wanted.subject is None else "confluent")
    return PartPlan(
        part=name,
        format=wanted.format,
        framing=framing,
        subject=_IN_RECORDS.format(name) if framing == "connect" else wanted.subject,
        writers=(),
        unknown=(),
        foreign=(),
        reader=ReaderSchema(name, wanted.format, "", ()),
        message=wanted.message,
        fields=choices_of(wanted),
        envelope=wanted.envelope,
        unavailable=wanted.unavailable,
        null_values=tuple(wanted.null_values),
        lenient=lenient,
        form=DECODER_FORM,
    )


def _newest(part: PartPlan, wanted: Part, registry: RegistryPort | None) -> WriterSchema | None:
    """The schema of the file, or the subject's newest; None where records bring theirs."""
    if part.framing == "connect":
        return None
    if wanted.is_schemaless:
        text = SINGLE_VALUES.get(wanted.format, SCHEMALESS)
        return WriterSchema(PLAIN_ID, text, _digest(text), "no schema")
    if wanted.schema_file is not None:
        return _schema_file(Path(wanted.schema_file), wanted.format)
    assert wanted.subject is not None
    assert registry is not None  # the stream file was checked
    try:
        _, newest = registry.latest(wanted.subject)
    except SchemaUnreadable as error:
        what = f"the newest schema of subject {wanted.subject} cannot be read: {error}"
        if part.framing == "plain":
            raise BadInput(f"decode.{part.part}.subject: {what}. Nothing was decoded") from error
        log.warning("%s: %s; the ids in the records are asked for", part.part, what)
        return None
    if newest.schema_type != wanted.format:
        raise BadInput(
            f"decode.{part.part}.format: got {wanted.format}; subject {wanted.subject} of the"
            f" registry holds {newest.schema_type}"
        )
    return replace(newest, schema_id=PLAIN_ID) if part.framing == "plain" else newest


def parts_without_a_run(
    decode: Decode, registry: RegistryPort | None = None, known: Decoding | None = None
) -> tuple[PartPlan, ...] | None:
    """How the next records would be decoded, for a look at the stream file; nothing halts.

    Args:
        registry: None if it is not to be asked.
        known: How the parts were decoded before, if somebody has looked.

    Returns:
        None where a part's columns are not known.

    Raises:
        BadInput: A schema file cannot be read, or a schema makes no columns.
    """
    parts: list[PartPlan] = []
    asked: tuple[tuple[RecordPart, Part], ...] = (("value", decode.value), ("key", decode.key))
    for name, wanted in asked:
        if wanted.format == "none":
            continue
        part = begin(name, wanted, decode.lenient if name == "value" else ())
        before = known.part(name) if known is not None else None
        if before is not None and before.format == part.format:
            part = replace(part, reader=before.reader)
        is_told = wanted.subject is None or registry is not None
        newest = _newest(part, wanted, registry) if is_told else None
        if newest is not None:
            merged, _ = _read(decode, part, [newest], parts)
            if wrong := [*map(str, merged.misfits), *merged.refused]:
                raise BadInput(f"decode.{name}: {'; '.join(wrong)}")
            part = replace(part, writers=merged.writers, reader=merged.reader)
        elif not part.reader.columns:
            return None
        parts.append(part)
    return tuple(parts)


def _is_alike(part: PartPlan, before: PartPlan) -> bool:
    mine, theirs = ((p.framing, p.subject, p.message, p.envelope) for p in (part, before))
    return mine == theirs


def _with_ids(
    run: RunContext,
    part: PartPlan,
    ids: tuple[int, ...],
    others: Iterable[PartPlan],
    may_halt: bool,
    size: int | None,
    *,
    is_asked: bool = False,
    brought: Mapping[int, WriterSchema] | None = None,
) -> PartPlan:
    """A part with more ids, each as a writer, as unknown, or as another subject's.

    Args:
        size: As in `with_writers`.
        brought: Schemas that records have brought; the registry is not asked for these.
    """
    wanted = (*(w.schema_id for w in part.writers), *ids)
    noted = run.ledger.known_schemas(wanted)
    writers, unknown, foreign = [], list(part.unknown), list(part.foreign)
    unreadable = dict(part.unreadable)
    for schema_id in wanted:
        schema = noted.get(schema_id) or (brought or {}).get(schema_id)
        match _identified(run, part, schema_id, schema):
            case None:
                unknown.append(schema_id)
            case _Elsewhere():
                foreign.append(schema_id)
            case str(reason):
                unreadable[schema_id] = reason
            case found:
                writers.append(found)
    note(run, (w for w in writers if not _is_noted(w, noted.get(w.schema_id))))
    if may_halt and unknown and _decode(run).on_schema.unknown_id == "halt":
        halt_unless_decided(
            run, part, [f"the registry does not know the id {n}" for n in sorted(unknown)]
        )
    if may_halt and unreadable and _decode(run).on_schema.unknown_id == "halt":
        halt_unless_decided(
            run, part, [f"schema {n}: {reason}" for n, reason in sorted(unreadable.items())]
        )
    known_now = replace(
        part,
        unknown=tuple(unknown),
        foreign=tuple(foreign),
        unfit=tuple(sorted({*part.unfit, *unreadable})),
        unreadable=tuple(sorted(unreadable.items())),
    )
    more = {"may_halt": may_halt, "is_asked": is_asked}
    return with_writers(run, known_now, writers, others, size, **more)


def _is_noted(schema: WriterSchema, noted: WriterSchema | None) -> bool:
    return noted is not None and noted.says_the_same(schema)


class _Elsewhere:
    """A schema that belongs to other subjects only."""


def _identified(
    run: RunContext, part: PartPlan, schema_id: int, known: WriterSchema | None
) -> WriterSchema | _Elsewhere | str | None:
    """What an id stands for in a part: its schema, known by its name in the part's own subject.

    The subject is asked for first: what is wrong with a schema of others concerns nobody here.

    Args:
        known: The schema, if it was noted, or if records have brought it.

    Returns:
        None where the registry does not know the id; a text where the schema is of no use.
    """
    before = {w.schema_id: w.known_as for w in part.writers}
    names = () if known is None else (known.known_as, before.get(schema_id, ""))
    name = next((n for n in names if n.rpartition(":")[0] == part.subject), None)
    if name is None:
        if part.framing == "connect":
            return None if known is None else _Elsewhere()
        assert part.subject is not None  # a schema file reads whatever id is there
        registry = registry_of(run)
        try:
            versions = registry.subjects_of(schema_id, part.subject)
            version = next((v for v in versions if v.subject == part.subject), None)
            if version is None:
                return None if known is None and not versions else _Elsewhere()
            name = str(version)
            if known is None or context_of(known.known_as) != context_of(name):
                known = registry.schema(schema_id, version)
        except SchemaUnreadable as error:
            return one_line(str(error), _LONGEST_REASON)
    if known is not None and known.schema_type != part.format:
        return f"it is of format {known.schema_type}, and not {part.format}"
    return None if known is None else replace(known, known_as=name)


def with_writers(
    run: RunContext,
    part: PartPlan,
    writers: Iterable[WriterSchema],
    others: Iterable[PartPlan],
    size: int | None = None,
    *,
    may_halt: bool = True,
    is_asked: bool = False,
) -> PartPlan:
    """The part with the reader that holds all its writers; those that do not fit are left out.

    Where new fields halt, schemas that bring some are left out as well: no column comes unasked.

    Args:
        part: What it was read as before, if it was.
        writers: As the registry has them.
        others: The other part: its columns' names are taken.
        size: How many fields the table had of it before records brought some; None where it is
            the stream file that asks for them.
        may_halt: Whether policies count; a redrive leaves what does not fit where it is.
        is_asked: Whether new fields are what somebody has asked for: the stream file's list has
            changed.

    Raises:
        BadInput: A listed field cannot be there, or cannot have its name.
    """
    writers = tuple(writers)
    read = partial(_read, _decode(run), part, others=tuple(others))
    merged, plain = read(writers)
    refuse_names(run, part, merged.refused)
    if merged.kept and not plain:
        log.warning(
            "%s: the fields %s have logical types of Kafka Connect, and older columns: these"
            " columns keep their types; new fields get the logical type",
            part.part,
            ", ".join(merged.kept),
        )
    policy = _decode(run).on_schema
    no_new = part.reader.text != "" and policy.new_field == "halt" and not is_asked
    halting = [str(c) for c in merged.misfits] if policy.incompatible == "halt" else []
    if no_new:
        halting += [str(c) for c in merged.changes if c not in merged.misfits]
    most = policy.most_new_fields * (1 if size else _FIRST)
    is_wide = size is not None and not no_new and merged.reader.size > size + most
    if is_wide:
        halting.append(
            f"{merged.reader.size - (size or 0)} new fields at a time (allowed: {most}; list"
            " fields, or raise on_schema.most_new_fields, and decide retry)"
        )
    if halting and may_halt:
        halt_unless_decided(run, part, halting)
    unfit = {*part.unfit, *(c.schema_id for c in merged.misfits)}
    if is_wide:
        before, fitting = {w.schema_id for w in part.writers}, list[WriterSchema]()
        for one in sorted(writers, key=lambda w: (w.schema_id not in before, len(w.text))):
            if read([*fitting, one])[0].reader.size <= (size or 0) + most:
                fitting.append(one)
            else:
                unfit.add(one.schema_id)
        merged, _ = read(fitting)
    if no_new:
        brought = {c.schema for c in merged.changes if c not in merged.misfits}
        unfit |= {w.schema_id for w in merged.writers if w.known_as in brought}
        fitting = [w for w in writers if w.schema_id not in unfit]
        merged, _ = read(fitting)
    made = replace(
        part,
        writers=merged.writers,
        unfit=tuple(sorted(unfit)),
        reader=merged.reader,
    )
    if has_all_schemas(made):
        refuse_missing_fields(run, [made])
    return made


def _read(
    decode: Decode, part: PartPlan, writers: Iterable[WriterSchema], others: Iterable[PartPlan]
) -> tuple[MergedSchemas, bool]:
    """The reader of all writers; and whether logical types are left as they are."""
    plain = not (decode.key if part.part == "key" else decode.value).logical_types
    is_protobuf = part.format == "protobuf"
    merged = reader_schema(
        part.part,
        part.language,
        tuple(writers),
        part.reader if part.reader.text else None,
        [name for other in others for name in other.reader.names],
        part.fields,
        Protobuf(compiled_protobuf, part.message) if is_protobuf else None,
        plain=plain,
        envelope=part.envelope is not None,
        unavailable=part.unavailable is not None,
        invalid=bool(part.lenient),
    )
    return merged, plain


_WIDE = re.compile(r"^\d+ (?=new fields at a time)")
"""How many is no part of a name: each new schema would be asked about anew."""


def halt_unless_decided(run: RunContext, part: PartPlan, reasons: Iterable[str]) -> None:
    """Halt, unless a person has decided that records of all these schemas go into quarantine.

    Raises:
        DecodingHalted: Nobody has, or of other schemas only.
    """
    whose = part.part if part.type in ("", OTHER_TYPES) else part.type
    texts = tuple(reasons)
    names = {f"{whose}: {_WIDE.sub('', reason)}" for reason in texts}
    if may_quarantine(run, "schema_changed", (), names):
        return
    # What is decided already is decided together with this: no run has carried it out.
    before = decided_incident(run.ledger.read().decoding.incidents, "schema_changed", "quarantine")
    known = () if before is None else before.finding.names
    beside = f"; beside what is decided: {'; '.join(known)}" if known else ""
    finding = Finding(
        kind="schema_changed",
        expected=f"schemas of {part.subject or 'the schema file'} that fit the typed table",
        actual=f"{whose}: {'; '.join(texts)}{beside}",
        names=tuple(sorted(names | {*known})),
    )
    raise decoding_halted(run, finding)


def note(run: RunContext, schemas: Iterable[WriterSchema]) -> None:
    """Keep what the registry has answered: an id never changes, and the registry may go away."""
    if new := run.ledger.new_schemas(schemas):
        run.ledger.update(lambda state: state.noting(*new))


def _schema_file(path: Path, format: str) -> WriterSchema:
    try:
        text = path.read_text(encoding="utf-8")
        imports = imported_files(path.parent, text) if format == "protobuf" else ()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"schema file {path} cannot be read: {system_message(error)}") from error
    return WriterSchema(PLAIN_ID, text, _digest(text), path.name, imports)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _decode(run: RunContext) -> Decode:
    assert run.stream.decode is not None
    return run.stream.decode


def registry_of(run: RunContext) -> RegistryPort:
    """The registry of a stream that needs one."""
    registry = run.registry
    assert registry is not None  # the stream file was checked
    return registry
