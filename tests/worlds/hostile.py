"""Two hundred records of each format that are set aside, with their classes: kept as data.

python -m tests.worlds.hostile    draws them anew, by the oracles alone
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from devstack.protobuf_messages import message_class
from tests.worlds import avro_oracle, json_oracle, protobuf_oracle
from tests.worlds.protobuf_schemas import ALL, protobuf_part
from tests.worlds.raw_tables import json_part, plain_avro
from tideline.model.decoding import PartPlan

FILE = Path(__file__).parents[1] / "data" / "hostile.json"
MANY = 200
_LONGEST = 400
"""Bytes. What is wrong with a longer one nobody finds."""
_FIRST_SEED = 7_000
PARTS: dict[str, Callable[[], PartPlan]] = {
    "json": lambda: json_part(json_oracle.SCHEMA),
    "avro": lambda: plain_avro(avro_oracle.SCHEMA),
    "protobuf": lambda: protobuf_part(ALL, "plain", "shop.All"),
}
"""How they are decoded."""
_Judged = Iterator[tuple[bytes, str | None]]


def hostile(name: str) -> list[tuple[bytes, str]]:
    """The records of a format, and their classes."""
    kept = json.loads(FILE.read_text())[name]
    return [(base64.b64decode(data), error_class) for data, error_class in kept]


def _json() -> _Judged:
    oracle = json_oracle.Oracle(json_oracle.SCHEMA)
    for seed in count(_FIRST_SEED):
        data = json_oracle.Documents(json_oracle.SCHEMA, seed).next()
        # where a word or a number ends that is the document is a matter of taste
        if data.lstrip()[:1] in (b"{", b"[", b'"'):
            yield data, oracle.judge(data)[0]


def _avro() -> _Judged:
    for seed in count(_FIRST_SEED):
        data, _ = avro_oracle.Records(seed).next()
        yield data, avro_oracle.judge(data)[0]


def _protobuf() -> _Judged:
    make = message_class(ALL, "shop.All")
    # Google's parser stops at the first thing that is wrong: behind bad text there may be worse.
    as_bytes = message_class(re.sub(r"\bstring (?=\w+ = )|\bstring>", _bytes_for, ALL), "shop.All")
    for seed in count(_FIRST_SEED):
        data = protobuf_oracle.Records(make, seed).next()
        error_class = protobuf_oracle.judge(make, data)[0]
        if error_class != "invalid_utf8" or protobuf_oracle.judge(as_bytes, data)[0] is None:
            yield data, error_class


def _bytes_for(found: re.Match[str]) -> str:
    return found[0].replace("string", "bytes")


_CLASSES = {
    "json": (
        *("malformed", "trailing_bytes", "invalid_utf8"),
        *("duplicate_field", "type_mismatch", "out_of_range"),
    ),
    "avro": ("malformed", "trailing_bytes", "invalid_utf8", "out_of_range"),
    "protobuf": ("malformed", "invalid_utf8", "type_mismatch", "out_of_range"),
}


def drawn(name: str, judged: _Judged) -> list[tuple[bytes, str]]:
    """As many of each class, each record once."""
    most = -(-MANY // len(_CLASSES[name]))
    found: dict[bytes, str] = {}
    classes: Counter[str] = Counter()
    for data, error_class in judged:
        if error_class is None or len(data) > _LONGEST or classes[error_class] == most:
            continue
        if data not in found:
            found[data] = error_class
            classes[error_class] += 1
        if len(found) == MANY:
            break
    return sorted(found.items(), key=lambda item: (item[1], item[0]))


if __name__ == "__main__":
    made = {"json": _json(), "avro": _avro(), "protobuf": _protobuf()}
    kept = {
        name: [
            (base64.b64encode(data).decode(), error_class)
            for data, error_class in drawn(name, judged)
        ]
        for name, judged in made.items()
    }
    FILE.write_text(json.dumps(kept, indent=0) + "\n")
