"""How the Kafka adapter sees a small topic, for the tests of the fault infrastructure itself."""

from kafka import KafkaProducer
from kafka.protocol.api_key import ApiKey

from tideline.kafka.kafka_settings import KafkaSettings

TOPIC = "orders"
EPOCHS = {(TOPIC, 0): 0}
CALLS = [ApiKey.Metadata, ApiKey.ListOffsets, ApiKey.OffsetForLeaderEpoch]


def send(bootstrap_servers, count):
    """Acknowledged by every in-sync replica, or an error."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
    sent = [producer.send(TOPIC, b"x", partition=0) for _ in range(count)]
    offsets = [future.get(timeout=30).offset for future in sent]
    producer.close()
    return offsets


def settings(bootstrap_servers, patience_ms):
    return KafkaSettings(
        "k",
        {
            "bootstrap.servers": bootstrap_servers,
            "default.api.timeout.ms": patience_ms,
            "request.timeout.ms": 500,
        },
    )


def look(cluster):
    """The topic as it is seen through the proxy."""
    return cluster.observe([TOPIC], EPOCHS).topics[0]


def assert_unharmed(topic):
    assert topic.answered
    assert [p.high_watermark for p in topic.partitions] == [10, 0]
    assert topic.partitions[0].epoch_end_offset == 10
