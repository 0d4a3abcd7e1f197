"""A table of PostgreSQL that changes at random, as users change theirs; its rows are the judge."""

import random

TYPES = {
    "id": "bigint PRIMARY KEY",
    "small": "smallint",
    "price": "numeric(20,6)",
    "free": "numeric",
    "ratio": "double precision",
    "day": "date",
    "at": "timestamp(6)",
    "at_milli": "timestamp(3)",
    "zoned": "timestamptz",
    "ref": "uuid",
    "doc": "jsonb",
    "note": "text",
    "raw": "bytea",
    "paid": "boolean",
    "tags": "text[]",
}
"""One column of each kind that PostgreSQL's users have."""


class Changes:
    """Random statements: inserts, updates, deletes, re-inserts, changed keys, new columns.

    `untold` has the keys whose essay no log tells: PostgreSQL does not log a long value that an
    update leaves alone, and a changed key is an update for it, a delete and an insert for all else.

    Args:
        source: A PostgreSQL.
        seed: Of everything that is drawn.
        keys: How many rows there may be at most.
    """

    def __init__(self, source, database, seed, *, keys=40):
        self.source, self.database = source, database
        self.random = random.Random(seed)
        self.keys = keys
        self.columns = TYPES | {"essay": "text"}
        self.statements = 0
        self.untold = set()
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        self.execute(f"CREATE TABLE orders ({columns})")
        self.execute("ALTER TABLE orders ALTER COLUMN essay SET STORAGE EXTERNAL")

    def execute(self, statement):
        """What a statement returns."""
        return self.source.execute(statement.replace(":", "\\:"), self.database)

    def rows(self):
        """All rows by key, in the columns of now."""
        names = ", ".join(self.columns)
        found = self.source.execute(f"SELECT {names} FROM orders", self.database)
        return {row[0]: dict(zip(self.columns, row, strict=True)) for row in found}

    def happen(self, count):
        """So many statements."""
        for _ in range(count):
            self.statements += 1
            self._one()

    def _one(self):
        draw, key = self.random.random(), self.random.randrange(self.keys)
        other = self.random.randrange(self.keys)
        if draw < 0.25:
            names = [*self.columns]
            values = ", ".join([str(key), *(self.value(n) for n in names[1:])])
            self._tells(f"INSERT INTO orders VALUES ({values}) ON CONFLICT DO NOTHING")
        elif draw < 0.40:
            self._tells(f"DELETE FROM orders WHERE id = {key}")
        elif draw < 0.45:
            self._move(key, other)
        elif draw < 0.47 and len(self.columns) < 20:
            name = f"more_{len(self.columns)}"
            self.columns[name] = "text"
            self.execute(f"ALTER TABLE orders ADD COLUMN {name} text")
        elif draw < 0.55:
            essay = self.value("essay")
            self._tells(f"UPDATE orders SET essay = {essay} WHERE id = {key}")
        else:
            some = self.random.sample([n for n in self.columns if n not in ("id", "essay")], 3)
            sets = ", ".join(f"{name} = {self.value(name)}" for name in some)
            self.execute(f"UPDATE orders SET {sets} WHERE id = {key}")

    def _tells(self, statement):
        """A statement that tells the essays of the rows it finds, or takes them away."""
        self.untold -= {key for (key,) in self.execute(f"{statement} RETURNING id")}

    def _move(self, key, other):
        free = f"NOT EXISTS (SELECT 1 FROM orders WHERE id = {other})"
        moved = self.execute(
            f"UPDATE orders SET id = {other} WHERE id = {key} AND {free} RETURNING essay IS NULL"
        )
        if moved:
            self.untold.discard(key)
            self.untold |= set() if moved[0][0] else {other}

    def value(self, name):
        """A literal of a column; one of ten is null."""
        draw = self.random.random
        if draw() < 0.1:
            return "NULL"
        day = f"{self.random.randrange(1900, 2100)}-0{self.random.randrange(1, 10)}-17"
        clock = f"{self.random.randrange(10, 24)}:11:12.{self.random.randrange(10**5, 10**6)}"
        return {
            "small": str(self.random.randrange(-9, 9)),
            "price": f"{self.random.randrange(-(10**9), 10**9)}.{self.random.randrange(10**6):06}",
            "free": f"{self.random.randrange(10**9)}.{self.random.randrange(1, 10)}",
            "ratio": repr(self.random.uniform(-1e6, 1e6)),
            "day": f"'{day}'",
            "at": f"'{day} {clock}'",
            "at_milli": f"'{day} {clock[:12]}'",
            "zoned": f"'{day} {clock}+02'",
            "ref": f"'{self.random.getrandbits(128):032x}'",
            "doc": f"'{{\"n\": {self.random.randrange(99)}}}'",
            "raw": f"'\\x{self.random.getrandbits(32):08x}'",
            "paid": self.random.choice(["true", "false"]),
            "tags": self.random.choice(["'{}'", "ARRAY['a', NULL]", "ARRAY['é']"]),
            "essay": "'" + chr(97 + self.random.randrange(26)) * 9000 + "'",
        }.get(name, f"'{self.random.choice(['', 'é', 'a', 'long ' * 9])}'")
