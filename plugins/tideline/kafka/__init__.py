"""Kafka access. Only this package imports kafka-python."""
