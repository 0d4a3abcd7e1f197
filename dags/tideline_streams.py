"""One Dag per stream file. Parsing reads files and connects to no service."""

from tideline.airflow.dags import stream_dags

globals().update(stream_dags())
