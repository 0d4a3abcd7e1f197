"""The plugin: what Airflow has to know before it forks.

An installed package names it as an entry point of `airflow.plugins`; in a checkout that is not
installed, `plugins/tideline_plugin.py` does.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from tideline.airflow import preload


class TidelinePlugin(AirflowPlugin):
    """Registers what has to run before Airflow forks, and the page."""

    name = "tideline"
    listeners = [preload]  # noqa: RUF012 - Airflow's base class has it so
    external_views = [  # noqa: RUF012
        {
            "name": "Tideline",
            "href": "/tideline/",
            "destination": "nav",
            "url_route": "tideline",
        },
        {
            "name": "Stream",
            "href": "/tideline/?stream={DAG_ID}",
            "destination": "dag",
            "url_route": "tideline-stream",
        },
    ]

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """The page, built where Airflow's server asks for it: no other process needs it."""
        from tideline.page.app import PREFIX, build_app

        return [{"app": build_app(), "url_prefix": PREFIX, "name": "tideline"}]
