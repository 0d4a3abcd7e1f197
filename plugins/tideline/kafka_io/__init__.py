"""Everything that speaks Kafka; the only importer of kafka-python."""
