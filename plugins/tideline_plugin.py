"""Airflow executes this file in each of its processes: keep it light."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution


def _is_installed() -> bool:
    """Whether Airflow finds the plugin by the package's entry point; it would warn of a second."""
    try:
        return any(e.group == "airflow.plugins" for e in distribution("tideline").entry_points)
    except PackageNotFoundError:
        return False


if not _is_installed():
    from tideline.airflow.plugin import TidelinePlugin as TidelinePlugin
