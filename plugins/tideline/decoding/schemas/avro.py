"""Avro: a schema's shape, the reader of merged shapes, writer schemas for decoders. Pure.

The reader is a record `tideline.reader`. Every field, item and value may be null, numbers are wide,
and named types are named for their place, so that a type may be used in many of them. Its last
field is `_ok`, which no writer has: plans of versions before 0.2 need it, and the decoder passes it
over.

The reader remembers what a later merge needs in attributes that decoders ignore: `since` (the
schema that brought a field), `also` (its other names), `was` (a named type's own name in a union),
`local` (a time without a zone), `ntz` (the same, in a column of its own type), `zoned` (a text with
a time), `any_scale` (a record that is a decimal), `kept` (a column of before its schemas' better
type), `wrapped` (the schema was no record, its values are the field `value`).
A writer's text for the decoder keeps a field's default as `was`.

Avro's encoding holds no names. Its rules for reading compare them nevertheless: an enum whose
namespace changed, a renamed field, a record used in two places are all refused or mixed up, and a
refused schema reads as nulls in silence. So decoders are given writer schemas for the same bytes in
which a field has the name of the reader's field that it is, and a named type the name of its place.
A schema that is no record becomes a record with one field, which is written in the same bytes;
one that is a record or null stays a union.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from tideline.decoding.schemas.avro_tree import Node, avro_tree
from tideline.decoding.schemas.joining import member_index, member_key, paired
from tideline.decoding.schemas.semantics import is_any_scale, semantic_type
from tideline.decoding.schemas.shapes import (
    MAX_PRECISION,
    Enum,
    Field,
    Fixed,
    List,
    Map,
    Record,
    Scalar,
    Shape,
    Union,
    as_written,
    asked_shape,
)
from tideline.model.decoding import SchemaUnusable, without_case

OK_FIELD = "_ok"
ROOT = "tideline.reader"
_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
    ),
}
_BASES = {kind: base for base, kinds in _LOGICAL.items() for kind in kinds}
_NTZ = {"ntz-millis": "timestamp-millis", "ntz-micros": "timestamp-micros"}
_MARKED = {
    **{kind: {"type": "long", "logicalType": time, "ntz": True} for kind, time in _NTZ.items()},
    "zoned": {"type": "string", "zoned": True},
    "any-scale": {"type": "string", "any_scale": True},
}
"""How the reader's schema has kinds that Avro does not know."""


def avro_shape(text: str, listed: Collection[str] | None = None) -> Record:
    """What a writer schema's records hold.

    Args:
        text: The schema.
        listed: The paths of the fields that are asked for; None for all.

    Raises:
        SchemaUnusable: No columns can be made of it.
    """
    tree = avro_tree(text)
    record = _root(tree)
    if record is None:
        shape = node_shape(tree, ())
        return Record(()) if shape is None else Record((Field("value", shape),), wrapped=True)
    found = _record_shape(record, (), listed) or Record((), name=record["name"])
    for field in found.fields:
        if without_case(field.name) == OK_FIELD:
            raise SchemaUnusable(field.name, "the name is taken: it marks readable records")
    return found


def avro_record(text: str) -> str | None:
    """The full name of the record that all values are, but for null; None where there is none.

    Raises:
        SchemaUnusable: It is no schema.
    """
    record = _root(avro_tree(text))
    return None if record is None else str(record["name"])


def avro_may_be_null(text: str) -> bool:
    """Whether a whole value may be null by its schema.

    Args:
        text: As `avro_for_decoder` has it: what is no record is the field `value` of one.
    """
    tree = avro_tree(text)
    if [field["name"] for field in tree.get("fields", ())] == ["value"]:
        tree = tree["fields"][0]["type"]
    return any(branch["type"] == "null" for branch in _branches(tree))


def avro_defaults(text: str, inside: Sequence[str]) -> dict[str, object]:
    """Defaults of the fields of a record, as they are written; records lead to that one.

    Args:
        text: As `avro_for_decoder` has it.
        inside: Names of fields, outermost first.
    """
    record = _root(avro_tree(text))
    for name in inside:
        fields = () if record is None else record["fields"]
        record = next((_root(field["type"]) for field in fields if field["name"] == name), None)
    fields = () if record is None else record["fields"]
    return {f["name"]: f["default"] for f in fields if f["default"] is not None}


def _branches(tree: Node) -> list[Node]:
    return tree["branches"] if tree["type"] == "union" else [tree]


def _root(tree: Node) -> Node | None:
    """The record that all values are, but for null; None where values are the field `value`.

    The shape and the text for the decoder both ask here: a record that one of them took for a
    single value would decode to nulls.
    """
    others = [branch for branch in _branches(tree) if branch["type"] != "null"]
    is_record = len(others) == 1 and others[0]["type"] == "record" and not is_any_scale(others[0])
    return others[0] if is_record else None


def read_avro(text: str) -> Record:
    """The shape that `avro_text` wrote."""
    tree = avro_tree(text)
    shape = node_shape({**tree, "fields": tree["fields"][:-1]}, ())
    fields = shape.fields if isinstance(shape, Record) else ()
    return Record(fields, wrapped=tree.get("wrapped", False))


def node_shape(node: Node, path: tuple[str, ...]) -> Shape | None:
    """A node's shape; None where there is nothing to keep, as with null and empty records."""
    kind = node["type"]
    if kind == "null":
        return None
    if kind == "record":
        found = _record_shape(node, path)
        return Scalar("any-scale", written=found) if is_any_scale(node) else found
    if kind == "enum":
        return Enum(tuple(node["symbols"]), name=_own_name(node))
    if kind == "array":
        item = node_shape(node["items"], (*path, "[]"))
        return None if item is None else List(item)
    if kind == "map":
        value = node_shape(node["values"], (*path, "{}"))
        return None if value is None else Map(value)
    if kind == "union":
        return _union(node, path)
    if kind == "fixed":
        fixed = Fixed(node["size"], name=_own_name(node))
        return Fixed(node["size"], _scale(node, fixed.precision), fixed.name)
    return _scalar(node)


def _record_shape(
    node: Node, path: tuple[str, ...], listed: Collection[str] | None = None
) -> Record | None:
    fields = []
    for field in node["fields"]:
        shape = asked_shape(node_shape, field["type"], (*path, field["name"]), listed)
        if shape is not None:
            fields.append(Field(field["name"], shape, field["aliases"], field["since"]))
    return Record(tuple(fields), name=_own_name(node)) if fields else None


def _own_name(node: Node) -> str:
    return str(node.get("was", node["name"]))


def _scalar(node: Node) -> Scalar:
    kind, logical = node["type"], node.get("logicalType")
    kept, parameters = bool(node.get("kept")), node.get("connect.parameters")
    for marked, form in _MARKED.items():
        if all(node.get(name) == value for name, value in form.items()):
            return Scalar(marked)
    if kind == "bytes" and (scale := _scale(node, MAX_PRECISION)) is not None:
        return Scalar("decimal", scale)
    if logical in _LOGICAL.get(kind, ()):
        return Scalar(f"local-{logical}" if node.get("local") else logical)
    plain = Scalar(kind, kept=kept)
    return semantic_type(kind, node.get("connect.name"), parameters, plain) or plain


def _scale(node: Node, most: int) -> int | None:
    """A decimal's scale; None if it is none, or none that a table can hold."""
    precision, scale = node.get("precision"), node.get("scale", 0)
    if node.get("logicalType") != "decimal" or type(precision) is not int or type(scale) is not int:
        return None
    return scale if 0 < precision <= most and 0 <= scale <= precision else None


def _union(node: Node, path: tuple[str, ...]) -> Shape | None:
    branches = [b for b in node["branches"] if b["type"] != "null"]
    members: dict[str, Shape] = {}
    for branch in branches:
        shape = node_shape(branch, path)
        shape = shape if len(branches) == 1 else as_written(shape)  # two texts are no union
        if shape is None and len(branches) > 1:
            raise SchemaUnusable(".".join(path), "a union with a type that holds nothing")
        if shape is None:
            continue
        if shape == Scalar("int"):
            shape = Scalar("int" if len(branches) == 1 else "long")
        key = member_key(shape)
        if members.setdefault(key, shape) != shape and {members[key], shape} != _FLOATS:
            raise SchemaUnusable(".".join(path), f"a union with two numbers read as one ({key})")
    if Scalar("float") in members.values() and any(b["type"] == "double" for b in branches):
        members["double"] = Scalar("double")
    found = tuple(members.values())
    if len(found) < 2:
        return found[0] if found else None
    return Union(found)


_FLOATS = {Scalar("float"), Scalar("double")}


def avro_text(record: Record) -> str:
    """The reader schema of merged shapes."""
    fields = [_field(f, (f.name,)) for f in record.fields]
    fields.append({"name": OK_FIELD, "type": "int", "default": 1})
    space, _, name = ROOT.rpartition(".")
    schema = {"type": "record", "name": name, "namespace": space, "fields": fields}
    return json.dumps(schema | ({"wrapped": True} if record.wrapped else {}))


def _field(field: Field, place: tuple[str, ...]) -> Node:
    made = {"name": field.name, "type": _nullable(field.shape, place), "default": None}
    if field.aliases:
        made["also"] = list(field.aliases)  # not Avro's aliases: writers are renamed already
    return made | ({"since": field.since} if field.since else {})


def _nullable(shape: Shape, place: tuple[str, ...]) -> list[Any]:
    if not isinstance(shape, Union):
        return ["null", _printed(shape, place)]
    branches: list[Any] = ["null"]
    for index, member in enumerate(shape.members):
        printed = _printed(member, member_place(place, index))
        if isinstance(member, Record | Enum | Fixed):
            printed["was"] = member.name
        branches.append(printed)
    return branches


def _printed(shape: Shape, place: tuple[str, ...]) -> Any:
    match shape:
        case Scalar():
            return _printed_scalar(shape)
        case Enum(symbols):
            return {"type": "enum", "name": place_name(place), "symbols": list(symbols)}
        case Fixed(size, scale):
            made: Node = {"type": "fixed", "name": place_name(place), "size": size}
            if scale is None:
                return made
            digits = {"precision": shape.precision, "scale": scale}
            return {**made, "logicalType": "decimal", **digits}
        case List(item):
            return {"type": "array", "items": _nullable(item, (*place, "item"))}
        case Map(value):
            return {"type": "map", "values": _nullable(value, (*place, "value"))}
        case Record(fields):
            inner = [_field(f, (*place, f.name)) for f in fields]
            return {"type": "record", "name": place_name(place), "fields": inner}
    raise AssertionError(f"a union in a union: {shape}")


def member_place(place: tuple[str, ...], index: int) -> tuple[str, ...]:
    """Where a union's member is."""
    return (*place, f"member{index}")


def place_name(place: tuple[str, ...]) -> str:
    """A named type's full name in the reader: its place. No two places share one."""
    return ".".join(("tideline", *place)) + "_"


def _printed_scalar(shape: Scalar) -> Any:
    if shape.kind == "decimal":
        digits = {"precision": MAX_PRECISION, "scale": shape.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if shape.kind in _MARKED:
        return _MARKED[shape.kind]
    if shape.kind not in _BASES:
        return {"type": shape.kind, "kept": True} if shape.kept else shape.kind
    logical = shape.kind.removeprefix("local-")
    scalar = {"type": _BASES[shape.kind], "logicalType": logical}
    return scalar | ({"local": True} if logical != shape.kind else {})


def avro_for_decoder(text: str, reader: Record) -> str:
    """A writer schema, named as in the reader.

    Args:
        text: The writer schema; it fits the reader.
        reader: The merged shape.
    """
    tree = avro_tree(text)
    if all(branch["type"] == "null" for branch in _branches(tree)):
        return json.dumps(_node(tree, None, ()))
    record = _root(tree)
    if record is None:
        field = {"name": "value", "aliases": (), "since": "", "type": tree}
        wrapped = {"type": "record", "name": ROOT, "fields": [field]}
        return json.dumps(_record(wrapped, reader, (), ROOT))
    made = _record(record, reader, (), ROOT)
    whole = ["null" if branch["type"] == "null" else made for branch in _branches(tree)]
    return json.dumps(whole if tree["type"] == "union" else made)


def _node(node: Node, reader: Shape | None, place: tuple[str, ...]) -> Any:
    """A node's JSON.

    Args:
        node: Of the writer's tree.
        reader: What it is read as; None for what the reader leaves out.
        place: Of the reader's shape.
    """
    kind = node["type"]
    if kind == "union":
        longs = any(b["type"] == "long" for b in node["branches"])
        return [_branch(b, reader, place, longs) for b in node["branches"]]
    if isinstance(reader, Union) and kind != "null":
        return _branch(node, reader, place, False)
    if kind == "record":
        return _record(node, reader if isinstance(reader, Record) else None, place)
    if kind in ("enum", "fixed"):
        wanted = ("type", "symbols", "size", "logicalType", "precision", "scale")
        return {k: node[k] for k in wanted if k in node} | {"name": place_name(place)}
    if kind == "array":
        item = reader.item if isinstance(reader, List) else None
        return {"type": kind, "items": _node(node["items"], item, (*place, "item"))}
    if kind == "map":
        value = reader.value if isinstance(reader, Map) else None
        return {"type": kind, "values": _node(node["values"], value, (*place, "value"))}
    return kind


def _branch(node: Node, reader: Shape | None, place: tuple[str, ...], longs: bool) -> Any:
    """One branch of a union, or what stands for one.

    An int that is read as a long is called a long, which has the same bytes: otherwise the first
    number of the reader's union takes it, be it a double.
    """
    if node["type"] == "null":
        return "null"
    shape = node_shape(node, place)
    if isinstance(reader, Union):
        shape = as_written(shape)
    if shape == Scalar("int") and not longs and isinstance(reader, Union):
        shape = Scalar("long")
    if isinstance(reader, Union) and shape is not None:
        index = member_index(reader, shape)
        assert index is not None, f"{shape} is no member of {reader}"
        reader, place = reader.members[index], member_place(place, index)
    made = _node(node, reader, place)
    return "long" if made == "int" and shape == Scalar("long") else made


def _record(node: Node, reader: Record | None, place: tuple[str, ...], name: str = "") -> Any:
    names = _names(node, reader, place)
    used = {mine.name for mine in names.values()}
    fields = []
    for field in node["fields"]:
        mine = names.get(field["name"])
        label = mine.name if mine else field["name"]
        while mine is None and label in used:  # nothing reads it: any name will do
            label += "_"
        made = _node(field["type"], mine.shape if mine else None, (*place, label))
        default = field.get("default")
        fields.append({"name": label, "type": made} | ({"was": default} if default else {}))
    return {"type": "record", "name": name or place_name(place), "fields": fields}


def _names(node: Node, reader: Record | None, place: tuple[str, ...]) -> dict[str, Field]:
    """The reader's field of each of a writer's fields."""
    shape = as_written(node_shape(node, place))
    if reader is None or not isinstance(shape, Record):
        return {}
    return {theirs.name: mine for mine, theirs in paired(reader, shape) if mine is not None}
