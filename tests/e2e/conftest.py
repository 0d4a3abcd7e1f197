"""The stack of tests.airflow_world, once for this folder."""

from tests.airflow_world import (
    airflow_world,
    client,
    spark_connections,
    stack,
    stack_on_postgres,
)

__all__ = ["airflow_world", "client", "spark_connections", "stack", "stack_on_postgres"]
