"""What doctor asks of servers ends, whatever they do."""

import io
import threading
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from tideline.cli import doctor
from tideline.errors import BadInput, ServiceAway
from tideline.model.catalog import CatalogEntry
from tideline.stream.files import parse_stream
from tideline.waits import _Wait, waiting


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


def test_every_name_is_asked_for():
    """One that points elsewhere is told, whichever table has it; a missing one is no fault."""
    text = """
stream: orders
kafka: {topics: [orders]}
table: {uri: /lake/orders}
decode: {value: {format: json}}
catalog: {connection: c, name: raw.orders}
"""
    stream = parse_stream(text, "orders.yaml")
    entries = {}
    catalog = SimpleNamespace(find=lambda name: entries.get(str(name)))
    run = SimpleNamespace(stream=stream, connect_catalog=lambda: catalog)
    assert doctor._catalog(run).startswith("no table has that name yet")
    for role in ("", "_decoded", "_quarantine"):
        entries[f"raw.orders{role}"] = CatalogEntry(f"/lake/orders{role}", "external", "delta")
    assert doctor._catalog(run) == "3 names as expected"
    entries["raw.orders_decoded"] = CatalogEntry("/elsewhere", "external", "delta")
    with pytest.raises(doctor.Warned, match=r"raw\.orders_decoded points to /elsewhere"):
        doctor._catalog(run)
    del entries["raw.orders_decoded"]
    assert doctor._catalog(run).startswith("no table is called raw.orders_decoded yet")


class Heard(io.StringIO):
    """Standard error, of which a line is waited for: another thread writes it, piece by piece."""

    def __init__(self):
        super().__init__()
        self.pieces = SimpleQueue()

    def write(self, text):
        self.pieces.put(text)
        return len(text)

    def __call__(self):
        """The next line; fails if none comes."""
        said = ""
        while not said.endswith("\n"):
            said += self.pieces.get(timeout=30)
        return said


@pytest.fixture
def told(monkeypatch):
    """What a wait has told, once it has told anything."""
    monkeypatch.setattr("tideline.waits._TOLD_AFTER", 0.3)
    monkeypatch.setattr(_Wait, "are_told", True)
    heard = Heard()
    monkeypatch.setattr("tideline.waits.sys", SimpleNamespace(stderr=heard))  # pytest has its own
    return heard


def test_what_is_waited_for_is_told_once_it_takes_long(monkeypatch, told):
    with waiting("the ledger /lake/orders"):
        assert told() == "waiting for the ledger /lake/orders\n"
    monkeypatch.setattr("tideline.waits._TOLD_AFTER", 60)
    with waiting("nothing"):
        pass
    assert told.pieces.empty()


def test_a_wait_tells_why_the_last_try_has_failed_each_reason_once(told):
    with waiting("Kafka at a:1", 60) as failed:
        assert told() == "waiting for Kafka at a:1; trying for 1 min\n"
        for _ in range(3):
            failed("a:1: connection refused")
        assert told() == "waiting for Kafka at a:1: connection refused; trying for 1 min\n"
    assert told.pieces.empty()


def test_a_wait_inside_another_takes_its_place(told):
    with waiting("kafka kafka_default"), waiting("Kafka at a:1"):
        assert told() == "waiting for Kafka at a:1\n"


def test_nobody_is_told_of_the_waits_of_a_task(monkeypatch, capsys):
    monkeypatch.setattr("tideline.waits._TOLD_AFTER", 0.0)
    monkeypatch.setattr(_Wait, "are_told", False)
    with waiting("Kafka at a:1") as failed:
        failed("connection refused")
    assert capsys.readouterr().err == ""
