"""What doctor asks of servers ends, whatever they do."""

import threading

import pytest

from tideline.cli import doctor
from tideline.errors import BadInput, ServiceAway
from tideline.launch import progress


def test_a_server_that_drips_is_given_up(monkeypatch):
    monkeypatch.setattr(doctor, "_MOST_SECONDS", 0.1)
    release = threading.Event()
    with pytest.raises(ServiceAway, match="no whole answer within 0 s"):
        doctor._bounded(lambda: str(release.wait(20)))()
    release.set()


def test_what_is_said_and_what_is_raised_come_through():
    def refuses():
        raise BadInput("no such schema")

    assert doctor._bounded(lambda: "it answers")() == "it answers"
    with pytest.raises(BadInput, match="no such schema"):
        doctor._bounded(refuses)()


def test_what_is_waited_for_is_said_once_it_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SAID_AFTER", 0.05)
    with progress.waiting("the brokers of kafka_default"):
        said = ""
        while not said:
            said = capsys.readouterr().err
    assert said == "waiting for the brokers of kafka_default\n"
    monkeypatch.setattr(progress, "_SAID_AFTER", 60)
    with progress.waiting("nothing"):
        pass
    assert capsys.readouterr().err == ""
