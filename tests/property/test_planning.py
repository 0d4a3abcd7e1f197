"""Whatever arrives between runs, plans tile, keep to the caps, and starve nobody."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import head, observation, plan, position, seen, topic
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange, total
from tideline.model.run import TableCommit
from tideline.rules.advance import advance_head
from tideline.rules.planning import plan_ranges, share_fairly
from tideline.rules.reset_detection import find_resets

amounts = st.lists(st.integers(0, 1000), max_size=8)


@given(amounts, st.integers(0, 3000), st.integers(0, 20))
def test_shares_are_fair(available, budget, turn):
    """Nobody gets more than it has, all of the budget is used, and no one is short-changed."""
    shares = share_fairly(available, budget, turn)
    assert all(0 <= s <= a for s, a in zip(shares, available, strict=True))
    assert sum(shares) == min(budget, sum(available))
    short = [s for s, a in zip(shares, available, strict=True) if s < a]
    if short:
        assert max(shares) - min(short) <= 1


@given(st.lists(st.integers(1, 50), min_size=2, max_size=6))
def test_nobody_starves_under_the_smallest_budget(available):
    """With one record per run, every partition is served within as many runs as there are."""
    served = set()
    for turn in range(len(available)):
        served |= {i for i, s in enumerate(share_fairly(available, 1, turn)) if s}
    assert served == set(range(len(available)))


TABLE = TableObservation(True, "t", 1, "orders", "l", token=1)
arrivals = st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=1, max_size=8)


@given(arrivals, st.integers(1, 60), st.integers(1, 60))
def test_runs_tile_the_log(batches, per_run, per_partition):
    """Ranges of successive runs meet exactly: no offset twice, none left out below the head."""
    known = head(*(position(0, partition=p) for p in range(3)))
    ends = [0, 0, 0]
    landed = {p: [] for p in range(3)}
    for batch in [*batches, *[[0, 0, 0]] * 300]:
        ends = [end + more for end, more in zip(ends, batch, strict=True)]
        partitions = (seen(end=ends[p], partition=p) for p in range(3))
        now = observation(topic(*partitions), table=TABLE)
        assert not find_resets(known, now, stream="orders", ledger_id="l")
        proposal = plan_ranges(
            known,
            now,
            isolation_level="read_committed",
            max_records_per_run=per_run,
            max_records_per_partition=per_partition,
        )
        assert proposal.estimated_records <= per_run
        assert all(len(r.offsets) <= per_partition for r in proposal.ranges)
        frozen = replace(plan(), ranges=proposal.ranges)
        for planned in proposal.ranges:
            landed[planned.partition].append(planned.offsets)
        known = advance_head(known, frozen, TableCommit("t", 1, 1, 1, 1))
        if not proposal.ranges and batch == [0, 0, 0]:
            break
    for p in range(3):
        assert sum(len(r) for r in landed[p]) == total(landed[p]) == ends[p]
        assert known.positions[p].next_offset == ends[p]
        assert all(isinstance(r, OffsetRange) for r in landed[p])
