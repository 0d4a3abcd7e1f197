"""The page's questions to a ledger: one of each kind at a time; others wait, or share it."""

import threading
from types import SimpleNamespace

import pytest

from tideline.page import sources
from tideline.page.sources import Sources


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Sources of one stream, whose ledger answers once it may."""
    (tmp_path / "s.yaml").write_text("stream: s\nkafka: {topics: [t]}\ntable: {uri: /lake/s}\n")
    monkeypatch.setattr(sources, "open_ledger", lambda stream: "the ledger")
    may, begun = threading.Event(), []

    def question(ledger):
        begun.append(ledger)
        may.wait(20)
        return "answered"

    found = Sources(tmp_path)
    yield SimpleNamespace(may=may, begun=begun, ask=lambda *a: found.ask("s", question, *a))
    may.set()


def test_whoever_asks_the_same_shares_the_answer_and_others_wait(asked):
    """Sixteen connections of one viewer are one question."""
    first, mine = asked.ask("record", 5)
    assert mine
    for _ in range(16):
        assert asked.ask("record", 5) == (first, True)
        assert asked.ask("record", 6) == (first, False)
    other, is_other = asked.ask("runs", 50)
    asked.may.set()
    assert (first.result(20), other.result(20), is_other) == ("answered", "answered", True)
    later, is_later = asked.ask("record", 6)
    assert (later is not first, is_later) == (True, True)
    assert later.result(20) == "answered"
    assert len(asked.begun) == 3
