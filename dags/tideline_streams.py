"""One Dag per stream file. Parsing reads files and connects to no service."""

from __future__ import annotations

from airflow.sdk import get_parsing_context

from tideline.airflow.stream_dags import stream_dags

globals().update({dag.dag_id: dag for dag in stream_dags(get_parsing_context().dag_id)})
