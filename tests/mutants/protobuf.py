"""Protobuf: what parses well and is something else, and what a column cannot hold."""

from tests.mutants.mutant import Mutant

RECORDS = "tests/spark/test_decoding_protobuf.py"
SCHEMAS = "tests/unit/test_protobuf_schemas.py"
FILES = "tests/unit/test_protobuf_files.py"
MUTANTS = (
    Mutant(
        "protobuf: another message is not decoded",
        "if (!name.equals(writer.message.name)) {",
        "if (false) {",
        f"{RECORDS}::test_a_bad_record_breaks_only_itself",
    ),
    Mutant(
        "protobuf: indexes of no message are refused",
        "      if (name == null) {\n        throw misframed(",
        "      if (false) {\n        throw misframed(",
        f"{RECORDS}::test_a_bad_record_breaks_only_itself",
    ),
    Mutant(
        "protobuf: a field in another encoding is not left out in silence",
        'note(MISMATCH, field.path + ": a field in the encoding of another type");',
        "",
        f"{RECORDS}::test_what_other_parsers_change_in_silence",
    ),
    Mutant(
        "protobuf: a number longer than its type is not cut off",
        'note(RANGE, field.path + ": a number beyond " + field.type);',
        "",
        f"{RECORDS}::test_what_other_parsers_change_in_silence",
    ),
    Mutant(
        "protobuf: a required field is there",
        "if (fields[i].isRequired && !state.seen[i]) {",
        "if (false) {",
        f"{RECORDS}::test_the_second_version_of_the_language",
    ),
    Mutant(
        "protobuf: a number that an enum has not stands as digits",
        "found == null ? String.valueOf(number) : (String) found",
        'found == null ? "" : (String) found',
        f"{RECORDS}::test_an_enum_s_unknown_number_stands_as_digits",
    ),
    Mutant(
        "protobuf: text is text",
        "if (text != null && !text.isValid()) {",
        "if (false) {",
        f"{RECORDS}::test_the_second_version_of_the_language",
    ),
    Mutant(
        "protobuf: a time is one of a calendar",
        "if (seconds < FIRST_SECOND || seconds > LAST_SECOND || nanos < 0 || nanos > 999999999L) {",
        "if (false) {",
        f"{RECORDS}::test_times_that_no_calendar_has_are_out_of_range",
    ),
    Mutant(
        "protobuf: a map's rows are the same each time",
        "known == null ? new TreeMap() : (Map) known",
        "known == null ? new TreeMap(java.util.Collections.reverseOrder()) : (Map) known",
        f"{RECORDS}::test_every_kind_of_field",
    ),
    Mutant(
        "protobuf: members of a oneof clear each other",
        "        into.found[i] = null;\n",
        "",
        f"{RECORDS}::test_what_other_parsers_change_in_silence",
    ),
    Mutant(
        "protobuf: nothing is read beyond a message's end",
        "if (found < 0 || found > end - at) {",
        "if (found < 0 || found > data.length - at) {",
        f"{RECORDS}::test_what_other_parsers_change_in_silence",
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
