"""The page about columns of tables and keys of ledgers, from schemas, dataclasses and the port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from devstack.reference.docstrings import meanings, summary
from devstack.reference.markdown import code, page, table
from tideline.ledger.delta_files import SCHEMA
from tideline.ledger.history import ENTRIES
from tideline.ledger.ledger_port import DocKind
from tideline.ledger.snapshots import DOCUMENTS
from tideline.ledger.sql_store import METADATA
from tideline.table.schema import COLUMNS, QUARANTINE_COLUMNS, TYPED_COLUMNS

_MEANINGS = {
    "topic_id": "the topic's UUID: its incarnation",
    "generation": "which filling of the partition under that id, from 0",
    "topic": "the topic's name",
    "partition": "the partition's number",
    "offset": "the record's offset",
    "timestamp": "Kafka's time of the record, UTC",
    "timestamp_type": "0: set by the producer; 1: by the broker at append",
    "key": "the record's key, as it is; null where it has none",
    "value": "the record's value, as it is; null for a tombstone",
    "headers": "the record's headers, in their order",
    "op": "what a change event says it is: `c`, `r` (a snapshot's), `u`, `d`, `t` (all rows went)",
    "source_timestamp": "when the database made the change, by its clock",
    "snapshot": "whether a snapshot read the row, in Debezium's words",
    "transaction_id": "the database's transaction, if the connector tells it",
    "source_position": "where the change stands in the database's log: a JSON object",
    "unavailable_columns": "columns whose value the change did not bring; null for none",
    "invalid_columns": "columns that are null since they cannot hold what the record has there"
    " (`decode.on_value`); null for none",
    "plan_id": "the plan that landed the row; no check relies on it",
    "is_tombstone": "the record has no value",
    "schema_id": "the registry's id of the record's schema; the ledger's, negative, where records"
    " bring it; null with a schema file",
    "event_date": "the day of `decode.event_time`",
    "decode_plan_id": "the plan that decoded the record",
    "part": "which part cannot be decoded: `key` or `value`",
    "error_class": "[what is wrong](../decoding.md#error-classes)",
    "error": "the same in words",
}


def build_page() -> str:
    """The text of docs/reference/tables.md."""
    lines = [
        "## Raw table",
        "",
        "A tombstone is a row whose value is null. `plan_id` is for people: audits and checks go",
        "by coordinates. A file's statistics name the plan until the first compaction only, and a",
        "rewind or a restore may leave rows whose run was planned anew.",
        "",
        "You may give the table further columns that may be null, and properties: they are kept,",
        "and new rows have no value there. Constraints, and features that ask for Delta's own",
        "writer, halt the stream until they are gone",
        "([R13](../rules.md#r13-watch-the-table-too)). Each commit's user metadata names plan,",
        "run, token and ranges. Data files lie in folders of the attempts that wrote them,",
        "`landed-<plan>-<token>/`. The table properties `tideline.stream` and",
        "`tideline.ledger_id` tie the table to its ledger.",
        "",
        *_columns(COLUMNS),
        "## Typed table",
        "",
        "The stream file chooses some of these columns (`decode.table.own_columns`). The records'",
        "fields stand before `decode_plan_id`, and those that come later behind it.",
        "",
        *_columns(TYPED_COLUMNS),
        "## Quarantine",
        "",
        *_columns(QUARANTINE_COLUMNS),
        *_ledger(),
    ]
    return page("Tables and ledger", "`table/schema.py`, `ledger/` and `model/`", *lines)


def _columns(columns: Mapping[str, str]) -> list[str]:
    rows = ((code(name), code(kind), _MEANINGS[name]) for name, kind in columns.items())
    return table(("column", "type", "meaning"), rows)


def _ledger() -> Iterator[str]:
    yield from (
        "## Ledger",
        "",
        "A ledger is made of JSON documents, each with the number of its format first. Look at",
        "them with `tideline ledger FILE`; change nothing by hand. Where it is a Delta table:",
        "",
    )
    columns = ((code(field.name), code(field.type)) for field in SCHEMA)
    yield from table(("column", "type"), columns)
    yield from ("Where it is in a database:", "")
    known = ((t.name, column) for t in METADATA.sorted_tables for column in t.columns)
    rows = ((code(name), code(column.name), code(column.type)) for name, column in known)
    yield from table(("table", "column", "type"), rows)
    yield from ("## State", "", "Documents by key; the column is `slot`. They are replaced.", "")
    yield from table(("key", "document", ""), map(_row, DOCUMENTS))
    yield from ("## History", "", "Entries by kind and key. They are added and never changed.", "")
    yield from table(("kind", "key", "document", ""), map(_row, ENTRIES))
    yield from ("Types are Python's; times are text in ISO 8601.", "")
    for cls in _documents(kept.document for kept in (*DOCUMENTS, *ENTRIES)):
        yield from _keys(cls)


def _row(kept: DocKind) -> list[str]:
    """What is kept, with a link to the document's keys."""
    names = [kept.name, kept.key] if kept.key else [kept.name]
    cls = kept.document.__name__
    return [*map(code, names), f"[{cls}](#{cls.lower()})", kept.meaning]


def _documents(kinds: Iterable[type]) -> list[type]:
    """Those classes, and every dataclass in them, in the order in which they come."""
    found: list[type] = []
    for kind in kinds:
        _collect(kind, found)
    return found


def _collect(kind: Any, found: list[type]) -> None:
    kind = getattr(kind, "ENTRY", kind)  # of Places
    if isinstance(kind, type) and is_dataclass(kind) and kind not in found:
        found.append(kind)
        for inner in get_type_hints(kind).values():
            _collect(inner, found)
    for inner in get_args(kind):
        _collect(inner, found)


def _keys(cls: type) -> Iterator[str]:
    """What a document is, and its keys with what the docstring says of them."""
    said = meanings(cls)
    yield from (f"## {cls.__name__}", "", summary(cls), "")
    types = {"Places": "tuple[Coverage, ...]"}  # as it is stored
    rows = (
        (code(f.name), code(types.get(str(f.type), f.type)), said.get(f.name, ""))
        for f in fields(cls)
    )
    yield from table(("key", "type", "meaning"), rows)
