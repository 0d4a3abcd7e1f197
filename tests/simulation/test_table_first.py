"""A halted plan beside a changed table: the change is decided first, by whoever comes next."""

from tests.simulation import clock
from tests.simulation.events import apply
from tests.simulation.world import World
from tideline.stream.stream import Stream

OPTIONS = {"kafka": {"topics": ["t"]}, "patience_seconds": 2, "on_incident": "proceed"}
RUN = (("live", 0), ("finish", 0))
PRODUCE = (("produce", 0, 0, 4), ("produce", 0, 1, 4))
GAP_IN_ONE_OF_TWO = (*PRODUCE, *RUN, *PRODUCE, ("spark_loses", 1), *RUN)


def test_an_approved_change_is_carried_out_beside_a_gap_that_is_open():
    """The next runs need no answer about the gap: they land beside it (R8)."""
    stream = Stream.model_validate({"stream": "s", "table": {"uri": "/lake/s"}, **OPTIONS})
    world = World(stream, {"t": 2})
    with clock.simulated(world.machine()):
        for event in (*GAP_IN_ONE_OF_TWO, ("foreign_delete", 0), *RUN):
            apply(world, event)
        kinds = [i.finding.kind for i in world.state().control.incidents]
        assert kinds == ["unexplained_gap", "table_changed"]
        for event in (("decide", 1, 0), *RUN, *RUN):
            apply(world, event)
        assert [i.finding.kind for i in world.state().control.incidents] == ["unexplained_gap"]
        positions = {p.partition: p.next_offset for p in world.state().head.positions}
        assert sorted(positions.values()) == [4, 8]
