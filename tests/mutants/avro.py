"""Avro: what is forged, cut off or beyond a column, and what Connect's logical types mean."""

from tests.mutants.mutant import Mutant

RECORDS = "tests/spark/test_decoding_avro.py"
HOSTILE = "tests/spark/test_hostile.py"
MEANT = f"{RECORDS}::test_logical_types_of_connect_s_are_what_they_mean"
TYPES = "tests/unit/test_semantics.py"
MUTANTS = (
    Mutant(
        "avro: bytes behind a record are told",
        "if (reading.at < payload.length) {",
        "if (false) {",
        f"{RECORDS}::test_a_bad_record_breaks_only_itself",
    ),
    Mutant(
        "avro: a branch that does not exist is malformed",
        "branch < 0 || branch >= node.inner.length",
        "false",
        HOSTILE,
    ),
    Mutant(
        "avro: a boolean is one of two bytes",
        "found != 0 && found != 1",
        "false",
        RECORDS,
    ),
    Mutant(
        "avro: a number has no more bits than its type",
        "i == 9 && one > 1 || bits == 32 && found >>> 32 != 0",
        "false",
        RECORDS,
    ),
    Mutant(
        "avro: a length is within the bytes that are there",
        "if (found < 0 || found > data.length - at) {",
        "if (found < 0) {",
        RECORDS,
    ),
    Mutant(
        "avro: as many items as bytes, and no more",
        "if (count > most) {",
        "if (false) {",
        RECORDS,
    ),
    Mutant(
        "avro: a block has the size that it says",
        "if (end >= 0 && end != reading.at) {",
        "if (false) {",
        RECORDS,
    ),
    Mutant(
        "avro: text is text",
        "if (node.to != ' ' && !found.isValid()) {",
        "if (false) {",
        f"{RECORDS}::test_text_is_checked_wherever_it_is",
    ),
    Mutant(
        "avro: a decimal has no more digits than its column",
        "made == null || made.precision() > node.precision",
        "made == null",
        MEANT,
    ),
    Mutant(
        "avro: a time is within the years of every reader",
        "if (number < FIRST_DAY * ofDay || number >= (LAST_DAY + 1) * ofDay) {",
        "if (false) {",
        f"{RECORDS}::test_times_far_away_break_nothing",
    ),
    Mutant(
        "avro: a scale fills no memory",
        "Math.abs(scale) > MOST_SCALE || digits.length > MOST_BYTES",
        "false",
        MEANT,
    ),
    Mutant(
        "avro: a zoned time has its zone",
        'note(MISMATCH, node.path + ": no date-time with an offset, as 2026-01-31T23:59:59Z");',
        "",
        MEANT,
    ),
    Mutant(
        "connect: a column that is there keeps its type",
        "if new != (written := as_written(new)) and written is not None:",
        "if False:",
        TYPES,
    ),
    Mutant(
        "connect: it is told once",
        "if not isinstance(known, Scalar) or known.kept:",
        "if not isinstance(known, Scalar):",
        TYPES,
    ),
    Mutant(
        "connect: a union has no two texts",
        "shape = shape if len(branches) == 1 else as_written(shape)",
        "pass",
        TYPES,
    ),
    Mutant(
        "connect: a time without a zone is no instant",
        '("long", "io.debezium.time.MicroTimestamp"): "ntz-micros"',
        '("long", "io.debezium.time.MicroTimestamp"): "timestamp-micros"',
        TYPES,
    ),
)
