"""Values of the types that a record's key may have, and what is made of them."""

from datetime import UTC, date, datetime
from decimal import Decimal

KINDS = {
    "long": [1, -7, None],
    "string": ['q"\\\x01é/', "", None],
    "boolean": [True, False, None],
    "integer": [0, 7, None],
    "double": [0.0, 1e21, 0.001, 1e-4, 12345678.5, -1.5, 1e7, 100.0, float("nan"), None],
    "binary": [b"\x00\xff", b"", None],
    "date": [date(2026, 1, 2), date(1970, 1, 1), None],
    "timestamp": [datetime(2026, 1, 2, 3, 4, 5, 60, UTC), datetime(1970, 1, 1, tzinfo=UTC), None],
    "timestamp_ntz": [datetime(2026, 1, 2, 3, 4, 5), datetime(1970, 1, 1), None],
    "decimal(10,2)": [Decimal("1.50"), Decimal("0.00"), Decimal("-3.25"), None],
    "decimal(38,10)": [Decimal("1E-10"), Decimal("0E-10"), Decimal("12.5"), None],
}
"""Values by the type."""
TEXTS = {
    "long": ['{"x":1}', '{"x":-7}', "{}"],
    "string": ['{"x":"q\\"\\\\\\u0001é/"}', '{"x":""}', "{}"],
    "boolean": ['{"x":true}', '{"x":false}', "{}"],
    "integer": ['{"x":0}', '{"x":7}', "{}"],
    "double": [
        *('{"x":0.0}', '{"x":1.0E21}', '{"x":0.001}', '{"x":1.0E-4}', '{"x":1.23456785E7}'),
        *('{"x":-1.5}', '{"x":1.0E7}', '{"x":100.0}', '{"x":"NaN"}', "{}"),
    ],
    "binary": ['{"x":"AP8="}', '{"x":""}', "{}"],
    "date": ['{"x":"2026-01-02"}', '{"x":"1970-01-01"}', "{}"],
    "timestamp": [
        '{"x":"2026-01-02T03:04:05.000060Z"}',
        '{"x":"1970-01-01T00:00:00.000000Z"}',
        "{}",
    ],
    "timestamp_ntz": [
        '{"x":"2026-01-02T03:04:05.000000"}',
        '{"x":"1970-01-01T00:00:00.000000"}',
        "{}",
    ],
    "decimal(10,2)": ['{"x":1.50}', '{"x":0.00}', '{"x":-3.25}', "{}"],
    "decimal(38,10)": ['{"x":1E-10}', '{"x":0E-10}', '{"x":12.5000000000}', "{}"],
}
"""A record's key of one column `x` with each of these values."""
UNSET = {
    "long": [False, False, True],
    "string": [False, True, True],
    "boolean": [False, True, True],
    "integer": [True, False, True],
    "double": [True, *[False] * 8, True],
    "binary": [False, True, True],
    "date": [False, True, True],
    "timestamp": [False, True, True],
    "timestamp_ntz": [False, True, True],
    "decimal(10,2)": [False, True, False, True],
    "decimal(38,10)": [False, True, False, True],
}
"""Whether each of these values may stand for one that was not told."""
