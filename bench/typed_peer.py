"""What one would write without Spark to land and to decode, tuned: two tables from one process.

Either confluent-kafka's own deserializer decodes each value, or fastavro and orjson do with nothing
around them. The second way knows one schema only.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from urllib.request import urlopen

import fastavro
import orjson
import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import write_deltalake

from bench.python_peer import ROWS_PER_COMMIT, read_messages, to_arrow

Decode = Callable[[bytes], dict[str, object]]

_COORDINATES = ("topic", "partition", "offset", "timestamp")
_FIELDS = pa.struct(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.float64()),
        ("paid", pa.bool_()),
    ]
)
_FRAMING = 5


def land_and_decode(
    bootstrap_servers: str,
    topic: str,
    counts: list[int],
    folder: str,
    registry: str,
    record_format: str,
    by_hand: bool,
) -> None:
    """Append every record to `FOLDER/raw`, and its fields to `FOLDER/typed`, by a million rows.

    Args:
        bootstrap_servers: Of the broker.
        topic: Read from its start to its end.
        counts: Records per partition.
        folder: For both tables.
        registry: Where Confluent's API begins: a URL.
        record_format: `avro` or `json`.
        by_hand: Whether confluent-kafka's deserializer is left out.
    """
    raw: list[pa.RecordBatch] = []
    typed: list[pa.RecordBatch] = []
    rows, decode = 0, None
    for messages in read_messages(bootstrap_servers, topic, counts):
        if decode is None:
            schema_id = int.from_bytes(messages[0].value()[1:_FRAMING], "big")
            make = _by_hand if by_hand else _by_confluent
            decode = make(registry, topic, record_format, schema_id)
        raw.append(to_arrow(messages))
        typed.append(_typed(raw[-1], messages, decode))
        rows += len(messages)
        if rows >= ROWS_PER_COMMIT:
            _append(folder, raw, typed)
            raw, typed, rows = [], [], 0
    if raw:
        _append(folder, raw, typed)


def _typed(raw: pa.RecordBatch, messages: list[Message], decode: Decode) -> pa.RecordBatch:
    fields = pa.array([decode(message.value()) for message in messages], type=_FIELDS)
    columns = {name: raw.column(name) for name in _COORDINATES}
    columns |= zip((field.name for field in _FIELDS), fields.flatten(), strict=True)
    return pa.RecordBatch.from_pydict(columns)


def _append(folder: str, raw: list[pa.RecordBatch], typed: list[pa.RecordBatch]) -> None:
    write_deltalake(f"{folder}/raw", pa.Table.from_batches(raw), mode="append")
    write_deltalake(f"{folder}/typed", pa.Table.from_batches(typed), mode="append")


def _by_confluent(registry: str, topic: str, record_format: str, _schema_id: int) -> Decode:
    client = SchemaRegistryClient({"url": registry})
    if record_format == "avro":
        return AvroDeserializer(client)
    # Neither Spark nor Tideline holds a record against its JSON Schema.
    settings = {"validate": False, "subject.name.strategy.type": "TOPIC"}
    deserialize = JSONDeserializer(None, schema_registry_client=client, conf=settings)
    context = SerializationContext(topic, MessageField.VALUE)
    return lambda value: deserialize(value, context)


def _by_hand(registry: str, _topic: str, record_format: str, schema_id: int) -> Decode:
    if record_format == "json":
        return lambda value: orjson.loads(value[_FRAMING:])
    with urlopen(f"{registry}/schemas/ids/{schema_id}") as answer:  # noqa: S310
        schema = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
    read = fastavro.schemaless_reader
    return lambda value: read(io.BytesIO(value[_FRAMING:]), schema, None)
