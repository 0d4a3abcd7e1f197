"""Where the stream stands, on the asset's page in Airflow. For people: nothing is read back.

The asset state store has no compare-and-set, and a Dag file that does not parse loses its rows;
the ledger is the authority.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset

from tideline.ledger.ledger import Ledger
from tideline.pipeline.context import log

_SHOWN = 500
"""Partitions; Airflow holds a value of this store to 64 KiB as a rule."""


def show_position(context: Any, asset: Asset, ledger: Ledger, offset_lag: int) -> None:
    """Put head and lag into the asset state store; a courtesy, so it never fails a run."""
    try:
        positions = ledger.read().head.positions
        shown = {f"{p.topic}-{p.partition}": p.next_offset for p in positions[:_SHOWN]}
        state = context["asset_state_store"][asset]
        state.set("next_offsets", shown)
        state.set("offset_lag", offset_lag)
        state.set("partitions", len(positions))
    except Exception as error:
        log.warning("the asset's page does not show the new position: %s", error)
