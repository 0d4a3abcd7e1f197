"""What people write is bounded: it ends up in the ledger, in messages and on pages."""

import time

import pytest

from tests.worlds.build import NOW
from tideline.airflow.operation_forms import REDRIVE, check_form
from tideline.errors import BadInput
from tideline.model.request import MOST_RANGES, read_form
from tideline.model.wording import LONGEST_REASON, kept_reason, shown


def ranges(count):
    """One range of each of so many partitions."""
    return [
        {"topic": "orders", "partition": n, "start_offset": 0, "end_offset": 9}
        for n in range(count)
    ]


def refusal(form):
    """The message that a form is refused with; it is short itself."""
    with pytest.raises(BadInput) as refused:
        read_form(form, NOW)
    assert len(refused.value.message) < 500
    return refused.value.message


def test_a_reason_has_2000_characters_at_most():
    """It is part of the head, which every task reads."""
    assert read_form({"reason": "x" * LONGEST_REASON}, NOW).reason == "x" * LONGEST_REASON
    assert "reason: got 10,000,000 characters; allowed: 2,000" in refusal({"reason": "x" * 10**7})


def test_a_comment_that_is_too_long_is_cut_and_not_lost():
    """Airflow has taken the answer already: failing over it would lose the decision."""
    kept = kept_reason("y" * 5000)
    assert len(kept) == LONGEST_REASON
    assert kept.endswith("...")
    assert kept_reason("short") == "short"


def test_as_many_ranges_as_a_topic_can_have_cost_no_second():
    """They were held against each other: 8,000 took a second, and the time grew with the square."""
    began = time.process_time()
    assert len(read_form({"ranges": ranges(MOST_RANGES)}, NOW).ranges) == MOST_RANGES
    assert time.process_time() - began < 0.5
    assert f"{MOST_RANGES + 1:,} ranges; allowed: {MOST_RANGES:,}" in refusal(
        {"ranges": ranges(MOST_RANGES + 1)}
    )
    twice = [*ranges(5000), *ranges(1)]
    assert "orders-0 twice" in refusal({"ranges": twice})


@pytest.mark.parametrize("wrong", ["a\0b", "a\ud800b", "a\x1b[2Jb", "a\u202eb", "a\rb"])
def test_a_reason_is_text(wrong):
    """PostgreSQL keeps no NUL, UTF-8 no half of a character; others change what a log shows."""
    character = ascii(wrong[1])
    assert f"reason: got the character {character}; allowed: text" in refusal({"reason": wrong})
    assert wrong[1] not in kept_reason(wrong)
    assert read_form({"reason": "two\r\nlines,\tübung"}, NOW).reason == "two\r\nlines,\tübung"


def test_a_key_makes_no_line_of_its_own():
    """A message is a line of a log; what comes in a conf could look like another one."""
    assert "conf: a\\nERROR b: unknown key" in refusal({"a\nERROR b": 1})
    with pytest.raises(BadInput, match=r"conf: a\\nERROR b: unknown key"):
        check_form({"a\nERROR b": 1}, REDRIVE)


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59.999Z"]
)
def test_a_time_is_one_of_kafka_s(time):
    """To its look-up -1 is no millisecond before 1970, but the log's end."""
    assert "from 1970-01-01T00:00:00Z on" in refusal({"from": time, "to": NOW.isoformat()})


def nested(depth):
    """A list in a list in a list."""
    inner = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, nested(100_000), [nested(100_000)], "x" * 10**7, [{"topic": "x" * 10**7}]],
    ids=["text", "list", "item", "long text", "long item"],
)
def test_ranges_without_end_are_refused_like_any_other(value):
    """A RecursionError would count as a bug of ours."""
    assert "allowed: " in refusal({"ranges": value})


def test_an_offset_has_63_bits():
    """Python's own numbers have no end, and cannot be printed beyond some thousand digits."""
    huge = {"topic": "orders", "partition": 0, "start_offset": 0, "end_offset": 10**5000}
    assert "allowed: a whole number from 0 to 9223372036854775807" in refusal({"ranges": [huge]})


@pytest.mark.parametrize("value", ["x" * 10**7, nested(100_000), {"x": "y" * 10**7}])
def test_a_value_is_shown_in_part(value):
    """Wherever a message says what it got."""
    assert len(shown(value)) <= 80
    with pytest.raises(BadInput) as refused:
        check_form({"stream": "orders", "since": [value]}, REDRIVE)
    assert len(refused.value.message) < 300
