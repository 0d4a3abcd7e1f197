"""Windows tile, in whatever order they are read and whatever retention takes meanwhile."""

from datetime import timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from tests.worlds.build import NOW, head, observation, position, seen, topic
from tideline.model.observation import TimedOffset
from tideline.model.offsets import OffsetRange, overlaps, subtract, union
from tideline.model.request import ResolvedTimestamp
from tideline.rules.backfill import (
    asked_by_window,
    between_boundaries,
    find_window_boundary,
    plan_backfill,
)

HOURS = [NOW - timedelta(hours=n) for n in range(6, 0, -1)]


def milliseconds(at):
    return int(at.timestamp() * 1000)


@st.composite
def scenarios(draw):
    """Timestamps by offset, and windows in some order with the log start at each."""
    span = (milliseconds(HOURS[0]) - 3_600_000, milliseconds(HOURS[-1]) + 3_600_000)
    times = draw(st.lists(st.integers(*span), max_size=40))
    order = draw(st.permutations(range(len(HOURS) - 1)))
    starts = sorted(draw(st.integers(0, len(times))) for _ in order)
    return times, list(zip(order, starts, strict=True))


def look_up(times, log_start, at):
    """As Kafka does: the first offset that is still there and not older."""
    for offset in range(log_start, len(times)):
        if times[offset] >= milliseconds(at):
            return TimedOffset(offset, times[offset])
    return None


def told(times, reads):
    """What the windows read, and what they name as gone."""
    known, place = {}, position(0)
    read, gone = [], []
    for number, log_start in reads:
        log = seen(log_start, len(times))
        for at in (HOURS[number], HOURS[number + 1]):
            if at not in known:
                boundary = find_window_boundary(at, place, log, look_up(times, log_start, at), NOW)
                ordered = between_boundaries(boundary, at, known.values(), log_start)
                known[at] = ResolvedTimestamp(at, (ordered,))
        asked = asked_by_window([place], known[HOURS[number]], known[HOURS[number + 1]])
        found = plan_backfill(head(place), observation(topic(log)), asked, "read_committed")
        read += [r.offsets for r in found.ranges]
        gone += [i for g in found.gone for i in g.intervals]
    return read, gone


OUT_OF_ORDER = [milliseconds(HOURS[n]) for n in (2, 0, 3)]


@given(scenarios())
@example((OUT_OF_ORDER, [(2, 0), (0, 1)]))  # what the later window has read begins with its hour
def test_windows_never_overlap(scenario):
    """Whatever the times are, and whatever retention takes between two reads."""
    read, _ = told(*scenario)
    assert overlaps(read) == ()


@given(scenarios())
def test_every_record_is_read_by_one_window_or_named_as_gone(scenario):
    """In a log that times order; retention only ever takes more."""
    times, reads = sorted(scenario[0]), scenario[1]
    read, gone = told(times, reads)
    ends = [look_up(times, 0, at) for at in (HOURS[0], HOURS[-1])]
    first, last = (len(times) if end is None else end.offset for end in ends)
    assert subtract([OffsetRange(first, last)], union(read, gone)) == ()
    assert subtract(read, [OffsetRange(first, last)]) == ()
