"""Random changes of few keys, in portions of any size and order, for `Folds`."""

import random

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.folds import at, change, place

LATER = {ID: 0, OTHER_ID: 1}


def records(seed, order, *, lacks, truncates, eras=(ID, OTHER_ID)):
    """Changes of few keys, in one partition of one or two incarnations."""
    chance = random.Random(seed)
    for topic_id in eras:
        for offset in range(chance.randrange(40)):
            op = chance.choice(["c", "u", "u", "u", "d", None])
            if truncates and chance.random() < 0.06:
                op = "t"
            lacking = [n for n in ("v",) if op == "u" and chance.random() < lacks]
            value = None if lacking or op in ("d", None, "t") else f"{topic_id[:2]}{offset}"
            key = chance.choice(
                [None if op in ("c", "u") else "z", "", "a", 'b"\n', "c", "é", "x" * 40]
            )
            number = chance.randrange(9) if order == "offset" else LATER[topic_id] * 100 + offset
            yield change(offset, key, op, value, number, topic_id=topic_id, lacks=lacking)


def portions(seed, rows):
    """All rows' places, in portions of any size and order."""
    chance = random.Random(seed)
    places = [place(row) for row in rows]
    chance.shuffle(places)
    while places:
        size = chance.randrange(1, 12)
        yield [at(p[3], p[3] + 1, p[2], p[1], p[0]) for p in places[:size]]
        places = places[size:]
