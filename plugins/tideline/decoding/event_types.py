"""Which event type a schema's id belongs to, where a topic has several; and the parts of all types.

An id belongs to one type, or to none: then its records are set aside. Nothing but the id tells it,
so whatever is asked of the registry is asked once for all types. What a type has claimed stays its
own until the stream file tells types apart otherwise; then every id is asked for again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tideline.decoding import readers
from tideline.decoding.readers import (
    begin,
    forget_unknown_ids,
    halt_unless_decided,
    note,
    registry_of,
    with_writers,
)
from tideline.decoding.schemas.records import is_like, record_names
from tideline.landing.context import RunContext, log
from tideline.model.decoding import (
    OTHER_TYPES,
    DecodePlan,
    Decoding,
    PartPlan,
    WriterSchema,
    context_of,
)
from tideline.model.wording import first_few
from tideline.registry.protobuf_files import compiled_protobuf
from tideline.registry.registry_port import RegistryPort, SchemaUnreadable, SubjectVersion
from tideline.stream.decode_section import Decode
from tideline.texts import one_line

_LONGEST = 300


def parts_of(run: RunContext, decoding: Decoding, *, afresh: bool = False) -> tuple[PartPlan, ...]:
    """How the next records are decoded, as far as it is known before they are read.

    Args:
        decoding: How they were decoded before.
        afresh: Whether schemas that did not fit, or were of no type, are looked at again.

    Raises:
        BadInput: A schema file or a subject is missing.
    """
    decode = run.stream.decode
    assert decode is not None
    if not decode.types:
        of_one = tuple(p for p in decoding.parts if not p.type)
        return readers.parts_of(run, replace(decoding, parts=of_one), afresh=afresh)
    key = decoding.part("key")
    keys = [] if key is None else [forget_unknown_ids(key, afresh)]
    values = _values(run, decode, decoding, keys, afresh=afresh)
    if decode.key.format == "none":
        return values
    before = keys[0] if keys else None
    return (*values, readers.part_of(run, "key", decode.key, before, values))


def _values(
    run: RunContext, decode: Decode, decoding: Decoding, keys: Sequence[PartPlan], *, afresh: bool
) -> tuple[PartPlan, ...]:
    """The parts of all types, and at last the one of those that no type claims."""
    before = {p.type: p for p in decoding.parts if p.type}
    known = before.get(OTHER_TYPES)
    wanted = [_begin(decode, one.type, is_ended=one.ended) for one in decode.types]
    subjects = [s for s in (decode.value.subject, *(p.subject for p in wanted)) if s]
    context = next(filter(None, map(context_of, decode.subjects)), None)
    subject = subjects[0] if subjects else "*"
    if context is not None and "*" in subject:  # no name of a subject: only its context is asked
        subject = f":{context}:"
    value = decode.value.model_copy(update={"subject": subject})
    others = replace(begin("value", value), type=OTHER_TYPES)
    is_alike = {_told_by(p) for p in wanted} | {_told_by(others)} == {
        _told_by(p) for p in before.values()
    }
    if known is not None and is_alike:
        texts = () if afresh else tuple(t for t in known.unreadable if t[0] in known.foreign)
        others = replace(others, foreign=() if afresh else known.foreign, unreadable=texts)
    parts: list[PartPlan] = []
    for part in wanted:
        old = before.get(part.type)
        if old is not None and old.format == part.format:
            part = _as_before(run, part, forget_unknown_ids(old, afresh), keys, is_alike=is_alike)
        parts.append(part)
    return (*parts, others)


def _begin(decode: Decode, name: str, *, is_ended: bool) -> PartPlan:
    """What the stream file says of a type; one that has ended claims nothing."""
    part = begin("value", decode.of_type(name).value)
    record = next(one.record for one in decode.types if one.type == name)
    return replace(part, type=name, record=record, subject="" if is_ended else part.subject)


def has_newest(decode: Decode, name: str, registry: RegistryPort) -> bool:
    """Whether the newest schema of a type's subject is one of the type's: it says which columns."""
    is_ended = next(one.ended for one in decode.types if one.type == name)
    part = _begin(decode, name, is_ended=is_ended)
    if not part.subject or "*" in part.subject:
        return False
    try:
        version, newest = registry.latest(part.subject)
    except SchemaUnreadable:
        return False
    return _claims(part, [version], record_names(newest, compiled_protobuf)) is not None


def _told_by(part: PartPlan) -> tuple[str | None, ...]:
    """What tells the records of a type."""
    return (part.type, part.format, part.subject, part.record, part.message)


def _as_before(
    run: RunContext, part: PartPlan, old: PartPlan, keys: Sequence[PartPlan], *, is_alike: bool
) -> PartPlan:
    """A part with the columns of before; with the schemas of before where types are told alike."""
    if not is_alike:
        return replace(part, reader=old.reader)
    if (old.fields, old.form) == (part.fields, part.form):
        return old
    again = replace(old, fields=part.fields, form=part.form, unfit=(), unreadable=())
    return _grown(run, again, (), keys, None, may_halt=True, is_asked=old.fields != part.fields)


def parts_with(
    run: RunContext,
    plan: DecodePlan,
    new_ids: Mapping[str, Iterable[int]],
    new_schemas: Mapping[str, Iterable[str]],
    sizes: Mapping[tuple[str, str], int],
) -> tuple[PartPlan, ...]:
    """The parts of a plan with the schemas whose ids records have brought.

    Args:
        plan: A redrive never halts: its records are in quarantine already. Who decodes again does
            where an id is of two types: its rows stand in the table of one.
        new_ids: By part.
        new_schemas: Texts of those that records bring themselves, by part.
        sizes: How many fields the tables had before any was brought, by part and type.
    """
    if not plan.types:
        return readers.parts_with(run, plan, new_ids, new_schemas, sizes)
    ids = tuple(new_ids.get("value", ()))
    plan = replace(plan, parts=_claimed(run, plan, ids, sizes))
    of_keys = {part: found for part, found in new_ids.items() if part != "value"}
    return readers.parts_with(run, plan, of_keys, new_schemas, sizes)


def parts_with_known_fields(plan: DecodePlan) -> tuple[PartPlan, ...]:
    """The parts of which it is known which fields they have: records of each type have come."""
    if not plan.types:
        return plan.parts
    return tuple(p for p in plan.parts if not p.type or p.writers)


@dataclass(frozen=True, slots=True)
class _Found:
    """What an id stands for.

    Args:
        types: Those that claim it.
        writer: Its schema, if records of the type can be read by it.
        text: Subject and record; or why it cannot be read.
    """

    types: tuple[str, ...]
    writer: WriterSchema | None
    text: str


def _claimed(
    run: RunContext,
    plan: DecodePlan,
    ids: Sequence[int],
    sizes: Mapping[tuple[str, str], int],
) -> tuple[PartPlan, ...]:
    """A plan's parts with more ids, each as one of a type, as nobody's, or as unknown."""
    may_halt = not plan.redrives
    keys = [p for p in plan.parts if p.part == "key"]
    types = {p.type: p for p in plan.parts if p.type not in ("", OTHER_TYPES)}
    others = next(p for p in plan.parts if p.type == OTHER_TYPES)
    noted = run.ledger.known_schemas(ids)
    unknown, foreign, unfit = [*others.unknown], [*others.foreign], [*others.unfit]
    texts, new = dict(others.unreadable), defaultdict[str, list[WriterSchema]](list)
    doubtful, unread = list[str](), list[str]()
    for schema_id in ids:
        found = _identified(run, others, types.values(), schema_id, noted.get(schema_id))
        if found is None:
            unknown.append(schema_id)
        elif not found.types:
            foreign.append(schema_id)
            texts[schema_id] = found.text
            log.warning(
                "no type in decode.value.types claims schema %d (%s): its records go into"
                " quarantine as other_type; after you add a type, tideline redrive moves them",
                schema_id,
                found.text,
            )
        elif len(found.types) > 1 or found.writer is None:
            unfit.append(schema_id)
            is_twice = len(found.types) > 1
            twice = f"types {first_few(found.types)} all claim it, make them distinct: {found.text}"
            texts[schema_id] = twice if is_twice else found.text
            (doubtful if is_twice else unread).append(f"schema {schema_id}: {texts[schema_id]}")
        else:
            new[found.types[0]].append(found.writer)
    note(run, (w for ws in new.values() for w in ws if not _says(w, noted.get(w.schema_id))))
    others = replace(
        others,
        unknown=tuple(unknown),
        foreign=tuple(foreign),
        unfit=tuple(unfit),
        unreadable=tuple(sorted(texts.items())),
    )
    if may_halt:
        _refuse(run, others, doubtful, unread)
    elif plan.is_again and doubtful:
        halt_unless_decided(run, others, doubtful)
    for name, writers in new.items():
        size = sizes["value", name]
        types[name] = _grown(run, types[name], writers, keys, size, may_halt=may_halt)
    return (*types.values(), others, *keys)


def _says(schema: WriterSchema, noted: WriterSchema | None) -> bool:
    return noted is not None and noted.says_the_same(schema)


def _refuse(
    run: RunContext, others: PartPlan, doubtful: Sequence[str], unread: Sequence[str]
) -> None:
    """Halt where an id is of two types, or is not to be read and the stream file says so."""
    decode = run.stream.decode
    assert decode is not None
    reasons = [*doubtful]
    if decode.on_schema.unknown_id == "halt":
        reasons += [f"the registry does not know the id {n}" for n in sorted(others.unknown)]
        reasons += unread
    if reasons:
        halt_unless_decided(run, others, reasons)


def _grown(
    run: RunContext,
    part: PartPlan,
    new: Sequence[WriterSchema],
    keys: Sequence[PartPlan],
    size: int | None,
    *,
    may_halt: bool,
    is_asked: bool = False,
) -> PartPlan:
    """A type's part with the reader that holds its schemas and new ones."""
    noted = run.ledger.known_schemas(w.schema_id for w in part.writers)
    known = [replace(noted[w.schema_id], known_as=w.known_as) for w in part.writers]
    policies = {"may_halt": may_halt, "is_asked": is_asked}
    return with_writers(run, part, (*known, *new), keys, size, **policies)


def _identified(
    run: RunContext,
    others: PartPlan,
    types: Iterable[PartPlan],
    schema_id: int,
    noted: WriterSchema | None,
) -> _Found | None:
    """What an id stands for; None where the registry does not know it.

    Args:
        noted: The schema, if it was noted.
    """
    versions, schema, reason = _asked(run, others, schema_id, noted)
    if not versions or (schema is None and reason is None):
        return None if reason is None else _Found(("",), None, reason)
    names = record_names(schema, compiled_protobuf) if schema is not None else None
    claims = {
        part.type: version
        for part in types
        if (version := _claims(part, versions, names)) is not None
    }
    text = f"subject {versions[0].subject}, record {(names or ('unknown',))[0]}"
    if schema is None:  # what its records are called nobody knows: whose subject it is says enough
        return _Found(tuple(claims)[:1], None, text if reason is None or not claims else reason)
    if len(claims) != 1:
        return _Found(tuple(claims), None, text)
    (name,) = claims
    if schema.schema_type != others.format:
        strange = f"it is of format {schema.schema_type}, and not {others.format}"
        return _Found((name,), None, strange)
    return _Found((name,), replace(schema, known_as=str(claims[name])), text)


def _asked(
    run: RunContext, others: PartPlan, schema_id: int, noted: WriterSchema | None
) -> tuple[tuple[SubjectVersion, ...], WriterSchema | None, str | None]:
    """What the registry says of an id: as what it is registered, its schema, or why it has none."""
    assert others.subject is not None
    registry, versions = registry_of(run), tuple[SubjectVersion, ...]()
    try:
        versions = registry.subjects_of(schema_id, others.subject)
        if not versions and noted is not None:  # it was deleted since
            subject, _, number = noted.known_as.rpartition(":")
            versions = (SubjectVersion(subject, int(number)),)
        if not versions:
            return (), None, None
        if noted is None or context_of(noted.known_as) != context_of(others.subject):
            noted = registry.schema(schema_id, versions[0])
        return versions, noted, None
    except SchemaUnreadable as error:
        return versions, None, one_line(str(error), _LONGEST)


def _claims(
    part: PartPlan, versions: Sequence[SubjectVersion], names: Sequence[str] | None
) -> SubjectVersion | None:
    """The version by which an id is a type's; None where it is another's.

    Args:
        names: Of its records; Protobuf's files hold several, and one is meant. None where nobody
            knows them.
    """
    asked = names if names is None or part.message is not None else names[:1]
    pattern = part.record
    if pattern is not None and asked is not None and not any(is_like(pattern, n) for n in asked):
        return None
    return next((v for v in versions if is_like(str(part.subject), v.subject)), None)
