"""A table of PostgreSQL that changes at random, as users change theirs; its rows are the judge."""

import random

TYPES = {
    "id": "bigint PRIMARY KEY",
    "small": "smallint",
    "price": "numeric(20,6)",
    "free": "numeric",
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
    "essay": "text",
}


class Changes:
    """Random statements: inserts, updates, deletes, re-inserts, changed keys, new columns.

    Args:
        source: A PostgreSQL.
        seed: Of everything that is drawn.
        keys: How many rows there may be at most.
    """

    def __init__(self, source, database, seed, *, keys=40):
        self.source, self.database = source, database
        self.random = random.Random(seed)
        self.keys = keys
        self.columns = dict(TYPES)
        self.statements = 0
        columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
        self.execute(f"CREATE TABLE orders ({columns})")
        self.execute("ALTER TABLE orders ALTER COLUMN essay SET STORAGE EXTERNAL")

    def execute(self, statement):
        self.source.execute(statement.replace(":", "\\:"), self.database)

    def rows(self):
        """All rows by key, in the columns of now."""
        names = ", ".join(self.columns)
        found = self.source.execute(f"SELECT {names} FROM orders", self.database)
        return {row[0]: dict(zip(self.columns, row, strict=True)) for row in found}

    def happen(self, count):
        """So many statements."""
        for _ in range(count):
            self.statements += 1
            self.execute(self._statement())

    def _statement(self):
        draw, key = self.random.random(), self.random.randrange(self.keys)
        other = self.random.randrange(self.keys)
        if draw < 0.25:
            names = [*self.columns]
            values = ", ".join([str(key), *(self.value(n) for n in names[1:])])
            return f"INSERT INTO orders VALUES ({values}) ON CONFLICT DO NOTHING"
        if draw < 0.40:
            return f"DELETE FROM orders WHERE id = {key}"
        if draw < 0.45:
            free = f"NOT EXISTS (SELECT 1 FROM orders WHERE id = {other})"
            return f"UPDATE orders SET id = {other} WHERE id = {key} AND {free}"
        if draw < 0.47 and len(self.columns) < 20:
            name = f"more_{len(self.columns)}"
            self.columns[name] = "text"
            return f"ALTER TABLE orders ADD COLUMN {name} text"
        if draw < 0.55:
            return f"UPDATE orders SET essay = {self.value('essay')} WHERE id = {key}"
        some = self.random.sample([n for n in self.columns if n not in ("id", "essay")], 3)
        sets = ", ".join(f"{name} = {self.value(name)}" for name in some)
        return f"UPDATE orders SET {sets} WHERE id = {key}"

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
