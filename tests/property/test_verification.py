"""Whatever of a range is missing, the rest of it verifies by itself."""

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import planned
from tideline.model.observation import Gap
from tideline.model.offsets import OffsetRange, subtract, union
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import LandedRange
from tideline.rules.verification import compare_ranges, sound_parts

RANGE = planned(0, 40)
spans = st.tuples(st.integers(0, 39), st.integers(1, 12)).map(
    lambda at: OffsetRange(at[0], min(at[0] + at[1], 40))
)
some = st.lists(spans, max_size=6).map(union)


def landed(offsets, surplus=0):
    rows = sum(map(len, offsets)) + surplus
    return {RANGE.identity: LandedRange(RANGE.identity, rows, offsets)}


def verified(item, rows, markers, accepted):
    return compare_ranges(
        [item],
        rows,
        gaps="explain",
        evidence={RANGE.identity: [Gap(r, "marker") for r in markers]},
        accepted_loss=Places({RANGE.identity: accepted}),
    )


@given(some, some, some, some)
def test_the_parts_of_a_range_are_what_is_neither_missing_nor_covered(
    missing, markers, accepted, covered
):
    """Each offset is in a part, or missing without a reason, or verified by another run."""
    stands = subtract([RANGE.offsets], missing)
    good, bad = verified(RANGE, landed(stands), markers, accepted)
    parts = sound_parts(bad, Places({RANGE.identity: covered}))
    unexplained = subtract(subtract(missing, markers), accepted)
    whole = () if good else (RANGE.offsets,)
    wanted = subtract(subtract(whole, unexplained), covered)
    assert union(v.planned.offsets for v in parts) == wanted
    for part in parts:
        its_rows = landed(subtract([part.planned.offsets], missing))
        assert verified(part.planned, its_rows, markers, accepted) == ((part,), ())


@given(some)
def test_nothing_of_a_range_with_a_second_copy_is_sound(missing):
    """Nobody knows which of the two is right."""
    _, bad = verified(RANGE, landed(subtract([RANGE.offsets], missing), surplus=1), (), ())
    assert bad
    assert sound_parts(bad, NOWHERE) == ()
