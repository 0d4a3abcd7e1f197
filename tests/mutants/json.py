"""JSON: what its parser passes over, and values that a column would hold otherwise."""

from tests.mutants.mutant import Mutant

DOCUMENTS = "tests/spark/test_decoding_json.py"
BAD = f"{DOCUMENTS}::test_a_bad_record_breaks_only_itself"
RULES = f"{DOCUMENTS}::test_each_value_becomes_what_the_page_says"
ORACLE = "tests/spark/test_json_oracle.py"
MUTANTS = (
    Mutant(
        "json: bytes that are no UTF-8 are found",
        "if (!UTF8String.fromBytes(payload).isValid()) {",
        "if (false) {",
        BAD,
    ),
    Mutant(
        "json: a byte order mark is none of a document",
        "if (payload[i] == 0 || payload[i] == (byte) 0xEF) {",
        "if (payload[i] == 0) {",
        BAD,
    ),
    Mutant(
        "json: zeros are no other encoding",
        "if (payload[i] == 0 || i == 0) {",
        "if (payload[i] != 0 && i == 0) {",
        f"{DOCUMENTS}::test_no_other_encoding_is_guessed",
    ),
    Mutant(
        "json: text behind a document is found",
        "        if (parser.nextToken() != null) {\n          note(TRAILING",
        "        if (false) {\n          note(TRAILING",
        BAD,
    ),
    Mutant(
        "json: a document that is cut off is malformed, also in a string",
        "        parser.finishToken(); // strings are read when they are asked for\n",
        "",
        ORACLE,
    ),
    Mutant(
        "json: half of a surrogate pair is no text",
        "if (!isPair) {",
        "if (false) {",
        BAD,
    ),
    Mutant(
        "json: a known name twice is found",
        "        if (seen[i]) {\n",
        "        if (false) {\n",
        BAD,
    ),
    Mutant(
        "json: an unknown name twice is found",
        "if (!others.add(name)) {",
        "if (false & others.add(name)) {",
        BAD,
    ),
    Mutant(
        "json: a name in another case is told",
        "if (place != null && !seen[place.intValue()]) {",
        "if (false) {",
        BAD,
    ),
    Mutant(
        "names are compared as Spark compares them",
        '"".join(map(_without_case, name))',
        "name.lower()",
        f"{DOCUMENTS}::test_names_that_spark_takes_for_one_become_columns",
    ),
    Mutant(
        "json: a number comes back from its double",
        "return again.compareTo(number) == 0;",
        "return true;",
        RULES,
    ),
    Mutant(
        "json: nothing becomes zero but zeros",
        "        return isZero(written);\n",
        "        return true;\n",
        RULES,
    ),
    Mutant(
        "json: a whole number fits 64 bits",
        "fits == JsonParser.NumberType.INT || fits == JsonParser.NumberType.LONG",
        "true",
        RULES,
    ),
    Mutant(
        "json: a time is within the years of every reader",
        "return number >= FIRST_DAY * ofDay && number < (LAST_DAY + 1) * ofDay;",
        "return true;",
        RULES,
    ),
    Mutant(
        "json: a number in a text keeps its own characters",
        "into.writeNumber(parser.getText());",
        "into.writeNumber(parser.getDoubleValue());",
        RULES,
    ),
    Mutant(
        "json: a VARIANT holds each number",
        "token.isNumeric() && !comesBackFromVariant()",
        "false",
        f"{DOCUMENTS}::test_without_a_schema_a_document_is_a_variant",
    ),
)
