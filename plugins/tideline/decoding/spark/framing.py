"""What says which schema a record was written with: nothing, an id before it, or the schema.

Confluent's wire format: a zero byte, the id as four bytes, big-endian, then the payload
(docs.confluent.io, "Wire format"). Protobuf's message indexes are part of the payload here. Ids
that records carry and the plan does not name are collected: the run asks the registry for them.

Kafka Connect's JSON brings the schema itself, beside its payload. It is told by its bytes, and the
plan says which id it has; the texts of those that the plan does not have are collected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tideline.decoding.schemas.shapes import struct_type
from tideline.decoding.spark.fields import (
    ERROR,
    ERROR_CLASS,
    FIELDS,
    PAYLOAD,
    SCHEMA_ID,
    decoder,
)
from tideline.model.decoding import (
    OTHER_TYPE,
    OTHER_TYPES,
    PLAIN_ID,
    DecodePlan,
    ErrorClass,
    PartPlan,
)

IS_NEW = "is_new_id"
_HEAD = "_head"
_LARGEST_ID = 2**31 - 1


def unframe(rows: DataFrame, part: PartPlan, *, tells_why: bool = True) -> DataFrame:
    """Add payload, id, class and text of an error in the framing, and whether the id is new.

    The payload is null where nothing is to be decoded: there is no record, or its id says that it
    cannot be.

    Args:
        rows: With the column that the part names.
        part: How it is framed, and which ids are known.
        tells_why: Whether the error's text is wanted; it is null otherwise. Building it takes more
            calls of Spark's driver than all else.
    """
    if part.type not in ("", OTHER_TYPES) and part.writers and not part.unfit:
        return rows.withColumns(_of_writers(part))
    data = value_bytes(part)
    if part.framing == "plain":
        return rows.withColumns(
            {
                PAYLOAD: data,
                SCHEMA_ID: F.when(data.isNotNull(), F.lit(PLAIN_ID)),
                IS_NEW: F.lit(False),
                ERROR_CLASS: F.lit(None).cast("string"),
                ERROR: F.lit(None).cast("string"),
            }
        )
    if part.framing == "connect":
        found = rows.withColumn(_HEAD, _brought(part))
        found = found.withColumn(SCHEMA_ID, F.col(_HEAD)["id"])
        has_writer, payload = F.coalesce(F.col(_HEAD)["known"], F.lit(False)), data
        is_new = F.col(_HEAD).isNotNull() & F.col(SCHEMA_ID).isNull()
    else:
        found = rows.withColumn(_HEAD, F.substring(data, 1, 5))
        found = found.withColumn(SCHEMA_ID, _schema_id(part))
        has_writer = F.col(SCHEMA_ID).isin([w.schema_id for w in part.writers])
        payload = F.substring(data, 6, 2**31 - 1)
        named = [*(w.schema_id for w in part.writers), *part.unknown, *part.foreign, *part.unfit]
        is_new = F.col(SCHEMA_ID).isNotNull() & ~F.col(SCHEMA_ID).isin(named)
    name = _class_of(part, has_writer, is_new)
    return found.withColumns(
        {
            PAYLOAD: F.when(has_writer, payload),
            ERROR_CLASS: name,
            ERROR: _said(part, name) if tells_why else F.lit(None).cast("string"),
            IS_NEW: is_new,
        }
    ).drop(_HEAD)


def _of_writers(part: PartPlan) -> dict[str, Column]:
    """What is said of records that were chosen by their ids: each has one that can be read."""
    data, none = F.col(part.part), F.lit(None).cast("string")
    *others, last = part.writers
    schema_id = F.lit(last.schema_id)
    for writer in reversed(others):
        schema_id = F.when(_begins_with(data, writer.schema_id), writer.schema_id).otherwise(
            schema_id
        )
    return {
        PAYLOAD: F.substring(data, 6, 2**31 - 1),
        SCHEMA_ID: schema_id,
        ERROR_CLASS: none,
        ERROR: none,
        IS_NEW: F.lit(False),
    }


def _begins_with(data: Column, schema_id: int) -> Column:
    return F.substring(data, 1, 5) == F.lit(head_of(schema_id))


def head_of(schema_id: int) -> bytes:
    """The bytes before a record of that schema."""
    return b"\0" + schema_id.to_bytes(4, "big")


def _brought(part: PartPlan, *, tells_text: bool = False) -> Column:
    """Which schema of Connect's a record brings: `id`, whether it is `known`, and its `text`.

    The id is null for a schema that the plan does not name.

    Args:
        tells_text: Whether the schema's text is wanted as well.
    """
    kinds = (("id", "integer"), ("known", "boolean"), ("text", "string"))
    known = [(w.schema_id, w.text) for w in part.writers]
    specification = {"known": known, "unfit": part.unfit_digests, "tells_text": tells_text}
    return decoder("connect", struct_type(kinds), specification, value_bytes(part))[FIELDS]


_NULLS: Mapping[str, Callable[[Column], Column]] = {
    "empty": lambda data: F.length(data) == 0,
    "json_null": lambda data: _matches(data, r"^\s*null\s*$"),
    "connect_null": lambda data: (
        _matches(data, r'^\s*\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\}\s*$')
        | _matches(data, r'^\s*\{\s*"payload"\s*:\s*null\s*,\s*"schema"\s*:\s*null\s*\}\s*$')
    ),
}
"""Bytes that some producers write in place of a null value: deserializers give a null for them."""
_LONGEST_NULL = 100


def _matches(data: Column, pattern: str) -> Column:
    return (F.length(data) <= _LONGEST_NULL) & data.cast("string").rlike(pattern)


def value_bytes(part: PartPlan) -> Column:
    """The bytes of a part; null as well where the stream file says that they count as no value."""
    data = F.col(part.part)
    if not part.null_values:
        return data
    return F.when(~reduce(or_, (_NULLS[name](data) for name in part.null_values)), data)


def _schema_id(part: PartPlan) -> Column:
    """The id; null where the framing is wrong. A known one costs a comparison of five bytes.

    A schema file reads what is behind any id.
    """
    head = F.col(_HEAD)
    number = F.conv(F.hex(F.substring(head, 2, 4)), 16, 10).cast("bigint")
    # 0 is nobody's id: 8 bytes of an id begin so
    is_framed = (F.length(head) == 5) & (F.substring(head, 1, 1) == F.lit(b"\0")) & (number > 0)
    if part.subject is None:
        return F.when(is_framed, F.lit(PLAIN_ID))
    # Applications hand headers on, so an id that is known counts; no other is asked for.
    is_id = is_framed & (number <= _LARGEST_ID) & _header_of_others(part).isNull()
    read = F.when(is_id, number.try_cast("int"))
    for writer in reversed(part.writers):
        known = F.lit(head_of(writer.schema_id))
        read = F.when(head == known, F.lit(writer.schema_id)).otherwise(read)
    return read


def _class_of(part: PartPlan, has_writer: Column, is_new: Column) -> Column:
    schema_id = F.col(SCHEMA_ID)
    return (
        F.when(value_bytes(part).isNull() | has_writer, F.lit(None))
        .when(is_new, "unknown_schema")
        .when(schema_id.isNull(), "framing")
        .when(schema_id.isin(list(part.foreign)), _foreign_class(part))
        .when(schema_id.isin(list(part.unfit)), "type_mismatch")
        .otherwise("unknown_schema")
    )


def _foreign_class(part: PartPlan) -> ErrorClass:
    return OTHER_TYPE if part.type == OTHER_TYPES else "wrong_subject"


def _said(part: PartPlan, name: Column) -> Column:
    schema_id = F.col(SCHEMA_ID).cast("string")
    return (
        F.when(name == "framing", F.concat(F.lit(f"the {part.part} "), _misframed(part)))
        .when(
            name == "wrong_subject",
            F.concat(
                F.lit("schema "),
                schema_id,
                F.lit(f" belongs to another subject than {part.subject}"),
            ),
        )
        .when(
            name == OTHER_TYPE,
            F.concat(F.lit("schema "), schema_id, _reason(part, " is of no type: ", "")),
        )
        .when(
            name == "type_mismatch",
            F.concat(F.lit("schema "), schema_id, _why_unfit(part)),
        )
        .when(
            name == "unknown_schema",
            F.concat(F.concat_ws(" ", F.lit("schema"), schema_id), _why_unknown(part)),
        )
    )


def _why_unfit(part: PartPlan) -> Column:
    return _reason(part, " cannot be used: ", " does not fit the table's columns")


def _reason(part: PartPlan, before: str, without: str) -> Column:
    """What is said of an id that is told of; else another text."""
    if not part.unreadable:
        return F.lit(without)
    pairs = [(F.lit(n), F.lit(f"{before}{reason}")) for n, reason in part.unreadable]
    reasons = F.create_map(*(column for pair in pairs for column in pair))
    return F.coalesce(F.try_element_at(reasons, F.col(SCHEMA_ID)), F.lit(without))


def _why_unknown(part: PartPlan) -> Column:
    is_asked = F.col(SCHEMA_ID).isin(list(part.unknown))
    not_asked = " was not looked up: the records bring more new ids than a run asks for"
    return F.when(is_asked, " is not in the registry").otherwise(not_asked)


_MISFRAMED = {
    "confluent": "does not begin with 0 and a schema's id",
    "connect": "is no JSON object with a schema of Kafka Connect's beside its payload",
}
_NULL_TEXTS = {
    "empty": "has no bytes, and is not null",
    "json_null": "is the text null, and is not null",
    "connect_null": "is a null without a schema, and is not null",
}
_IN_HEADERS = ("__{}_schema_id", "apicurio.{}.globalId", "apicurio.{}.contentId")
"""Headers in which serializers of Confluent and Apicurio put a schema's id."""
_NOT_READ = ", which is not read"
_GLUE = f"begins as AWS Glue's serializers do{_NOT_READ}"
_HEADS = {
    bytes(5): "begins with an id of 8 bytes, as Apicurio's serializers write it without"
    f" as-confluent{_NOT_READ}",
    b"\3\0": _GLUE,
    b"\3\5": _GLUE,
    b"\xc3\1": f"begins as Avro's single-object encoding does{_NOT_READ}",
}
"""Other framings. Glue's: its version, then whether zlib comes next."""


def _header_of_others(part: PartPlan) -> Column:
    """The header in which the schema's id is, where one is: the bytes then begin with none."""
    names = [name.format(part.part) for name in _IN_HEADERS]
    return F.get(F.filter("headers", lambda header: header["key"].isin(names)), F.lit(0))["key"]


def _misframed(part: PartPlan) -> Column:
    """What stands in front of the bytes, as far as it is known."""
    data, known = F.col(part.part), list[tuple[Column, Column]]()
    if part.part == "value":
        cure = "If that says that a row is gone: decode.value.null_values: "
        texts = ((name, F.lit(f"{text}. {cure}[{name}]")) for name, text in _NULL_TEXTS.items())
        known += [(_NULLS[name](data), text) for name, text in texts]
    if part.framing == "confluent":
        header = _header_of_others(part)
        in_header = F.concat(F.lit("has its schema's id in the header "), header, F.lit(_NOT_READ))
        known.append((header.isNotNull(), in_header))
        known += [(data.startswith(F.lit(head)), F.lit(text)) for head, text in _HEADS.items()]
    found = F.lit(_MISFRAMED[part.framing])
    for condition, text in reversed(known):
        found = F.when(condition, text).otherwise(found)
    return found


MOST, _MOST_SCHEMAS = 1000, 100
"""Ids of one part that are told at once; and schemas, which are longer."""


def find_new_ids(raw: DataFrame, plan: DecodePlan) -> dict[str, tuple[int, ...]]:
    """The new ids by part, at most `MOST` of each; looked for only where there are some.

    A set of all ids would grow with the records: any four bytes are an id.
    """
    found = {}
    for part in plan.framed:
        if part.framing != "connect":
            ids = _new(raw, part).select(SCHEMA_ID).distinct().limit(MOST)
            found[part.part] = tuple(sorted(row[SCHEMA_ID] for row in ids.collect()))
    return {part: ids for part, ids in found.items() if ids}


def find_new_schemas(raw: DataFrame, plan: DecodePlan) -> dict[str, tuple[str, ...]]:
    """Texts of new schemas that records bring themselves, by part."""
    found = {}
    for part in plan.framed:
        if part.framing == "connect":
            text = _brought(part, tells_text=True)["text"].alias("text")
            each = _new(raw, part).select(text).distinct().limit(_MOST_SCHEMAS)
            found[part.part] = tuple(sorted(row["text"] for row in each.collect()))
    return {part: texts for part, texts in found.items() if texts}


def _new(raw: DataFrame, part: PartPlan) -> DataFrame:
    """The records of a part whose id the plan does not name."""
    return unframe(raw.select(part.part, "headers"), part).filter(F.col(IS_NEW))
