"""A rewind, and what was decided about the current table since the run that it goes back to."""

from datetime import timedelta

import pytest

from tideline.errors import FoldingHalted
from tideline.pipeline.run_batch import fold_batch

DECODE = {"value": {"format": "json"}, "quarantine": {"max_share": 1}}
CURRENT = {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}}
_SECONDS = (100, 101, 102, 50, 51, 52)


def rows(memory):
    return {
        r.change.key: (r.change.identity.partition, r.change.offset, r.change.is_deleted)
        for r in memory.current.rows()
    }


@pytest.fixture
def halted(memory):
    """Run two has moved a key into another partition, and somebody has decided: by time."""
    memory.grow(2)
    memory.configure(decode=DECODE, current=CURRENT)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    times = [memory.clock.now() + timedelta(seconds=s) for s in _SECONDS]
    memory.send_at(*times, partition=1)
    stamps = [round(at.timestamp() * 1000) for at in times]
    memory.times.update(zip(range(1, len(stamps) + 1), stamps, strict=True))
    memory.run("one")
    memory.then = rows(memory)
    memory.strays.add(len(memory.origins))
    memory.send(1, 0)
    with pytest.raises(FoldingHalted):
        memory.run("two")
    (incident,) = memory.ledger().read().folding.incidents
    memory.decide("by_time", incident.incident_id)
    return memory


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_rewind_takes_a_decision_about_the_order_back(halted, is_carried_out):
    """The clock had gone back: by time, the rows of run one are others."""
    if is_carried_out:
        fold_batch(halted.open("fold"), "due")
        assert rows(halted) != halted.then
    halted.rewind("one")
    assert halted.ledger().read().open_incidents == ()
    fold_batch(halted.open("later"), "due")
    assert (rows(halted), halted.ledger().read().folding.order) == (halted.then, "offset")
    assert halted.is_clean()
