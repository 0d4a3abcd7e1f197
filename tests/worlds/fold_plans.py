"""Plans of folds by the types of their columns, and values of keys with their texts."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

from tests.worlds.build import ID
from tideline.folding.fold_rules import current_columns_of
from tideline.model.current import SUMS, Deletes, FoldPlan, Layout

AT = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = {
    "decimal(38,10)": {
        Decimal(0): "0.0000000000",
        Decimal("1E-10"): "0.0000000001",
        Decimal("-1.2E-8"): "-0.0000000120",
        Decimal("-1234567890123456789012345678.5"): "-1234567890123456789012345678.5000000000",
    },
    "decimal(38,38)": {Decimal("1E-38"): "0." + "0" * 37 + "1", Decimal("0.1"): "0.1" + "0" * 37},
    "decimal(18,7)": {Decimal("3E-7"): "0.0000003", Decimal("0.000001"): "0.0000010"},
    "decimal(38,0)": {Decimal("-9" * 1 + "9" * 37): "-" + "9" * 38, Decimal(100): "100"},
    "long": {-(2**63): "-9223372036854775808", 0: "0"},
    "boolean": {True: "true", False: "false"},
    "date": {date(1, 1, 1): "0001-01-01", date(1969, 12, 31): "1969-12-31"},
    "timestamp": {
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC): "1969-12-31 23:59:59.999999",
        datetime(1500, 2, 28, tzinfo=UTC): "1500-02-28 00:00:00",
    },
    "timestamp_ntz": {datetime(1969, 12, 31, 23, 59, 59, 100_000): "1969-12-31 23:59:59.1"},
    "binary": {b"\x00\xff": "00FF", b"": ""},
    "string": {"1E-10": "1E-10", 'a"\\\u2028\x00é ': 'a\\"\\\\\u2028\\u0000é ', "": ""},
}
"""Values of keys, by type, and their texts: buckets of stored tables are made of these."""
TEXTS = {"type": "array", "elementType": "string", "containsNull": True}
LISTS = {"type": "array", "elementType": TEXTS, "containsNull": True}
PAIRS = {"type": "map", "keyType": "string", "valueType": TEXTS, "valueContainsNull": True}
FIELDS = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in "ab"]
STRUCT = {"type": "struct", "fields": FIELDS}
STRUCTS = {"type": "array", "elementType": STRUCT, "containsNull": True}
NESTED = {"one": TEXTS, "two": TEXTS, "deep": LISTS, "pairs": PAIRS, "row": STRUCT, "rows": STRUCTS}


_BLANK = FoldPlan(
    plan_id="p",
    run_id="run",
    frozen_at=AT,
    typed_table_id="typed",
    typed_version=1,
    ranges=(),
    again=(),
    covered=(),
    is_anew=False,
    layout=Layout(("k",), 3),
    columns=(),
    has_unavailable=False,
    has_truncates=False,
    deletes=Deletes(tombstones=True),
    eras=(ID,),
    order="offset",
    barrier=None,
    table_uri="current",
    sums=SUMS,
)


def fold_plan(**facts):
    """A plan of no changes, but for these facts."""
    return replace(_BLANK, **facts)


def plan_of(key, sums=SUMS, **types):
    """A plan with a key and columns of these types."""
    columns = current_columns_of([{"name": n, "type": t} for n, t in types.items()], key, (), ())
    return fold_plan(layout=Layout(key, 16), columns=columns, has_unavailable=True, sums=sums)
