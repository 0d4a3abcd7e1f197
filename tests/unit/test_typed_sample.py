"""The demo's proof of typed tables sees what is wrong with them."""

import json
import random

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from devstack.sample import ProducerLog, value_hash
from devstack.typed_sample import BAD, compare_typed, json_schema

EVENTS = [{"number": n, "seed": 1, "amount": random.Random(n).randrange(99)} for n in range(3)]


def typed(offset, event):
    """A row of the typed table; without an event, a tombstone."""
    fields = event or {}
    names = ("number", "seed", "amount", "coupon")
    row = {"topic_id": "t", "partition": 0, "offset": offset, "is_tombstone": event is None}
    return row | {name: fields.get(name) for name in names}


def bad(offset, value):
    return {"topic_id": "t", "partition": 0, "offset": offset, "value": value}


GOOD = [typed(n, event) for n, event in enumerate(EVENTS)]
REDRIVEN = typed(4, json.loads(BAD[0]))


def compared(tmp_path, rows, quarantined):
    log = ProducerLog("nobody:1")
    values = [*(json.dumps(e).encode() for e in EVENTS), None, *BAD[:2]]
    log.written = {("t", 0, n): value_hash(value) for n, value in enumerate(values)}
    for name, found in (("typed", rows), ("bad", quarantined)):
        columns = {key: [row[key] for row in found] for key in found[0]}
        types = {"number": pa.int64(), "coupon": pa.string(), "value": pa.binary()}
        arrays = {k: pa.array(v, type=types.get(k)) for k, v in columns.items()}
        write_deltalake(tmp_path / name, pa.table(arrays))
    return compare_typed(log, tmp_path / "typed", tmp_path / "bad")


def test_tables_that_hold_every_record_once_are_exact(tmp_path):
    """Typed rows, a tombstone, a redriven record with a later field, and one in quarantine."""
    found = compared(tmp_path, [*GOOD, typed(3, None), REDRIVEN], [bad(5, BAD[1])])
    assert (found.typed, found.tombstones, found.quarantined) == (4, 1, 1)
    assert found.exact


@pytest.mark.parametrize(
    ("rows", "quarantined", "wrong"),
    [
        ([*GOOD, typed(3, None)], [bad(5, BAD[1])], 1),
        ([*GOOD, GOOD[0], typed(3, None), REDRIVEN], [bad(5, BAD[1])], 1),
        ([*GOOD, typed(3, None), REDRIVEN], [bad(4, BAD[0]), bad(5, BAD[1])], 1),
        ([*GOOD[:2], typed(2, EVENTS[0]), typed(3, None), REDRIVEN], [bad(5, BAD[1])], 1),
        ([*GOOD, typed(3, None), REDRIVEN], [bad(5, BAD[2])], 1),
        ([*GOOD, typed(3, None), REDRIVEN, typed(9, EVENTS[0])], [bad(5, BAD[1])], 1),
        ([*GOOD[:2], typed(2, None), typed(3, None), REDRIVEN], [bad(5, BAD[1])], 1),
    ],
    ids=["lost", "twice", "in both", "another value", "other bytes", "foreign", "emptied"],
)
def test_whatever_is_wrong_is_counted(tmp_path, rows, quarantined, wrong):
    """A proof that cannot fail proves nothing."""
    found = compared(tmp_path, rows, quarantined)
    assert (found.wrong, found.exact) == (wrong, False)


def test_the_corrected_schema_knows_one_more_field():
    """And forbids every other one, before as after."""
    before, after = (json.loads(json_schema(corrected=c)) for c in (False, True))
    assert set(after["properties"]) - set(before["properties"]) == {"coupon"}
    assert not before["additionalProperties"]
    assert not after["additionalProperties"]
