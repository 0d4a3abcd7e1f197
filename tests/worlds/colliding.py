"""Schemas of Kafka Connect's JSON that are built to have one XXH64 with another one.

XXH64 has no secret, and each of its steps can be undone: 64 bytes that are free, and aligned to its
stripes, give a document any state, and so any hash. Tests hold the result against Spark's own.
"""

import json
import random

_ALL = 2**64 - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_SEED, _FREE = 42, 64
_PLAIN = frozenset(range(32, 127)) - {*b'"\\'}
_LOW = 2**31 - 1


def _left(x, n):
    return (x << n | x >> (64 - n)) & _ALL


def _round(state, word):
    return _left((state + word * _P2) & _ALL, 31) * _P1 & _ALL


def _states(data):
    """The four lanes behind all whole stripes."""
    lanes = [(_SEED + _P1 + _P2) & _ALL, (_SEED + _P2) & _ALL, _SEED, (_SEED - _P1) & _ALL]
    for at in range(0, len(data) // 32 * 32, 8):
        lanes[at // 8 % 4] = _round(lanes[at // 8 % 4], int.from_bytes(data[at : at + 8], "little"))
    return lanes


def xxh64(data):
    """The hash of at least 32 bytes, with Spark's seed."""
    lanes = _states(data)
    found = sum(_left(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
    for lane in lanes:
        found = ((found ^ _round(0, lane)) * _P1 + _P4) & _ALL
    found, rest = (found + len(data)) & _ALL, data[len(data) // 32 * 32 :]
    while len(rest) >= 8:
        word, rest = int.from_bytes(rest[:8], "little"), rest[8:]
        found = (_left(found ^ _round(0, word), 27) * _P1 + _P4) & _ALL
    if len(rest) >= 4:
        word, rest = int.from_bytes(rest[:4], "little"), rest[4:]
        found = (_left(found ^ word * _P1 & _ALL, 23) * _P2 + _P3) & _ALL
    for byte in rest:
        found = _left(found ^ byte * _P5 & _ALL, 11) * _P1 & _ALL
    for shift, prime in ((33, _P2), (29, _P3)):
        found = (found ^ found >> shift) * prime & _ALL
    return found ^ found >> 32


def _with_doc(schema, doc):
    return json.dumps({**schema, "doc": doc})


def _free(schema, length):
    """A schema with a doc that fills it to a length, and where two whole stripes of that begin."""
    text = _with_doc(schema, "." * (length - len(_with_doc(schema, ""))))
    start = text.index('"doc": "') + len('"doc": "')
    return text.encode(), -(-start // 32) * 32


def same_hash(first, second):
    """Two schemas as dictionaries, one like each of these, of one length and one XXH64.

    Args:
        first, second: Schemas, which get a `doc`.
    """
    length = max(len(_with_doc(s, "")) for s in (first, second)) + _FREE + 32
    (given, a), (made, b) = (_free(s, length) for s in (first, second))
    at = max(a, b)
    wanted, now = _states(given[: at + _FREE]), _states(made[:at])
    inverse = [pow(prime, -1, 2**64) for prime in (_P1, _P2)]
    chosen, some = [b""] * 8, random.Random(1)
    for lane in range(4):
        before = _left(wanted[lane] * inverse[0] & _ALL, 33)
        while True:
            word = bytes(some.choices([*_PLAIN], k=8))
            state = _round(now[lane], int.from_bytes(word, "little"))
            other = ((before - state) * inverse[1] & _ALL).to_bytes(8, "little")
            if {*other} <= _PLAIN:
                chosen[lane], chosen[lane + 4] = word, other
                break
    made = made[:at] + b"".join(chosen) + given[at + _FREE :]
    return json.loads(given), json.loads(made)


def same_low_bits(first, second):
    """Two schemas of which only the lower 31 bits of XXH64 are alike."""
    length = max(len(_with_doc(s, "")) for s in (first, second)) + 8
    known = {}
    for number in range(2**20):
        for which, schema in enumerate((first, second)):
            doc = f"{number:07d}".ljust(length - len(_with_doc(schema, "")), ".")
            text = _with_doc(schema, doc)
            other = known.setdefault(xxh64(text.encode()) & _LOW, (which, text))
            if other[0] != which:
                pair = {which: text, other[0]: other[1]}
                return json.loads(pair[0]), json.loads(pair[1])
    raise AssertionError("no two are alike")
