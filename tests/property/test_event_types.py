"""Whatever stands in the tables of several event types, each raw row has to be in one, once."""

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import ID, NOW
from tideline.decoding.decode_rules import as_one_table, reconciled, rows_within
from tideline.model.decoding import DecodePlan, TypePlan
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity, union
from tideline.model.plan import LandedRange

LOG = PartitionIdentity(ID, 0, 0)
TABLES = ("a", "b", "c", "quarantine")
places = st.lists(st.lists(st.sampled_from(TABLES), max_size=3), min_size=1, max_size=8)
"""Of each raw row the tables that it stands in, once for each copy."""


def landed(offsets):
    """What a table holds."""
    found = union(*([OffsetRange(o, o + 1)] for o in offsets))
    return {LOG: LandedRange(LOG, len(offsets), found)} if offsets else {}


@given(places, st.integers(0, 8))
def test_each_raw_row_is_in_one_table_or_was_dropped(rows, dropped):
    """A copy in another type's table, or in quarantine, is one too many; a row is never gone."""
    ranges = (CoordinateRange("t", ID, 0, 0, 0, len(rows)),)
    types = tuple(TypePlan(name, f"/{name}") for name in TABLES[:-1])
    facts = ((), (), "drop", None, None, 1.0, "", "/quarantine")
    plan = DecodePlan("p", "r", NOW, "raw", 1, ranges, *facts, types=types)
    held = {n: [o for o, there in enumerate(rows) for name in there if name == n] for n in TABLES}
    typed = [landed(held[name]) for name in TABLES[:-1]]
    raw, bad = landed([*range(len(rows))]), landed(held["quarantine"])
    _, wrong = reconciled(plan, raw, as_one_table(typed), bad, dropped)
    missing = sum(not there for there in rows)
    assert (wrong == ()) == (all(len(there) < 2 for there in rows) and missing == dropped)
    assert sum(rows_within(one, ranges) for one in typed) == sum(
        len({*there} - {"quarantine"}) for there in rows
    )
