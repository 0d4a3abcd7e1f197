"""What Airflow's asset page shows can never fail a run."""

import pytest

from tests.worlds.build import ID
from tideline.airflow.telemetry import show_position
from tideline.errors import ServiceAway
from tideline.model.head import Head, PartitionPosition


class Ledger:
    """With one position, or away."""

    def __init__(self, away=False):
        self.away = away

    def read(self):
        if self.away:
            raise ServiceAway("away")
        self.head = Head(positions=(PartitionPosition("orders", ID, 0, 0, 7),))
        return self


class Store:
    """Of one asset, or in trouble."""

    def __init__(self, away=False):
        self.away = away
        self.values = {}

    def __getitem__(self, asset):
        if self.away:
            raise KeyError(asset)
        return self

    def set(self, key, value):
        self.values[key] = value


def test_head_and_lag_are_shown():
    """By topic and partition."""
    store = Store()
    show_position({"asset_state_store": store}, None, Ledger(), 3)
    assert store.values == {"next_offsets": {"orders-0": 7}, "offset_lag": 3, "partitions": 1}


@pytest.mark.parametrize(
    ("context", "ledger"),
    [
        ({}, Ledger()),
        ({"asset_state_store": Store(away=True)}, Ledger()),
        ({"asset_state_store": Store()}, Ledger(away=True)),
    ],
)
def test_what_cannot_be_shown_fails_nothing(context, ledger):
    """The position is in the ledger already."""
    show_position(context, None, ledger, 0)
