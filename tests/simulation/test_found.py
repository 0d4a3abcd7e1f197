"""Histories that the simulation found, shrunk; each broke a promise once."""

from pathlib import Path

import pytest

from tests.simulation.histories import History, play

FOUND = sorted(Path(__file__).with_name("found").glob("*.history"))


@pytest.mark.parametrize("file", FOUND, ids=lambda f: f.stem)
def test_what_was_found_once_ends_well(file):
    """Every line of the file is an event; `python -m tests.simulation --replay` tells more."""
    assert play(History.load(file.read_text())).problems == []
