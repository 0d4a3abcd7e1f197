"""Avro: what is forged, cut off or beyond a column, and what Connect's logical types mean."""

from tests.mutants.mutant import Mutant

RECORDS = "tests/spark/test_decoding_avro.py"
HOSTILE = "tests/spark/test_hostile.py"
MEANT = f"{RECORDS}::test_logical_types_of_connect_s_are_what_they_mean"
CONNECT = "tests/spark/test_decoding_connect.py"
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
        "inCalendar(node, number, 1);",
        "",
        MEANT,
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
        "connect's json: a time is within the years of every reader",
        'note(RANGE, field, "a time outside of the years 1 to 9999");',
        "",
        CONNECT,
    ),
    Mutant(
        "connect's json: a number that is a decimal has its scale",
        "if (found.scale() > field.scale) {",
        "if (false) {",
        CONNECT,
    ),
    Mutant(
        "connect's json: a decimal fits its column",
        "if (found.precision() > DECIMAL_DIGITS) {\n        note(",
        "if (false) {\n        note(",
        CONNECT,
    ),
    Mutant(
        "connect's json: a scale fills no memory",
        "Math.abs(scale) > MOST_SCALE || digits.length > MOST_BYTES",
        "false",
        CONNECT,
    ),
    Mutant(
        "connect's json: Base64 has its padding",
        "given.length() % 4 != 0 ? null : ",
        "",
        CONNECT,
    ),
    Mutant(
        "connect's json: a payload is there, once",
        'if (!names.contains("payload")) {',
        "if (false) {",
        CONNECT,
    ),
    Mutant(
        "connect's json: only a known schema's records are decoded",
        "Boolean.valueOf(one != null)",
        "Boolean.valueOf(true)",
        CONNECT,
    ),
    Mutant(
        "connect's json: a hash finds a schema, and its bytes decide",
        "!Arrays.equals(one.bytes, 0, one.bytes.length, value, start, end)",
        "false",
        CONNECT,
    ),
    Mutant(
        "connect's json: a schema's bytes are all of them, and no others",
        "XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET + start, end - start, SEED)",
        "XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, end, SEED)",
        CONNECT,
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
