"""The log of a warm driver stays small, also where there is always work."""

import sys
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

import local_driver

WORKS, IS_QUIET = 0.0, 60.0


class System:
    """Java's `System` for one round of questions."""

    asked = collected = 0

    def nanoTime(self):  # noqa: N802
        self.asked += 1
        if self.asked > 1:
            raise ConnectionError("the JVM has ended")

    def gc(self):
        self.collected += 1


@pytest.mark.parametrize(
    ("megabytes", "since_work", "stays"),
    [(2, WORKS, True), (51, WORKS, False), (0.5, IS_QUIET, True), (2, IS_QUIET, False)],
)
def test_a_log_begins_anew(monkeypatch, tmp_path, megabytes, since_work, stays):
    """At once where nothing runs, and at fifty times the size in any case."""
    size, system = int(megabytes * 1_000_000), System()
    session = SimpleNamespace(_jvm=SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace())))
    session._jvm.java.lang.System = system
    driver = object.__new__(local_driver.Driver)
    driver._session = Future()
    driver._session.set_result(session)
    driver._busy = time.monotonic() - since_work
    monkeypatch.setattr(local_driver, "BEAT_SECONDS", 0)
    with open(tmp_path / "log", "a") as log:
        log.truncate(size)
        monkeypatch.setattr(sys, "stdout", log)
        driver._listen_to_jvm()
    assert (tmp_path / "log").stat().st_size == (size if stays else 0)
    assert system.collected == (since_work == IS_QUIET)
