"""Tideline lands Kafka topics in Delta tables in bounded, proven batches."""

__version__ = "0.2.0"
