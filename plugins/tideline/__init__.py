"""Tideline lands Kafka topics in Delta tables in bounded, proven batches."""

__version__ = "0.1.0"
