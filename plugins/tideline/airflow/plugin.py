"""The plugin: what Airflow has to know before it forks.

An installed package names it as an entry point of `airflow.plugins`; in a checkout that is not
installed, `plugins/tideline_plugin.py` does.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from tideline.airflow import preload


class TidelinePlugin(AirflowPlugin):
    """Registers what has to run before Airflow forks."""

    name = "tideline"
    listeners = [preload]  # noqa: RUF012 - Airflow's base class has it so
