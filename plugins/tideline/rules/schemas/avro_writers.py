"""Writer schemas as the decoder is given them: the same bytes, named as in the reader. Pure.

Avro's encoding holds no names. Its rules for reading compare them nevertheless: an enum whose
namespace changed, a renamed field, a record used in two places are all refused or mixed up, and a
refused schema reads as nulls in silence. Here a field has the name of the reader's field that it
is, and a named type the name of its place. A schema that is no record becomes a record with one
field, which is written in the same bytes.
"""

from __future__ import annotations

import json
from typing import Any

from tideline.rules.schemas.avro import ROOT, member_place, node_shape, place_name
from tideline.rules.schemas.avro_tree import Node, avro_tree
from tideline.rules.schemas.joining import member_index, paired
from tideline.rules.schemas.shapes import Field, List, Map, Record, Scalar, Shape, Union


def avro_for_decoder(text: str, reader: Record) -> str:
    """A writer schema, named as in the reader.

    Args:
        text: The writer schema; it fits the reader.
        reader: The merged shape.
    """
    tree = avro_tree(text)
    if tree["type"] != "record":
        field = {"name": "value", "aliases": (), "since": "", "type": tree}
        tree = {"type": "record", "name": ROOT, "fields": [field]}
    return json.dumps(_record(tree, reader, (), ROOT))


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
        fields.append({"name": label, "type": made})
    return {"type": "record", "name": name or place_name(place), "fields": fields}


def _names(node: Node, reader: Record | None, place: tuple[str, ...]) -> dict[str, Field]:
    """The reader's field of each of a writer's fields."""
    shape = node_shape(node, place)
    if reader is None or not isinstance(shape, Record):
        return {}
    return {theirs.name: mine for mine, theirs in paired(reader, shape) if mine is not None}
