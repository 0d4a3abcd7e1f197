"""What stands for a value that a change did not bring, as Debezium's connectors write it."""

from datetime import date

import pytest

from tideline.model.placeholders import is_null_instead, placeholders

USUAL, AWAY = "__debezium_unavailable_value", "hex:00ff7e"
BASE64, HEX = (
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565",
)
UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"


def listed(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def mapped(values):
    return {"type": "map", "keyType": "string", "valueType": values, "valueContainsNull": True}


@pytest.mark.parametrize(
    ("kind", "usual", "away"),
    [
        (
            "string",
            (USUAL, HEX, BASE64, f'{{"{USUAL}":"{USUAL}"}}'),
            ("\0�~", "00ff7e", "AP9+", "AP9-", '{"\\u0000�~":"\\u0000�~"}'),
        ),
        ("binary", (USUAL.encode(),), (b"\x00\xff\x7e",)),
        (listed("binary"), ([USUAL.encode()],), ([b"\x00\xff\x7e"],)),
        (listed("long"), ([*USUAL.encode()],), ([0, -1, 126],)),
        (listed("integer"), ([*USUAL.encode()],), ([0, -1, 126],)),
        (mapped("string"), ({USUAL: USUAL},), ({"\0�~": "\0�~"},)),
        (mapped("long"), (), ()),
        ("long", (), ()),
        ("variant", (), ()),
        ({"type": "struct", "fields": []}, (), ()),
        (listed(listed("string")), (), ()),
    ],
    ids=str,
)
def test_each_type_has_its_forms(kind, usual, away):
    """As the connector makes them: a byte has a sign, a text's own bytes may be none of UTF-8."""
    assert placeholders(USUAL, kind) == usual
    assert placeholders(AWAY, kind) == away


def test_lists_of_texts_and_of_days():
    assert placeholders(USUAL, listed("string")) == ([USUAL], [HEX], [BASE64], [UUID])
    (days,) = placeholders(USUAL, listed("date"))
    assert (days[0], days[6], len(days)) == (date(1970, 4, 6), date(1970, 5, 3), len(USUAL))


def test_what_is_no_hex_is_a_text():
    assert placeholders("hex:no", "binary") == (b"hex:no",)


@pytest.mark.parametrize(
    ("kind", "is_null"),
    [
        (listed("double"), True),
        (listed("boolean"), True),
        (listed("decimal(38,2)"), True),
        (listed("timestamp_ntz"), True),
        (listed("timestamp"), True),
        (listed("long"), False),
        (listed("string"), False),
        (listed(listed("double")), False),
        ("double", False),
        (mapped("double"), False),
    ],
)
def test_lists_of_which_a_long_one_comes_as_null(kind, is_null):
    """A single number, or time, is never so long that PostgreSQL does not log it."""
    assert is_null_instead(kind) == is_null
