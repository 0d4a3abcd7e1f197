"""Avro types as Kafka Connect's converters write them for Debezium's columns."""


def connect(kind, name, **more):
    """An Avro type with a logical type of Connect's."""
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def decimal(scale):
    """A decimal of Confluent's converter: its precision of 64 means that nobody has said one."""
    name = "org.apache.kafka.connect.data.Decimal"
    digits = {"logicalType": "decimal", "precision": 64, "scale": scale}
    return connect("bytes", name, **digits, **{"connect.parameters": {"scale": str(scale)}})


ANY_SCALE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}
