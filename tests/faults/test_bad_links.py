"""Row 19: slow, cut and half-open links at each call: a time-out, and a clean retry."""

import pytest
from kafka.protocol.api_key import ApiKey

from tests.faults import rules
from tests.faults.fault_case import LANDED
from tests.worlds.spark_doubles import HookedSpark
from tests.worlds.streams import head, spans
from tideline.errors import ServiceAway

CALLS = [ApiKey.Metadata, ApiKey.ListOffsets, ApiKey.OffsetForLeaderEpoch]
LINKS = {
    "slow": lambda call, **limits: rules.delay(call, 1.5, **limits),
    "cut": rules.cut,
    "cut after the request": rules.lose_answer,
    "half-open": rules.mute,
}
QUICK = ("half-open", ApiKey.ListOffsets)


CASES = [
    pytest.param(
        link,
        call,
        marks=() if (link, call) == QUICK else pytest.mark.slow,
        id=f"{link}-{call.name}",
    )
    for link in LINKS
    for call in CALLS
]


@pytest.mark.parametrize(("link", "call"), CASES)
def test_a_bad_link_at_a_call(proxy, linked, link, call):
    """The adapter's time-outs and retries; what did not answer is no verdict."""
    linked.follow(patience_seconds=3)
    linked.lands()
    linked.send(20)
    with proxy.applying(LINKS[link](call)) as rule:
        linked.fails(ServiceAway)
    assert rule.applied > 1
    assert linked.is_untouched
    said = linked.said
    proxy.clear()
    rule = proxy.add(LINKS[link](call, times=1))
    assert spans(linked.run()) == [(0, LANDED, LANDED + 20)]
    assert rule.applied == 1
    linked.assert_exact()
    linked.said = said
    linked.judge(19, f"{link} link at {call.name}: for good, then once")


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("call", [ApiKey.Fetch, *CALLS], ids=lambda call: call.name)
def test_a_bad_link_after_the_read(proxy, linked, link, call):
    """R7: without an answer after the read no advance; the next run recovers it without reading."""
    linked.follow(patience_seconds=3)
    linked.lands()
    linked.log.transact(linked.topic, (20, True))  # its marker has to be looked at
    rule = LINKS[link](call)
    linked.fails(ServiceAway, HookedSpark(linked.spark, after=lambda: proxy.add(rule)))
    assert rule.applied > 1
    said = linked.said
    proxy.clear()
    submits = linked.spark.submits
    assert linked.run().status == "nothing_to_do"
    assert linked.spark.submits == submits
    assert head(linked.stream) == {(linked.topic, 0): LANDED + 21}
    linked.assert_exact()
    linked.said = said
    linked.judge(19, f"{link} link at {call.name}, after the read")
