"""The stream's position, shown on the asset's page in Airflow; nothing reads it back.

The ledger is the authority: the asset state store has no compare-and-set, and it loses its rows
when a Dag file does not parse.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset

from tideline.landing.context import log
from tideline.ledger.ledger import Ledger

_SHOWN = 500
"""Partitions; Airflow limits a value of this store to 64 KiB by default."""


def show_position(context: Any, asset: Asset, ledger: Ledger, offset_lag: int) -> None:
    """Put head and lag into the asset state store; an error is logged and fails no run."""
    try:
        positions = ledger.read().head.positions
        shown = {f"{p.topic}-{p.partition}": p.next_offset for p in positions[:_SHOWN]}
        state = context["asset_state_store"][asset]
        state.set("next_offsets", shown)
        state.set("offset_lag", offset_lag)
        state.set("partitions", len(positions))
    except Exception as error:
        log.warning("the asset's page does not show the new position: %s", error)
