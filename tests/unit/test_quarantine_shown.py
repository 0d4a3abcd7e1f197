"""What the page's API says of the quarantine: classes, and some records of each."""

import pytest

from tideline.page import page_answers
from tideline.page.page_answers import build_quarantine


def rows(*kinds):
    """Rows as a table gives them: more columns than are asked for are no harm."""
    place = {"topic": "orders", "topic_id": "t", "generation": 0, "partition": 1, "part": None}
    return ({**place, "offset": n, "error_class": k, "error": "x" * n} for n, k in enumerate(kinds))


def test_classes_are_counted_and_some_of_each_are_shown():
    """The most frequent class first; an error's text is cut."""
    found = build_quarantine(rows(*["framing"] * 5, *["schema"] * 700))
    assert [*found.classes.items()] == [("schema", 700), ("framing", 5)]
    assert [(r.error_class, r.offset) for r in found.sample] == [
        *(("framing", n) for n in (0, 1, 2)),
        *(("schema", n) for n in (5, 6, 7)),
    ]
    assert (found.counted, found.more) == (705, False)
    (long,) = build_quarantine([{**next(rows("a")), "error": "y" * 400}]).sample
    assert len(long.error) == 301


@pytest.mark.parametrize(("number", "more"), [(9, False), (10, False), (11, True)])
def test_nobody_waits_for_all_rows_of_a_large_one(monkeypatch, number, more):
    """So many are counted, and it is said that there are more."""
    monkeypatch.setattr(page_answers, "_COUNTED", 10)
    found = build_quarantine(rows(*["framing"] * number))
    assert (found.counted, found.more) == (min(number, 10), more)
