"""The stack of tests.airflow_world, once for this folder."""

from tests.airflow_world import client, stack, world

__all__ = ["client", "stack", "world"]
