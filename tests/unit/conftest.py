"""What tests of the warm driver begin with."""

import sys
import tempfile
from pathlib import Path

import pytest

from tests.worlds.fake_drivers import Fake
from tideline.launch import local_driver


@pytest.fixture
def sockets(monkeypatch):
    """A runtime folder; its path is short, as a socket's has to be."""
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        monkeypatch.setenv("TIDELINE_RUNTIME", folder)
        yield Path(folder)


@pytest.fixture
def fake(tmp_path, monkeypatch, sockets):
    monkeypatch.setenv("TIDELINE_SPARK_JOBS", str(tmp_path))
    monkeypatch.setattr(local_driver, "find_java", lambda: None)
    (tmp_path / "a.jar").touch()
    command = [sys.executable, "-cp", f"{tmp_path}/a.jar"]
    monkeypatch.setattr(local_driver, "base_command", lambda *_: command)
    monkeypatch.setattr(local_driver, "source_digest", lambda: "source")
    driver = Fake(tmp_path)
    yield driver
    driver.end()
