"""Records that Spark cannot read: found by offset, skipped by a decision, recorded as lost."""

import pytest

from tests.worlds.memory import one_range, spans
from tests.worlds.streams import gap_reasons
from tideline.errors import ReplayUnavailable, ResetDetected
from tideline.model.offsets import total

ACCEPT = {"unreadable_record": "accept_loss"}
AROUND = [0, 1, 2, 3, 5, 6, 7, 8, 9]


def broken(world, *offsets, count=10, partition=0):
    """More records, of which some cannot be read."""
    first = world.log(partition).end
    world.send(count, partition)
    world.spoil(*(first + offset for offset in offsets), partition=partition)


def lost(world):
    """How many offsets are recorded as lost, and how many of them as unreadable."""
    head = world.ledger().read().head
    parts = (head.accepted_loss, head.unreadable)
    return [total(r for _, r in part.pieces) for part in parts]


@pytest.mark.parametrize("at", [[4], [0], [9], [3, 7], [4, 5]], ids=str)
def test_exactly_the_unreadable_offsets_are_named_and_skipped(memory, at):
    """The run halts at once, later ones start no Spark, and a decision loses these alone."""
    broken(memory, *at)
    with pytest.raises(ResetDetected, match="unreadable_record"):
        memory.run("halted")
    found = memory.incident.finding.intervals
    assert [o for r in found for o in range(r.start_offset, r.end_offset)] == at
    assert memory.table.files == {}
    submits = memory.submits
    assert memory.halts("later") == ["unreadable_record"]
    assert (memory.submits, memory.head) == (submits, {("orders", 0): 0})
    memory.decide("accept_loss", by="ann")
    record = memory.run("decided")
    assert (record.status, record.plan.run_id, memory.submits) == ("done", "halted", submits + 1)
    assert gap_reasons(record) == {"accepted": len(at)}
    assert memory.offsets() == [o for o in range(10) if o not in at]
    assert lost(memory) == [len(at)] * 2
    (incident,) = memory.closed
    assert (incident.decision.by, incident.outcome[:5]) == ("ann", "lost:")
    assert memory.is_clean()


def test_the_partitions_beside_it_go_on(memory):
    """on_incident: proceed lands them; the decision lands what is around the offset."""
    memory.grow(3)
    memory.configure(on_incident="proceed")
    for partition in range(3):
        broken(memory, *([2] if partition == 1 else []), count=6, partition=partition)
    with pytest.raises(ResetDetected, match="unreadable_record"):
        memory.run("halted")
    memory.send(3, partition=1)
    assert spans(memory.run("beside")) == [(0, 0, 6), (2, 0, 6)]
    assert memory.run("halted").status == "superseded"
    memory.decide("accept_loss")
    assert spans(memory.run("decided")) == [(1, 0, 9)]
    assert list(memory.head.values()) == [6, 9, 6]
    assert memory.offsets(1) == [0, 1, 3, 4, 5, 6, 7, 8]
    assert memory.is_clean()


def test_a_decided_loss_is_not_read_again(memory):
    """A replay and a backfill go around it, and land the same rows once."""
    broken(memory, 4)
    with pytest.raises(ResetDetected):
        memory.run("halted")
    memory.decide("accept_loss")
    for _ in range(2):
        memory.run("decided")
    record = memory.run("backfill", **one_range(0, 10))
    assert (record.status, gap_reasons(record)) == ("done", {"accepted": 1})
    assert memory.run("alone", **one_range(4, 5)).status == "done"
    assert memory.offsets() == AROUND
    assert memory.is_clean()


def test_a_backfill_s_unreadable_records_are_its_own(memory):
    """They do not stop the live lane; the same backfill carries the decision out."""
    memory.configure(start="latest")
    broken(memory, 4, count=6)
    memory.run("first")
    with pytest.raises(ResetDetected, match="unreadable_record"):
        memory.run("backfill", **one_range(0, 6))
    memory.send(4)
    assert spans(memory.run("live")) == [(0, 6, 10)]
    memory.decide("accept_loss")
    assert memory.run("backfill", **one_range(0, 6)).status == "done"
    assert memory.offsets() == AROUND
    assert memory.is_clean()


def test_a_policy_skips_them_at_once(memory):
    """on_reset.unreadable_record: accept_loss; the same run lands the rest."""
    memory.configure(on_reset=ACCEPT)
    broken(memory, 4, 8)
    assert memory.run("run").status == "done"
    assert memory.offsets() == [0, 1, 2, 3, 5, 6, 7, 9]
    assert [i.decision.by for i in memory.closed] == ["policy"]
    assert memory.is_clean()


def test_a_person_may_have_them_read_once_more(memory):
    """`retry` loses nothing; what still fails is a new incident. So is it after a rewind."""
    memory.send(5)
    memory.run("before")
    broken(memory, 2, count=5)
    with pytest.raises(ResetDetected):
        memory.run("halted")
    memory.decide("retry")
    with pytest.raises(ResetDetected):
        memory.run("again")
    assert (memory.incident.incident_id, lost(memory)) == ("incident-2", [0, 0])
    memory.decide("accept_loss")
    memory.run("decided")
    memory.rewind("before")
    assert (memory.offsets(), lost(memory)) == ([0, 1, 2, 3, 4], [0, 0])
    with pytest.raises(ResetDetected):
        memory.run("anew")
    memory.decide("accept_loss")
    memory.run("decided anew")
    assert memory.offsets() == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert memory.is_clean()


def test_rows_that_can_no_longer_be_read_stay(memory):
    """A replay halts and names the offsets; a backfill lands what can be read around them."""
    memory.send(7)
    memory.run("landed")
    memory.spoil(4, 5)
    version = memory.version
    with pytest.raises(ReplayUnavailable, match=r"cannot be read again.*\[4, 5\).*\[5, 6\)"):
        memory.run("landed")
    assert (memory.version, memory.incidents) == (version, ())
    assert memory.run("backfill", **one_range(0, 7)).status == "done"
    assert (memory.offsets(), lost(memory)) == (list(range(7)), [0, 0])
    assert memory.is_clean()
