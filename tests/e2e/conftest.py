"""The stack of tests.airflow_harness, once for this folder."""

from tests.airflow_fixtures import (
    airflow_harness,
    client,
    spark_connections,
    stack,
    stack_on_postgres,
)

__all__ = ["airflow_harness", "client", "spark_connections", "stack", "stack_on_postgres"]
