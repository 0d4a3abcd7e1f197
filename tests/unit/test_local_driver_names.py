"""Which runs meet the same driver: what its name is made of, and what it is started with."""

import os

import pytest

from tests.worlds.fake_drivers import run
from tideline.errors import ServiceAway
from tideline.launch import local_driver


@pytest.mark.parametrize("name", ["AWS_REGION", "TIDELINE_CACHE", "SPARK_LOCAL_DIRS", "TZ"])
def test_another_environment_has_another_driver(fake, monkeypatch, name):
    run()
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")  # of a task, not of a driver
    monkeypatch.setenv("TIDELINE_STREAMS", "elsewhere")  # of a run
    monkeypatch.setenv("TIDELINE_OF_SOMEBODY", "x")
    run()
    assert len(fake.started) == 1
    monkeypatch.setenv(name, "other")
    run()
    assert len(fake.started) == 2


def test_another_version_or_master_has_another_driver(fake, monkeypatch):
    run()
    run(master="local[3]")
    assert len(fake.started) == 2
    monkeypatch.setattr(local_driver, "source_digest", lambda: "newer")
    run()
    assert len(fake.started) == 3


def test_jars_or_java_replaced_under_their_names_have_another_driver(fake, tmp_path):
    """An upgrade in place: the driver that runs has loaded half of the old ones."""
    run()
    (tmp_path / "a.jar").write_text("newer")
    run()
    os.utime(tmp_path / "a.jar", (1, 1))
    run()
    assert len(fake.started) == 3
    (tmp_path / "a.jar").unlink()
    with pytest.raises(ServiceAway, match="upgrade"):
        run()


def test_another_umask_has_another_driver(fake):
    """It decides who may read a table's files, and would depend on who came first."""
    run()
    before = os.umask(0o077)
    try:
        run()
        run()
    finally:
        os.umask(before)
    assert len(fake.started) == 2


def test_a_driver_can_name_every_file(monkeypatch):
    """Java takes its encoding of names from the language, and cron sets none."""
    monkeypatch.setenv("LC_ALL", "POSIX")
    assert local_driver._environment(None)["LC_ALL"] == "C.UTF-8"


def test_a_log_that_somebody_has_tidied_away_stops_nobody(fake, sockets):
    """Tools that tidy /tmp remove a file that nobody has written for days."""
    run()
    (log,) = sockets.glob("*.log")
    log.unlink()
    (sockets / "lock").unlink()
    run()
    assert len(fake.started) == 1


def test_a_driver_gets_absolute_paths(monkeypatch):
    """It works in another folder."""
    monkeypatch.setenv("TIDELINE_CACHE", "cache")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["plugins", "", "/dags"]))
    found = local_driver._environment(None)
    assert found["TIDELINE_CACHE"] == os.path.abspath("cache")
    assert found["PYTHONPATH"] == os.pathsep.join([os.path.abspath("plugins"), "/dags"])
