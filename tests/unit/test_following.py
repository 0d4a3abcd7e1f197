"""Topics that the stream file does not mean any more; names decide, and no broker."""

from dataclasses import replace

import pytest

from tests.worlds.build import NOW, OTHER_ID, head, observation, position, seen, topic
from tideline.errors import BadInput
from tideline.model.head import Head
from tideline.model.incident import Decision, Finding, Incident
from tideline.model.request import RequestedRange
from tideline.rules.backfill import asked_by_ranges
from tideline.rules.incidents import triage
from tideline.rules.positions import (
    followed_otherwise,
    is_followed,
    is_set_aside,
    mark_followed,
    only_followed,
)
from tideline.rules.reset_detection import find_resets
from tideline.stream.landing import Kafka

ORDERS = Kafka(topics=["orders"])
BOTH = Kafka(topics=["orders", "pay"])
HEAD = head(
    position(100), position(7, 1), position(5, topic="pay", topic_id=OTHER_ID), position(0, 2)
)


def pattern(text):
    return Kafka(topic_pattern=text)


@pytest.mark.parametrize(
    ("kafka", "followed"),
    [
        (BOTH, {"orders", "pay"}),
        (ORDERS, {"orders"}),
        (Kafka(topics=["other"]), set()),
        (pattern(".*"), {"orders", "pay"}),
        (pattern("ord.*|pay"), {"orders", "pay"}),
        (pattern("order"), set()),  # the whole name
        (pattern("orders|pa"), {"orders"}),
    ],
)
def test_a_name_decides(kafka, followed):
    """In the list, or matched as a whole; what a cluster lists has no part in it."""
    assert {t for t in ("orders", "pay") if is_followed(t, kafka)} == followed
    assert {p.topic for p in only_followed(HEAD, kafka).positions} == followed
    assert set(mark_followed(HEAD, kafka).set_aside) == {"orders", "pay"} - followed


def test_marking_moves_no_position():
    """Nor anything else that a run decides by."""
    marked = mark_followed(HEAD, ORDERS)
    assert replace(marked, set_aside=()) == HEAD
    assert marked.digest == HEAD.digest
    assert mark_followed(marked, BOTH) == HEAD
    assert mark_followed(HEAD, BOTH) is HEAD


def test_each_change_is_told_once():
    """With where landing goes on, and which key of the file it is about."""
    aside = mark_followed(HEAD, ORDERS)
    (out,) = followed_otherwise(HEAD, aside, ORDERS)
    assert (out.kind, out.topic, out.partition) == ("topic_set_aside", "pay", None)
    assert "kafka.topics does not name it" in out.text
    assert "(0: 5)" in out.text
    assert followed_otherwise(aside, aside, ORDERS) == ()
    (back,) = followed_otherwise(aside, HEAD, BOTH)
    assert (back.kind, back.topic) == ("topic_taken_up", "pay")
    by_pattern = mark_followed(aside, pattern("pay"))
    said = followed_otherwise(aside, by_pattern, pattern("pay"))
    assert [n.kind for n in said] == ["topic_set_aside", "topic_taken_up"]
    assert "kafka.topic_pattern does not match it" in said[0].text
    retired = replace(aside, positions=tuple(p for p in HEAD.positions if p.topic == "orders"))
    assert followed_otherwise(retired, replace(retired, set_aside=()), BOTH) == ()
    assert followed_otherwise(Head(), Head(), BOTH) == ()


def test_a_followed_topic_that_is_not_listed_is_missed_and_one_set_aside_is_not():
    """R14: a deleted topic still matches; forgetting it would pass over what it lost."""
    listed = observation(topic(seen(end=100), seen(end=7, partition=1), seen(0, 9, 2)))
    gone = observation(*listed.topics, topic(name="pay", topic_id=None))

    def found(kafka, observed):
        followed = only_followed(HEAD, kafka)
        return [f.kind for f in find_resets(followed, observed, stream="s", ledger_id="l")]

    assert found(pattern(".*"), gone) == ["topic_missing"]
    assert found(pattern(".*"), listed) == ["transient"]  # nobody has said what it is
    assert found(ORDERS, listed) == []


def test_an_incident_of_a_topic_set_aside_halts_nobody():
    """Neither the run that opened it; a decision is still carried out."""
    finding = Finding("topic_recreated", "e", "a", "pay", OTHER_ID)
    incident = Incident("incident-1", "run-1", NOW, finding)
    other = replace(incident, incident_id="incident-2", finding=replace(finding, topic="orders"))
    table = replace(incident, finding=Finding("table_changed", "e", "a"))
    assert [is_set_aside(i, ORDERS) for i in (incident, other, table)] == [True, False, False]

    def sorted_by(policy, *incidents, aside=frozenset({"incident-1"}), can_ask=False):
        return triage(
            incidents,
            policies={"topic_recreated": policy},
            proceed=False,
            run_id="run-1",
            now=NOW,
            can_ask=can_ask,
            set_aside=aside,
        )

    for policy in ("fail", "approve"):
        assert sorted_by(policy, incident, other, can_ask=True).left_open == (incident,)
    assert sorted_by("fail", incident, other).halting == (other,)
    assert sorted_by("fail", incident, aside=frozenset()).halting == (incident,)
    kept = replace(incident, decision=Decision("fail", "ann", NOW))
    assert sorted_by("approve", kept).left_open == (kept,)
    decided = replace(incident, decision=Decision("restart", "ann", NOW))
    assert sorted_by("fail", decided).decided == (decided,)


def test_ranges_of_a_topic_set_aside_are_refused_and_say_what_to_do():
    """Nobody follows it, so nobody would notice what happens to it."""
    aside = only_followed(mark_followed(HEAD, ORDERS), ORDERS)
    with pytest.raises(BadInput, match="does not mean its topic any more; put it back; allowed"):
        asked_by_ranges([RequestedRange("pay", 0, 0, 3)], aside, observation(), "read_uncommitted")
    with pytest.raises(BadInput, match="does not follow this partition; allowed"):
        asked_by_ranges([RequestedRange("none", 0, 0, 3)], aside, observation(), "read_uncommitted")
