"""Values as an oracle tells them, beside those that Spark gives back."""

from decimal import Decimal
from typing import Any

from pyspark.sql import Row


def alike(wanted: Any, found: Any) -> bool:
    """Whether values are the same; a message's fields are compared by place."""
    if isinstance(found, Row):
        return len(wanted) == len(found) and all(map(alike, wanted.values(), found))
    if isinstance(found, dict):  # in which Python has its own order
        pairs = dict(wanted)
        return pairs.keys() == found.keys() and all(alike(pairs[k], found[k]) for k in pairs)
    if isinstance(found, list | tuple):
        return len(wanted) == len(found) and all(map(alike, wanted, found))
    if isinstance(found, float) and found != found:
        return wanted != wanted
    if isinstance(found, bytearray | Decimal):
        return wanted == found
    if hasattr(found, "tzinfo"):
        return abs(wanted.timestamp() - found.timestamp()) < 5e-7  # floats, below 1970
    return type(wanted) is type(found) and wanted == found
