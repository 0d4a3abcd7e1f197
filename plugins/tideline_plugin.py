"""Airflow executes this file in each of its processes: keep it light."""

from __future__ import annotations

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin

from tideline.airflow import preload


class TidelinePlugin(AirflowPlugin):
    """Registers what has to run before Airflow forks."""

    name = "tideline"
    listeners: ClassVar = [preload]
