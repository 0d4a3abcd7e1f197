"""What a site writes: a Dag for each stream file, and the operations."""

from tideline.airflow.dags import operation_dags, stream_dags

globals().update(stream_dags() | operation_dags())
