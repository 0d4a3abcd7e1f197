"""Who may see what: Airflow's own rights, asked anew with each request."""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import Depends

LOGGED_IN = Depends(get_user)
"""Somebody whom Airflow knows; 401 otherwise."""
MAY_READ = Depends(requires_access_dag("GET"))
"""Whoever may read the Dag that the path names as `dag_id`; 401 or 403 otherwise."""


def _readable(user: GetUserDep) -> set[str]:
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


Readable = Annotated[set[str], Depends(_readable)]
"""Ids of the Dags that the caller may read."""
