"""A topic id is a UUID other than zero wherever one enters, and a head has each identity once."""

import re

import pytest

from tests.worlds.build import ID, OTHER_ID, head, planned, position, topic
from tideline.documents import dump, load
from tideline.errors import UnreadableDocument
from tideline.model.head import Head, PartitionPosition
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.model.places import Places

ZERO_ID = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("topic_id", ["None", "", "orders", ZERO_ID, ZERO_ID.replace("-", "")])
@pytest.mark.parametrize(
    "build",
    [
        lambda topic_id: CoordinateRange("orders", topic_id, 0, 0, 0, 1),
        lambda topic_id: planned(topic_id=topic_id),
        lambda topic_id: PartitionPosition("orders", topic_id, 0, 0, 0),
        lambda topic_id: topic(topic_id=topic_id),
    ],
)
def test_no_value_holds_a_topic_id_that_names_no_log(build, topic_id):
    """Coordinates, plans, positions, observations."""
    with pytest.raises(ValueError, match="topic id"):
        build(topic_id)


@pytest.mark.parametrize("topic_id", ["None", ZERO_ID])
def test_no_document_brings_one_in(topic_id):
    """A ledger or a job that was written without ids is refused, and the text says why."""
    for value in (head(position()), planned().as_coordinates):
        text = dump(value).replace(ID, topic_id)
        with pytest.raises(UnreadableDocument, match=f"topic id '{re.escape(topic_id)}'"):
            load(type(value), text, "here")


def test_two_positions_of_one_log_are_refused():
    """Two topics would take each other's rows for their own."""
    with pytest.raises(ValueError, match="orders-0 and payments-0 have one identity"):
        head(position(), position(topic="payments"))
    head(position(), position(partition=1), position(generation=1), position(topic_id=OTHER_ID))


def test_two_entries_of_coverage_of_one_log_are_refused():
    """Every rule looks coverage up by identity and would see one of them only."""
    log = PartitionIdentity(ID, 0, 0)
    text = dump(Head(coverage=Places({log: (OffsetRange(0, 1),)})))
    before, entry, after = re.split(r'(?<="coverage":\[)({.*?}\]})(?=\])', text)
    assert load(Head, text, "here").coverage[log]
    with pytest.raises(UnreadableDocument, match="two entries of coverage"):
        load(Head, f"{before}{entry},{entry}{after}", "here")
