"""Protobuf: what parses well and is something else, and what a column cannot hold."""

from tests.mutants.mutant import Mutant

RECORDS = "tests/spark/test_decoding_protobuf.py"
SCHEMAS = "tests/unit/test_protobuf_schemas.py"
FILES = "tests/unit/test_protobuf_files.py"
MUTANTS = (
    Mutant(
        "protobuf: another message is not decoded",
        "if name != self._message:",
        "if False:",
        f"{RECORDS}::test_a_bad_record_breaks_only_itself",
    ),
    Mutant(
        "protobuf: indexes of no message are refused",
        "        if name is None:\n            raise Unfit(",
        "        if False:\n            raise Unfit(",
        f"{RECORDS}::test_a_bad_record_breaks_only_itself",
    ),
    Mutant(
        "protobuf: a field in another encoding is not left out in silence",
        "if any(field.field_number in self._plain for field in unknown):",
        "if False:",
        f"{RECORDS}::test_a_bad_record_breaks_only_itself",
    ),
    Mutant(
        "protobuf: a required field is there",
        "if asks and not message.IsInitialized():",
        "if False:",
        f"{RECORDS}::test_the_second_version_of_the_language",
    ),
    Mutant(
        "protobuf: a number that a closed enum has not is no other encoding",
        "if not _holds_enum(f)",
        "if True",
        f"{RECORDS}::test_the_second_version_of_the_language",
    ),
    Mutant(
        "protobuf: text of proto2 is text",
        "    if bytes in set(map(type, values)):",
        "    if False:",
        f"{RECORDS}::test_the_second_version_of_the_language",
    ),
    Mutant(
        "protobuf: a time is one of a calendar",
        "if not (_FIRST_SECOND <= seconds <= _LAST_SECOND and 0 <= nanos < 1_000_000_000):",
        "if False:",
        f"{RECORDS}::test_times_that_no_calendar_has_are_out_of_range",
    ),
    Mutant(
        "protobuf: a map's rows are the same each time",
        "[sorted(get(m).items(), key=lambda pair: pair[0]) for m in messages]",
        "[sorted(get(m).items(), key=lambda pair: pair[0], reverse=True) for m in messages]",
        f"{RECORDS}::test_every_kind_of_field",
    ),
    Mutant(
        "protobuf: workers get a few large records at once",
        '    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024 * 1024),\n',
        "",
        f"{RECORDS}::test_large_records_fit_into_a_small_heap",
    ),
    Mutant(
        "protobuf: a field is its number",
        "        if theirs.number:\n            same",
        "        if False:\n            same",
        f"{SCHEMAS}::test_a_number_keeps_its_column_whatever_its_name_is",
    ),
    Mutant(
        "protobuf: the table's message is found by its name",
        "wanted or (known if known in names else next(iter(names), None))",
        "wanted or next(iter(names), None)",
        f"{SCHEMAS}::test_the_message_is_the_first_one_of_the_first_schema",
    ),
    Mutant(
        "protobuf: a reference does not leave its folder",
        "        if not _is_below(name):\n            raise",
        "        if False:\n            raise",
        f"{FILES}::test_a_reference_does_not_leave_its_folder",
    ),
)
