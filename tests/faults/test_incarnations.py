"""Rows 6-8: the topic was deleted and re-created; its offsets begin anew."""

import pytest

from tests.faults.fault_case import LANDED
from tests.faults.oracle import assert_exact
from tests.worlds.spark_doubles import HookedSpark
from tests.worlds.streams import decide


def recreate(fault_case, records):
    """Another topic of the same name, with records of its own."""
    fault_case.harness.delete()
    fault_case.harness.create(partitions=1)
    if records:
        fault_case.send(records)


def assert_names_both_ids(fault_case, finding, old):
    assert finding.topic_id == old
    assert old in finding.expected
    assert fault_case.harness.topic_id() in finding.actual


def test_recreated_below_the_position(fault_case):
    """Detection: the topic id (KIP-516)."""
    fault_case.follow()
    fault_case.lands()
    fault_case.send(50)
    old = fault_case.harness.topic_id()
    recreate(fault_case, 10)
    assert_names_both_ids(fault_case, fault_case.halts("topic_recreated").finding, old)
    assert fault_case.is_untouched
    fault_case.judge(6, "re-created, below the position")


@pytest.mark.slow
def test_recreated_and_refilled_past_the_position(fault_case):
    """Detection: the topic id (KIP-516); epoch and offsets look healthy."""
    fault_case.follow()
    fault_case.lands()
    fault_case.send(50)
    old = fault_case.harness.topic_id()
    recreate(fault_case, 300)
    submits = fault_case.spark.submits
    assert_names_both_ids(fault_case, fault_case.halts("topic_recreated").finding, old)
    assert fault_case.is_untouched
    assert fault_case.spark.submits == submits
    fault_case.judge(7, "re-created, refilled past the position")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_recreated_while_it_was_read(fault_case, moment):
    """R7 after the read: the topic id; Spark reads by name, so its rows are in doubt."""
    fault_case.follow()
    fault_case.lands()
    fault_case.send(50)
    hooked_spark = HookedSpark(fault_case.spark, **{moment: lambda: recreate(fault_case, 300)})
    incident = fault_case.halts("topic_recreated", hooked_spark)
    assert [str(r.offsets) for r in incident.unverified] == [f"[{LANDED}, {LANDED + 50})"]
    assert "unverified rows of plan" in fault_case.said
    fault_case.judge(8, f"re-created between check and check, {moment} Spark read")


@pytest.mark.slow
def test_what_was_read_from_another_incarnation_does_not_stay(fault_case):
    """R6: its unverified rows are removed before the decision takes effect."""
    fault_case.follow()
    fault_case.lands()
    hooked_spark = HookedSpark(fault_case.spark, before=lambda: recreate(fault_case, 300))
    fault_case.send(50)
    unread = {place for place in fault_case.log.written if place[2] >= LANDED}
    incident = fault_case.halts("topic_recreated", hooked_spark)
    decide(fault_case.stream, "restart", incident.incident_id)
    fault_case.run()
    for place in unread:
        del fault_case.log.written[place]
    assert_exact(fault_case.stream, fault_case.log)
    fault_case.judge(8, "re-created before Spark read, then restarted by a decision")
