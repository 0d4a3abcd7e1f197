"""Merging schemas: columns stay, whatever comes, and however often it comes."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worlds.schemas import writer
from tideline.decoding.schemas.merging import paths_of, reader_schema
from tideline.model.decoding import FieldChoice

NAMES = ("a", "b", "c", "A b", "timestamp", "d.e")
AVRO_NAMES = ("a", "b", "c", "timestamp", "offset", "d")


def avro_type(draw, depth, path):
    """An Avro type; a named type has a name that the schema has once."""
    kinds = ["int", "long", "string", "double", "boolean", "null", "timestamp"]
    kinds += ["record", "array", "map", "union", "enum"] if depth else []
    kind = draw(st.sampled_from(kinds))
    if kind == "timestamp":
        return {"type": "long", "logicalType": draw(st.sampled_from(["timestamp-millis", "x"]))}
    if kind == "record":
        return avro_record(draw, depth - 1, path)
    if kind == "array":
        return {"type": "array", "items": avro_type(draw, depth - 1, path)}
    if kind == "map":
        return {"type": "map", "values": avro_type(draw, depth - 1, path)}
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("XYZ"), min_size=1, unique=True))
        space = draw(st.sampled_from(["s", "t"]))
        return {"type": "enum", "name": path, "namespace": space, "symbols": symbols}
    if kind == "union":
        scalars = st.sampled_from(["int", "string", "boolean", "null"])
        return draw(st.lists(scalars, min_size=1, unique=True))
    return kind


def avro_record(draw, depth, path):
    names = draw(st.lists(st.sampled_from(AVRO_NAMES), unique=True))
    fields = [{"name": n, "type": avro_type(draw, depth, f"{path}_{n}")} for n in names]
    return {"type": "record", "name": path, "fields": fields}


def json_type(draw, depth):
    """A JSON Schema."""
    kinds = ["integer", "number", "string", "boolean", "null", "date-time", "any", "several"]
    kinds += ["object", "array", "map"] if depth else []
    kind = draw(st.sampled_from(kinds))
    if kind == "date-time":
        return {"type": "string", "format": kind}
    if kind == "any":
        return {}
    if kind == "several":
        types = st.sampled_from(["integer", "string", "null", "boolean"])
        return {"type": draw(st.lists(types, min_size=1, unique=True))}
    if kind == "object":
        return json_object(draw, depth - 1)
    if kind == "array":
        return {"type": kind, "items": json_type(draw, depth - 1)}
    if kind == "map":
        return {"type": "object", "additionalProperties": json_type(draw, depth - 1)}
    return {"type": kind}


def json_object(draw, depth):
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    properties = {n: json_type(draw, depth) for n in names}
    closed = {"additionalProperties": False} if draw(st.booleans()) else {}
    return {"type": "object", "properties": properties, **closed}


@st.composite
def topics(draw):
    """A format, and schemas that got their ids in order; they fit one another or not."""
    format = draw(st.sampled_from(["avro", "json"]))
    depth = draw(st.integers(0, 2))
    made = [
        json_object(draw, depth) if format == "json" else avro_record(draw, depth, "r")
        for _ in range(draw(st.integers(1, 4)))
    ]
    return format, [writer(n + 1, json.dumps(schema)) for n, schema in enumerate(made)]


def merged(format, writers, previous=None):
    return reader_schema("value", format, writers, previous)


def one_by_one(format, writers):
    """The readers after each schema, as they arrive."""
    reader = None
    for each in writers:
        reader = merged(format, [each], reader).reader
        yield reader


@given(topics())
def test_merging_again_changes_nothing(topic):
    """Whatever fits, fits again and adds nothing; the text is the same to the letter."""
    format, writers = topic
    once = merged(format, writers)
    again = merged(format, writers, once.reader)
    assert again.reader == once.reader
    assert {w.schema_id for w in again.writers} >= {w.schema_id for w in once.writers}
    assert {c.schema for c in again.changes} <= {c.schema for c in once.changes}


@given(topics())
def test_no_column_is_lost_renamed_or_moved(topic):
    """The columns before a schema are the first columns after it."""
    format, writers = topic
    before = ()
    for reader in one_by_one(format, writers):
        kept = reader.columns[: len(before)]
        assert [(c.name, c.field) for c in kept] == [(c.name, c.field) for c in before]
        assert all(extends(c.type, b.type) for c, b in zip(kept, before, strict=True))
        names = [c.name.lower() for c in reader.columns]
        assert len(set(names)) == len(names)
        before = reader.columns


def extends(now, was):
    """Whether a type is what it was, but for fields at the end of structs."""
    if isinstance(was, str) or isinstance(now, str):
        return now == was
    if now["type"] != was["type"]:
        return False
    if was["type"] == "struct":
        pairs = zip(now["fields"], was["fields"], strict=False)
        return len(now["fields"]) >= len(was["fields"]) and all(
            n["name"] == w["name"] and extends(n["type"], w["type"]) for n, w in pairs
        )
    return all(extends(now[k], was[k]) for k in ("elementType", "valueType") if k in was)


def shape_of(type_):
    """A type without the order of its fields."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return {f["name"]: shape_of(f["type"]) for f in type_["fields"]}
    return [
        type_["type"],
        *(shape_of(type_[k]) for k in ("elementType", "valueType") if k in type_),
    ]


@given(topics(), st.data())
def test_lists_that_change_lose_no_column(topic, data):
    """Whatever was listed when: a name never changes its type, and every column stays known."""
    format, writers = topic
    paths = paths_of(format, writers)
    reader, before = None, {}
    for each in writers:
        chosen = data.draw(st.lists(st.sampled_from(paths), unique=True)) if paths else []
        choices = [FieldChoice(path) for path in chosen]
        reader = reader_schema("value", format, [each], reader, (), choices).reader
        columns = {c.name: c.type for c in (*reader.in_table, *reader.dropped)}
        assert before.keys() <= columns.keys()
        assert all(extends(columns[name], kind) for name, kind in before.items())
        assert len({name.lower() for name in columns}) == len(columns)
        if choices:
            assert {c.field for c in reader.in_table} <= {*chosen}
        before = columns


@given(topics(), st.randoms())
def test_schemas_given_in_any_order_make_the_same_reader(topic, random):
    """Their ids say which came first."""
    format, writers = topic
    shuffled = random.sample(writers, len(writers))
    assert merged(format, shuffled) == merged(format, writers)


@settings(max_examples=300)
@given(topics(), st.randoms())
def test_schemas_that_arrive_in_any_order_make_the_same_types(topic, random):
    """Where all of them fit in both orders."""
    format, writers = topic
    orders = [writers, random.sample(writers, len(writers))]
    ends = []
    for order in orders:
        reader = None
        for each in order:
            step = merged(format, [each], reader)
            if step.misfits:
                return
            reader = step.reader
        ends.append({c.name: shape_of(c.type) for c in reader.columns})
    assert without_members(ends[0]) == without_members(ends[1])


def without_members(type_):
    """A type whose unions' members have no numbers: these tell the order of arrival."""
    if isinstance(type_, dict):
        inner = {k: without_members(v) for k, v in type_.items()}
        if all(k.startswith("member") for k in inner):
            return sorted(map(str, inner.values()))
        return inner
    if isinstance(type_, list):
        return [without_members(t) for t in type_]
    return type_
