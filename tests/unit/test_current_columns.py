"""The columns that `current` names can be there, and name a row: otherwise the file is refused."""

import pytest

from tideline.errors import StreamFileError
from tideline.stream.files import parse_stream

FILE = """\
stream: orders
kafka:
  topics: [orders]
table:
  uri: /data/lake/orders
decode:
  %s
  value: {format: json, framing: connect%s}
  key: {format: json, framing: connect%s}
current:%s
"""


def file(key, *, value="", of_key="", more="", first="tombstones: keep"):
    """A stream file; each column of the key in a line of its own, from 12 on."""
    named = "\n  key:" + "".join(f"\n  - {name}" for name in key or ())
    listed = "\n  keep_deleted: true" if key is None else named
    return FILE % (first, value, of_key, listed) + more


EVENTS = ", envelope: debezium"
WHEN = "  deletes: {when: {column: %s, equals: 'true'}}\n"
REFUSED = {
    "how a change came": (
        file(["key_id", "op"], value=EVENTS),
        (13, "current.key.1", "'op'", "column op is about a change, and names no row"),
    ),
    "when the source wrote a change": (
        file(["source_timestamp"], value=EVENTS),
        (12, "current.key.0", "'source_timestamp'", "has the column value_source_timestamp"),
    ),
    "what a change has not brought": (
        file(["Unavailable_Columns"], value=", unavailable_value: x"),
        (12, "current.key.0", "'Unavailable_Columns'", "unavailable_columns is about a change"),
    ),
    "what a column cannot hold": (
        file(["Invalid_columns"]).replace("current:", "  on_value: {a: null}\ncurrent:"),
        (13, "current.key.0", "'Invalid_columns'", "invalid_columns is about a change"),
    ),
    "a key that may be null": (
        file(["key_id", "id"]).replace("current:", "  on_value: {ID: null}\ncurrent:"),
        (10, "decode.on_value.ID", "nothing", "since current.key.1 names the column"),
    ),
    "a mark that may be null": (
        file(["key_id"], more=WHEN % "gone").replace(
            "current:", "  on_value: {gone: null}\ncurrent:"
        ),
        (10, "decode.on_value.gone", "nothing", "since current.deletes.when.column names the"),
    ),
    "the mark of unwrapped rows that may be null": (
        file(["id"]).replace("current:", "  on_value: {__deleted: null}\ncurrent:"),
        (10, "decode.on_value.__deleted", "nothing", "since current.deletes.when names the column"),
    ),
    "a tombstone": (
        file(["is_tombstone"]),
        (12, "current.key.0", "'is_tombstone'", "is_tombstone is about a change"),
    ),
    "a plan": (
        file(["decode_plan_id"]),
        (12, "current.key.0", "'decode_plan_id'", "decode_plan_id is about a change"),
    ),
    "the topic": (
        file(["topic"]),
        (12, "current.key.0", "'topic'", "allowed: columns of the records"),
    ),
    "a coordinate": (
        file(["key_id", "offset"]),
        (13, "current.key.1", "'offset'", "offset is about a change"),
    ),
    "a day that no row has": (
        file(["key_id", "event_date"]),
        (13, "current.key.1", "'event_date'", "event_date is about a change"),
    ),
    "one column in two cases": (
        file(["key_id", "KEY_ID"]),
        (11, "current.key", "a list", "each column once; key_id is named twice"),
    ),
    "a field that is not listed": (
        file(["id"], value=", fields: [note, {field: a.b, as: c}]", of_key=", fields: [id]"),
        (12, "current.key.0", "'id'", "decode makes no column id; allowed: note, c, key_id."),
    ),
    "a field that is not listed, which the key cannot have": (
        file(["id"], value=", fields: [note]"),
        (12, "current.key.0", "'id'", "allowed: note, key_.... List its field in"),
    ),
    "a column that a listed field has under another name": (
        file(["note"], value=", fields: [{field: note, as: text}]"),
        (12, "current.key.0", "'note'", "{field: ..., as: note}"),
    ),
    "a decoded key that is called as a column of the table": (
        file(None, of_key=", fields: [id, {field: b, as: Bucket}]"),
        (9, "decode.key.fields.1.as", "'Bucket'", "the current table has a column bucket"),
    ),
    "a decoded key that is called as a change's column": (
        file(None, value=EVENTS, of_key=", fields: [{field: b, as: op}]"),
        (9, "decode.key.fields.0.as", "'op'", "column op is about a change"),
    ),
    "deletes of unwrapped records in an envelope": (
        file(["key_id"], value=EVENTS, more=WHEN % "__deleted"),
        (13, "current.deletes.when.column", "'__deleted'", "Leave deletes.when out"),
    ),
    "deletes by a field that is not listed": (
        file(["key_id"], value=", fields: [note]", more=WHEN % "gone"),
        (13, "current.deletes.when.column", "'gone'", "decode makes no column gone"),
    ),
}
ACCEPTED = {
    "the key's own columns": file(None, value=EVENTS),
    "columns of either part": file(["key_id", "id"], value=EVENTS),
    "an own field called as an envelope's": file(["op"], more=WHEN % "x"),
    "the day of an event": file(["key_id", "event_date"], first="event_time: {field: at}"),
    "listed fields": file(["a_b", "id"], value=", fields: [a.b, {field: c, as: id}]"),
    "a name that was taken": file(["value_topic"], value=", fields: [topic]", more=WHEN % "topic"),
    "listed fields of the key": file(
        ["key_id", "id"], value=", fields: [id]", of_key=", fields: [id]"
    ),
    "a listed column that an envelope never has by itself": file(
        ["key_id"], value=f"{EVENTS}, fields: [id, __deleted]", more=WHEN % "__deleted"
    ),
    "a delete by an own column": file(["key_id"], value=", fields: [a]", more=WHEN % "topic"),
    "unwrapped records": file(["key_id"], more=WHEN % "__deleted"),
    "what a transform makes": file(["made"], value=", fields: [a]")
    .replace("current:", "  transform: own:make\ncurrent:")
    .replace("key:\n", "deletes: {tombstone: false}\n  key:\n"),
    "no part of a key, and called as the table's bucket": file(
        ["key_id"], value=", fields: [{field: b, as: bucket}]"
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_column_that_can_be_none_is_refused_where_it_stands(what):
    text, (line, key, value, allowed) = REFUSED[what]
    with pytest.raises(StreamFileError) as refused:
        parse_stream(text, "orders.yaml")
    (problem,) = refused.value.problems
    assert (problem["line"], problem["key"], problem["value"]) == (line, key, value)
    assert allowed in problem["allowed"]


@pytest.mark.parametrize("what", ACCEPTED)
def test_what_may_be_there_is_left_to_the_runs(what):
    assert parse_stream(ACCEPTED[what], "orders.yaml").current is not None
