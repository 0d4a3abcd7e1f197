"""What the ledger stores is what it reads."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import NOW
from tideline.documents import dump, load
from tideline.ledger.state import Control
from tideline.model.head import Head, PartitionPosition
from tideline.model.observation import TopicObservation
from tideline.model.offsets import (
    CoordinateRange,
    OffsetRange,
    PartitionIdentity,
    PlannedRange,
    ReadRange,
)
from tideline.model.places import Places
from tideline.model.plan import BatchPlan
from tideline.model.request import ResolvedTimestamp, Window
from tideline.model.run import RunRecord

st.register_type_strategy(type(NOW), st.just(NOW))
st.register_type_strategy(
    OffsetRange,
    st.builds(lambda s, n: OffsetRange(s, s + n), st.integers(0, 2**62), st.integers(0, 1000)),
)
st.register_type_strategy(
    Window, st.builds(lambda n: Window(NOW, NOW + timedelta(seconds=n)), st.integers(1, 10**9))
)
# No size or time is infinite, and JSON has no word for it.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
topic_ids = st.uuids().filter(lambda found: found.int).map(str)
st.register_type_strategy(
    Places,
    st.lists(st.tuples(st.from_type(PartitionIdentity), st.from_type(OffsetRange))).map(
        Places.of_pieces
    ),
)
for kind in (CoordinateRange, ReadRange, PlannedRange, PartitionPosition):
    st.register_type_strategy(kind, st.builds(kind, topic_id=topic_ids))
st.register_type_strategy(
    TopicObservation, st.builds(TopicObservation, topic_id=st.none() | topic_ids)
)


# A head has each identity once.
positions = st.lists(st.from_type(PartitionPosition), unique_by=lambda p: p.identity).map(tuple)
st.register_type_strategy(Head, st.builds(Head, positions=positions))
documents = st.one_of(
    *(st.from_type(kind) for kind in (Head, Control, RunRecord, BatchPlan, ResolvedTimestamp))
)


@given(documents)
def test_documents_survive_json(value):
    """Every field of every document, in every state."""
    assert load(type(value), dump(value), "here") == value
