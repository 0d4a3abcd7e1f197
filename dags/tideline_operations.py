"""Operations, triggered by hand. Parsing connects to no service and reads no stream file."""

from tideline.airflow.dags import operation_dags

globals().update(operation_dags())
