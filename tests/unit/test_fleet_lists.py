"""Which topics a fleet has, and which of two fleets lands one that both mean."""

from dataclasses import replace

import pytest

from tests.worlds.build import ID, NOW
from tideline.errors import BadInput, StreamFileError
from tideline.fleet import discovery
from tideline.fleet.discovery import discover
from tideline.model.fleet import seen_again
from tideline.stream.contents import keep_topics
from tideline.stream.files import contents_in, read_file, read_fleet, read_stream
from tideline.wiring import open_ledger

FLEET = """\
fleet: {fleet}
topic_pattern: .*
stream:
  stream: "{{topic}}"
  table: {{uri: "{folder}/{fleet}/{{topic}}"}}
"""


@pytest.fixture
def write(tmp_path):
    def write(fleet, *topics):
        path = tmp_path / f"{fleet}.yaml"
        path.write_text(FLEET.format(fleet=fleet, folder=tmp_path))
        if topics:
            found = dict.fromkeys(topics, ID)
            keep_topics(read_file(path).fleet, path, seen_again(None, fleet, found, NOW))
        return path

    return write


def test_a_list_that_was_lost_is_not_made_anew_in_silence(write, tmp_path, monkeypatch):
    """A topic that is gone would be forgotten with its incident; somebody may say that none is."""
    path = write("shop", "a", "gone")
    stream = read_stream(path, "a")
    open_ledger(stream).update(lambda state: replace(state, head=replace(state.head, live_runs=1)))
    (tmp_path / "shop.topics.json").unlink()
    monkeypatch.setattr(discovery, "_found", lambda *_: {"a": ID})
    with pytest.raises(
        BadInput, match=r"stream a has a ledger: the list of topics was lost.*--new-list"
    ):
        discover(path)
    assert not (tmp_path / "shop.topics.json").exists()
    assert discover(path, is_list_new=True).new == ("a",)
    assert discover(path).new == ()


def test_a_first_look_finds_no_ledgers(write, monkeypatch):
    monkeypatch.setattr(discovery, "_found", lambda *_: {"a": ID})
    assert discover(write("shop")).new == ("a",)


def test_a_stream_of_two_fleets_is_landed_by_one(write):
    """Everybody asks the same owner: runs, commands that name it, lists of streams."""
    one, other = write("one", "a", "b"), write("other", "a", "c")
    assert [s.stream for s in read_fleet(one).streams] == ["a", "b"]
    assert [s.stream for s in read_fleet(other).streams] == ["c"]
    assert [s.stream for s in contents_in(other).streams] == ["c"]
    with pytest.raises(StreamFileError, match=r"--stream: got 'a'; allowed: c"):
        read_stream(other, "a")
    assert read_stream(one, "a").table.uri.endswith("/one/a")
