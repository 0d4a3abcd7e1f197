"""What may be asked of a run, and what is refused with what is allowed."""

from datetime import UTC, datetime

import pytest

from tests.worlds.build import NOW
from tideline.errors import BadInput
from tideline.model.request import RequestedRange, RunRequest, Window, read_form

ONE = {"topic": "orders", "partition": 0, "start_offset": 10, "end_offset": 20}


def test_nothing_asked_is_the_live_lane():
    """A form that is left empty comes with None in every key."""
    empty = {"from": None, "to": None, "ranges": None, "plan_only": False, "reason": ""}
    assert read_form(empty, NOW) == read_form({}, NOW) == RunRequest()
    assert RunRequest().lane == "live"


def test_a_window_is_a_backfill_in_utc():
    """Whatever zone it was given in."""
    asked = read_form({"from": "2025-12-01T02:00:00+02:00", "to": "2025-12-01T01:00:00Z"}, NOW)
    start, end = datetime(2025, 12, 1, 0, tzinfo=UTC), datetime(2025, 12, 1, 1, tzinfo=UTC)
    assert asked == RunRequest(Window(start, end))
    assert (asked.lane, str(asked)) == ("backfill", "[2025-12-01T00:00:00Z, 2025-12-01T01:00:00Z)")


@pytest.mark.parametrize("value", [[ONE], f"[{ONE}]".replace("'", '"')], ids=["list", "text"])
def test_ranges_are_a_backfill(value):
    """From the form as a list, from a command line as JSON."""
    asked = read_form({"ranges": value, "reason": "lost chunk"}, NOW)
    assert asked.ranges == (RequestedRange("orders", 0, 10, 20),)
    assert (asked.lane, asked.reason) == ("backfill", "lost chunk")


def test_a_run_id_stands_for_what_was_asked_and_not_for_why():
    """The live lane's fingerprint is the one that ledgers hold since the first version."""
    assert RunRequest().digest == RunRequest(reason="because").digest
    assert RunRequest().digest.startswith("6e4499e736688c8c")
    window = read_form({"from": "2025-12-01T00:00:00Z", "to": "2025-12-02T00:00:00Z"}, NOW)
    other = read_form({"from": "2025-12-01T00:00:00Z", "to": "2025-12-03T00:00:00Z"}, NOW)
    ranges = read_form({"ranges": [ONE]}, NOW)
    assert len({RunRequest().digest, window.digest, other.digest, ranges.digest}) == 4


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"form": "x"}, "form: unknown key; allowed: from, to, ranges, plan_only, reason"),
        ({"plan_only": "yes"}, "plan_only: got 'yes'; allowed: true, false"),
        ({"reason": 5}, "reason: got 5; allowed: text"),
        ({"from": "2025-12-01T00:00:00Z"}, "to: got nothing; allowed: both from and to"),
        ({"to": "2025-12-01T00:00:00Z"}, "from: got nothing; allowed: both from and to"),
        (
            {"from": "2025-12-01T00:00:00", "to": "2025-12-02T00:00:00Z"},
            "from: got '2025-12-01T00:00:00'; allowed: a time with its offset from UTC",
        ),
        ({"from": "yesterday", "to": "2025-12-02T00:00:00Z"}, "from: got 'yesterday'; allowed"),
        (
            {"from": "2025-12-02T00:00:00Z", "to": "2025-12-02T00:00:00Z"},
            "allowed: a time after from",
        ),
        (
            {"from": "2025-12-02T00:00:00Z", "to": "2026-01-01T00:00:01Z"},
            "allowed: a time in the past",
        ),
        ({"ranges": "[{"}, "ranges: got '[{'; allowed: a list of objects with exactly topic"),
        ({"ranges": {"topic": "orders"}}, "allowed: a list of objects"),
        ({"ranges": [{**ONE, "extra": 1}]}, r"ranges\[0\]: got .*allowed: an object with exactly"),
        ({"ranges": [ONE, {**ONE, "partition": -1}]}, r"ranges\[1\].partition: got -1; allowed"),
        ({"ranges": [{**ONE, "partition": True}]}, r"ranges\[0\].partition: got True"),
        ({"ranges": [{**ONE, "topic": 7}]}, r"ranges\[0\].topic: got 7; allowed: a topic name"),
        (
            {"ranges": [{**ONE, "end_offset": 10}]},
            r"ranges\[0\].end_offset: got 10; allowed: more than 10",
        ),
        ({"ranges": [ONE, ONE]}, "orders-0 twice.*one range per partition"),
        (
            {"ranges": [ONE], "from": "2025-12-01T00:00:00Z", "to": "2025-12-02T00:00:00Z"},
            "a window or ranges, not both",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(form, message):
    """Airflow takes unknown keys and unchecked dates: our own code looks at each."""
    pattern = message if "\\" in message or ".*" in message else message.replace("[", "\\[")
    with pytest.raises(BadInput, match=pattern):
        read_form(form, NOW)
