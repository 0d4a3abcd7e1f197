"""The records of a soak: JSON documents, of which one in ten is none; and what they decode to."""

from __future__ import annotations

import json
from collections import Counter

from tests.faults.recorder import Recorder
from tests.worlds.streams import table_rows
from tideline.stream.stream import Stream, tables_of

SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})
_BROKEN = 10
_LOG = ("topic_id", "generation", "partition", "offset")


class Documents(Recorder):
    """Sends documents with a number of their own."""

    def _value(self, size: int = 0) -> bytes:
        self.sent += 1
        text = "broken" if self.sent % _BROKEN == 0 else json.dumps({"n": self.sent})
        return text.encode().ljust(size)


def wrongly_decoded(stream: Stream) -> int:
    """How many rows are not what the raw rows say: each in one table, with its own number."""
    tables = tables_of(stream)
    typed, bad = tables["decoded"], tables["quarantine"]
    expected = Counter(
        (*place, *_decoded(value)) for *place, value in table_rows(stream, *_LOG, "value")
    )
    found = Counter((*row, "typed") for row in table_rows(stream, *_LOG, "n", uri=typed))
    found += Counter((*row, None, "bad") for row in table_rows(stream, *_LOG, uri=bad))
    return ((expected - found) + (found - expected)).total()


def _decoded(value: bytes | None) -> tuple[int | None, str]:
    if value is None:
        return None, "typed"
    try:
        return json.loads(value)["n"], "typed"
    except ValueError:
        return None, "bad"
