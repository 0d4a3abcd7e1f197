"""How the head moves, and when it must not."""

import pytest

from tests.worlds.build import ID, OTHER_ID, head, plan, planned, position
from tideline.errors import StreamBusy
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.run import TableCommit
from tideline.rules.advance import advance_head


def advanced(known, frozen):
    return advance_head(known, frozen, TableCommit("t", version=5, token=1, rows=100, bytes=2000))


def test_the_position_becomes_the_plan_s_end():
    """The next offset to read, with the epoch that was observed for it."""
    after = advanced(head(position(100, epoch=3)), plan(planned(100, 200, epoch=4)))
    assert (after.positions[0].next_offset, after.positions[0].leader_epoch) == (200, 4)
    assert (after.table_id, after.table_version, after.live_runs) == ("t", 5, 1)
    assert after.bytes_per_record == 20


def test_a_commit_of_unknown_size_tells_no_size():
    """A commit that log cleanup has taken away is known by its rows alone."""
    known = head(position(100), bytes_per_record=20.0)
    after = advance_head(known, plan(planned(100, 200)), TableCommit("t", 5, 1, 100, bytes=0))
    assert after.bytes_per_record == 20


def test_advancing_twice_moves_nothing_more():
    """A repeated advance finds the head at or past the plan's end."""
    once = advanced(head(position(100)), plan(planned(100, 200)))
    assert advanced(once, plan(planned(100, 200))) == once


@pytest.mark.parametrize(
    "known",
    [position(50), position(150), position(100, generation=1), position(100, topic_id=OTHER_ID)],
    ids=["before", "inside", "another generation", "another incarnation"],
)
def test_any_other_position_refuses(known):
    """A gap, an overlap, or another log: nothing may be jumped over."""
    with pytest.raises(StreamBusy, match=r"orders-0 \[100, 200\)"):
        advanced(head(known), plan(planned(100, 200)))


def test_another_table_than_the_known_one_refuses():
    """Rows in a replaced table do not make up for those that were in the old one."""
    with pytest.raises(StreamBusy, match="table t, the ledger knows table u"):
        advanced(head(position(100), table_id="u"), plan(planned(100, 200)))


def test_a_backfill_adds_coverage_and_moves_nothing():
    """The head belongs to the live lane."""
    after = advanced(head(position(500)), plan(planned(100, 200), lane="backfill"))
    assert after.positions[0].next_offset == 500
    assert after.coverage == Places({PartitionIdentity(ID, 0, 0): (OffsetRange(100, 200),)})
    assert after.live_runs == 0


def test_the_head_moves_over_what_is_covered():
    """R12: a plan that began behind landed offsets joins up with the position."""
    landed = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(100, 150),)})
    known = head(position(100), coverage=landed)
    assert advanced(known, plan(planned(150, 200))).positions[0].next_offset == 200


def test_a_plan_whose_beginning_a_backfill_has_landed_since_is_advanced():
    """R12: freezing moved the position over the coverage, into the plan; it must not stick."""
    landed = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(100, 150),)})
    known = head(position(150), coverage=landed)
    assert advanced(known, plan(planned(100, 200))).positions[0].next_offset == 200
    with pytest.raises(StreamBusy):
        advanced(head(position(160), coverage=landed), plan(planned(100, 200)))


def test_a_plan_whose_beginning_was_accepted_as_lost_is_advanced():
    """R9: the decision moved the position into the open plan; it must not stick."""
    lost = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(100, 150),)})
    known = head(position(150), accepted_loss=lost)
    assert advanced(known, plan(planned(100, 200))).positions[0].next_offset == 200
    with pytest.raises(StreamBusy):  # a loss in front of a plan is passed by a decision only
        advanced(head(position(100), accepted_loss=lost), plan(planned(150, 200)))


def test_a_backfill_beyond_the_head_leaves_what_it_saw():
    """A truncation of its rows would go unnoticed otherwise, when the head moves over them."""
    ahead = plan(planned(150, 200, epoch=6), lane="backfill")
    after = advanced(head(position(100, epoch=3)), ahead).positions[0]
    assert (after.next_offset, after.leader_epoch, after.proven_end) == (100, 6, 200)
    behind = plan(planned(10, 20, epoch=6), lane="backfill")
    assert advanced(head(position(100)), behind).positions == (position(100),)


def test_an_older_plan_does_not_forget_what_a_backfill_saw():
    """The newest epoch counts, whichever lane saw it."""
    known = head(position(100, epoch=6, seen_end=500))
    after = advanced(known, plan(planned(100, 200, epoch=4))).positions[0]
    assert (after.next_offset, after.leader_epoch, after.proven_end) == (200, 6, 500)


def test_a_backfill_of_a_log_that_is_no_longer_followed_only_adds_coverage():
    """Its rows count; nothing is remembered of a log that nobody reads."""
    known = head(position(100, generation=1))
    assert advanced(known, plan(planned(150, 200), lane="backfill")).positions == known.positions
