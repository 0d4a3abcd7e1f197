"""Rewinding any history of live runs and backfills, against sets of offsets."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import ID, NOW, head, plan, planned, position
from tideline.model.offsets import covered_until
from tideline.model.plan import VerifiedRange
from tideline.model.run import Rewind, RunRecord, TableCommit
from tideline.rules.advance import advance_head
from tideline.rules.rewound import observable_groups, rewound_head, undone_ranges

steps = st.lists(
    st.one_of(
        st.tuples(st.just("live"), st.integers(1, 20), st.integers(0, 3)),
        st.tuples(st.just("backfill"), st.integers(0, 80), st.integers(1, 20)),
    ),
    min_size=1,
    max_size=12,
)


def offsets(ranges):
    return [o for r in ranges for o in range(r.start_offset, r.end_offset)]


def held(state):
    return set(offsets(r for _, r in state.coverage.pieces))


def advanced(state, number, lane, one, other):
    """The head after one more run, and the run's record."""
    if lane == "live":
        known = [r for _, r in state.coverage.pieces]
        start = covered_until(known, state.positions[0].next_offset)
        wanted = planned(start, start + one, epoch=3 + other)
    else:
        wanted = planned(one, one + other)
    frozen = plan(wanted, lane=lane, run_id=f"r{number}", plan_id=f"p{number}")
    after = advance_head(state, frozen, TableCommit("t", number, number, 1, 1))
    verified = (VerifiedRange(wanted, len(wanted.offsets)),)
    record = RunRecord(f"r{number}", lane, "done", "d", NOW, plan=frozen, verified=verified)
    return after, record


@given(steps, st.data())
def test_every_offset_gained_since_is_taken_away_once(actions, data):
    """Nothing that was there before, nothing twice; going forward from there works as before."""
    heads, records = [head(position(0), table_id="t")], []
    for number, action in enumerate(actions):
        after, record = advanced(heads[-1], number, *action)
        heads.append(after)
        records.append(record)
    target = data.draw(st.integers(0, len(actions)))
    found = undone_ranges(heads[-1], heads[target], records[target:], {ID: "orders"})
    ranges = [r for group in found.values() for r in group]
    assert sorted(offsets(ranges)) == sorted(held(heads[-1]) - held(heads[target]))
    assert sorted(r for group in observable_groups(ranges) for r in offsets(group)) == sorted(
        offsets(ranges)
    )
    rewind = Rewind("rewind-1", "r", "why", "ann", NOW, "key")
    again = rewound_head(heads[-1], heads[target], rewind, 99)
    assert again.coverage == heads[target].coverage
    assert [p.next_offset for p in again.positions] == [
        p.next_offset for p in heads[target].positions
    ]
    for number, action in enumerate(actions[target:], 100):
        again, _ = advanced(again, number, *action)
    assert compared(again) == compared(heads[-1])


def compared(state):
    """What has to be the same; an end that is not known is where the position is."""
    positions = tuple(replace(p, seen_end=p.proven_end) for p in state.positions)
    counted = {"table_version": 0, "live_runs": 0, "bytes_per_record": 0}
    return replace(state, positions=positions, commits=(), **counted)
