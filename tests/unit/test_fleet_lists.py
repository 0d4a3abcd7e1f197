"""Which topics a fleet has, and which of two fleets lands one that both mean."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.texts import REFUSED_FILE
from tests.worlds.build import ID, NOW
from tideline.airflow.stream_dags import stream_dags
from tideline.cli import doctor
from tideline.errors import BadInput, StreamFileError
from tideline.fleet import discovery
from tideline.fleet.discovery import discover
from tideline.model.fleet import update_topics
from tideline.stream.contents import keep_topics
from tideline.stream.files import (
    contents_in,
    find_fleet,
    find_stream,
    find_streams,
    read_file,
    read_fleet,
    read_stream,
    stream_paths,
)
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
            keep_topics(read_file(path).fleet, path, update_topics(None, fleet, found, NOW))
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


@pytest.mark.parametrize(
    ("place", "ledger"),
    [
        ("{folder}/lake/{{topic}}", ""),
        ("{folder}/lake/x-{{topic}}-y/raw", ""),
        ("{folder}/lake/{{topic}}", "ledger_uri: '{folder}/ledgers/{{topic}}/l'"),
    ],
)
def test_a_lost_list_is_missed_also_if_all_its_topics_are_gone(
    tmp_path, monkeypatch, place, ledger
):
    """By what stands where the template puts ledgers, whatever else stands there."""
    path = tmp_path / "shop.yaml"
    text = f"""\
fleet: shop
topic_pattern: s-.*
stream:
  stream: "{{{{topic}}}}"
  table: {{{{uri: "{place}"}}}}
  {ledger}
"""
    path.write_text(text.format(folder=tmp_path))
    keep_topics(read_file(path).fleet, path, update_topics(None, "shop", {"s-gone": ID}, NOW))
    open_ledger(read_stream(path, "s-gone")).update(
        lambda s: replace(s, head=replace(s.head, live_runs=1))
    )
    (tmp_path / "shop.topics.json").unlink()
    for other in ("lake/s-new", "lake/other.ledger", "ledgers/s-new"):
        (tmp_path / other).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(discovery, "_found", lambda *_: {"s-new": ID})
    with pytest.raises(BadInput, match="stream s-gone has a ledger: the list of topics was lost"):
        discover(path)


def test_a_first_look_finds_no_ledgers(write, monkeypatch):
    monkeypatch.setattr(discovery, "_found", lambda *_: {"a": ID})
    assert discover(write("shop")).new == ("a",)


def test_a_topic_called_like_a_fleet_takes_nothing_from_it(write, tmp_path, monkeypatch):
    """Nor from a stream with a file; whoever looks for topics is told, and keeps no such name."""
    whole = write("all", "x")
    (tmp_path / "pay.yaml").write_text(
        "stream: pay\nkafka: {topics: [pay], connection: other}\ntable: {uri: /lake/pay}\n"
    )
    (tmp_path / "own.yaml").write_text(
        "stream: own\nkafka: {topics: [own]}\ntable: {uri: /lake/own}\n"
    )
    lab = write("lab", "b")
    found = dict.fromkeys(("all", "b", "own", "pay", "x"), ID)
    monkeypatch.setattr(discovery, "_found", lambda *_: found)
    told = discover(lab)
    assert [t.name for t in told.topics.topics] == ["b", "own"]
    assert [problem.partition("stream: got ")[2] for problem in told.refused] == [
        "'all'; another name: all.yaml is a fleet of that name (topic all)",
        "'pay'; another name: pay.yaml has a stream of that name, of another topic (topic pay)",
        "'x'; another name: all.yaml has a stream of that name, of another topic (topic x)",
    ]
    keep_topics(read_file(lab).fleet, lab, update_topics(None, "lab", found, NOW - timedelta(1)))
    assert [s.stream for s in read_fleet(lab).streams] == ["b", "x"]  # seen first, by that list
    assert [str(p).partition("got ")[2][:5] for p in read_fleet(lab).problems] == [
        "'all'",
        "'pay'",
    ]
    assert [s.stream for s in read_fleet(whole).streams] == []
    assert find_fleet("all", tmp_path)[1] == whole
    with pytest.raises(BadInput):
        find_stream("all", tmp_path)
    assert find_stream("pay", tmp_path).kafka.connection == "other"
    assert discover(lab).refused == ()  # they are in the list, and stay a problem of the fleet


@pytest.mark.parametrize("broken", ["typo: 1\n", "a: [\n"], ids=["a wrong key", "no YAML"])
def test_a_refused_file_keeps_its_stream_whatever_it_is_called(write, tmp_path, broken):
    """No fleet takes it, of another cluster, with other operators."""
    path = write("lab", "payments")
    own = tmp_path / "pay.yaml"
    own.write_text(f"{OWN}{broken}")
    assert read_fleet(path).streams == ()
    assert {d.dag_id for d in stream_dags(None, tmp_path)} == {"lab", "pay"}
    with pytest.raises(BadInput, match=REFUSED_FILE):
        find_stream("payments", tmp_path)
    own.write_text(f"{own.read_text().replace('stream', 'fleet', 1)}")
    assert read_fleet(path).streams == ()


def test_while_a_fleet_s_file_is_refused_no_other_fleet_takes_new_topics(
    write, tmp_path, monkeypatch
):
    """They may be the other's, which has seen them first."""
    path, other = write("lab", "a"), write("shop", "orders")
    other.write_text(f"{other.read_text()}typo: 1\n")
    monkeypatch.setattr(discovery, "_found", lambda *_: {"a": ID, "orders": ID})
    found = discover(path)
    assert (found.new, [t.name for t in found.topics.topics]) == ((), ["a"])
    assert "shop.yaml is refused, and may have it" in str(found.refused)
    other.write_text(other.read_text().replace("typo: 1\n", ""))
    assert "shop.yaml has a stream of that name" in str(discover(path).refused)


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    """`glob` finds nothing there, and no Dag would say so."""
    monkeypatch.setattr(os, "scandir", lambda path: Path(path, "nowhere").stat())
    with pytest.raises(BadInput, match="cannot be listed"):
        stream_paths(tmp_path)


def test_a_doctor_tells_topics_that_no_stream_lands(write, tmp_path):
    """No service can: it would be asked for none of them."""
    path = write("lab", "pay", "ok")
    (tmp_path / "pay.yaml").write_text(OWN.replace("payments", "pay").replace("[pay]", "[else]"))
    found = {"lab.yaml": contents_in(path), "new.yaml": contents_in(write("new"))}
    lines = list(doctor._of_files(found))
    assert [(line.state, line.place) for line in lines] == [
        ("failed", "lab.yaml"),
        ("warning", "new.yaml"),
    ]
    assert "pay.yaml has a stream of that name" in lines[0].text


OWN = """\
stream: payments
kafka: {topics: [payments]}
table: {uri: /data/b/payments}
"""


def test_of_three_topics_that_meet_the_first_one_stays(tmp_path):
    """Also where the second one stands between them, and is the last to come."""
    path = tmp_path / "shop.yaml"
    path.write_text(
        "fleet: shop\ntopic_pattern: '.*'\nnames: {a: x, b: x, c: x}\n"
        "stream: {stream: '{name}', table: {uri: '/lake/{topic}'}}\n"
    )
    known = None
    for day in range(3):
        there = dict.fromkeys("acb"[: day + 1], ID)
        known = update_topics(known, "shop", there, NOW + timedelta(day))
    keep_topics(read_file(path).fleet, path, known)
    assert read_fleet(path).topics == ("a",)


def test_a_list_is_missed_where_names_and_overrides_name_topics_that_are_gone(
    tmp_path, monkeypatch
):
    """Addresses tell no topic there; the file itself does."""
    path = tmp_path / "shop.yaml"
    path.write_text(
        "fleet: shop\ntopic_pattern: 's.*'\nnames: {s.orders.v2: orders}\n"
        f"stream: {{stream: '{{name}}', table: {{uri: '{tmp_path}/{{name}}'}}}}\n"
    )
    keep_topics(read_file(path).fleet, path, update_topics(None, "shop", {"s.orders.v2": ID}, NOW))
    stream = read_stream(path, "orders")
    open_ledger(stream).update(lambda s: replace(s, head=replace(s.head, live_runs=1)))
    (tmp_path / "shop.topics.json").unlink()
    monkeypatch.setattr(discovery, "_found", lambda *_: {"s.new": ID})
    with pytest.raises(BadInput, match="stream orders has a ledger"):
        discover(path)


def test_a_pattern_counts_topics_whose_name_is_another_s(write, tmp_path):
    """An erasure would leave their tables out, and say nothing."""
    write("all", "pay", "x")
    (tmp_path / "pay.yaml").write_text(
        "stream: pay\nkafka: {topics: [pay], connection: other}\ntable: {uri: /lake/pay}\n"
    )
    with pytest.raises(BadInput, match="topics of fleets have no stream: 1"):
        find_streams("*", tmp_path)


def test_who_saw_a_topic_first_has_it(write):
    """Whatever the files are called."""
    late, early = write("a", "t"), write("b")
    keep_topics(
        read_file(early).fleet, early, update_topics(None, "b", {"t": ID}, NOW - timedelta(1))
    )
    assert [s.stream for s in read_fleet(early).streams] == ["t"]
    assert read_fleet(late).streams == ()
    assert "b.yaml has a stream of that name" in str(read_fleet(late).problems[0])


def test_a_stream_of_two_fleets_is_landed_by_one(write):
    """Everybody asks the same owner: runs, commands that name it, lists of streams."""
    one, other = write("one", "a", "b"), write("other", "a", "c")
    assert [s.stream for s in read_fleet(one).streams] == ["a", "b"]
    assert [s.stream for s in read_fleet(other).streams] == ["c"]
    assert [s.stream for s in contents_in(other).streams] == ["c"]
    with pytest.raises(StreamFileError, match=r"--stream: got 'a'; allowed: c"):
        read_stream(other, "a")
    assert read_stream(one, "a").table.uri.endswith("/one/a")
