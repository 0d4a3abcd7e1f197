"""Change events: whose row it is, what did not come, and what changes no row."""

from tests.mutants.mutant import Mutant

ENVELOPES = "tests/spark/test_envelopes.py"
MUTANTS = (
    Mutant(
        "envelope: a source's time is a whole number",
        "isinstance(kind, Scalar) and kind.kind in kinds",
        "True",
        f"{ENVELOPES}::test_which_schemas_are_of_debezium",
    ),
    Mutant(
        "envelope: of a delete, the row is what it tells",
        "event.row(is_delete, key)",
        "event.row(F.lit(False), key)",
        f"{ENVELOPES}::test_the_columns_are_those_of_the_row",
    ),
    Mutant(
        "envelope: what a delete tells is asked once, and not by each column",
        "F.when(F.col(IS_TOLD), there[name])",
        "F.when(self.is_told(key), there[name])",
        f"{ENVELOPES}::test_what_a_delete_tells_is_asked_once_and_not_by_each_column",
    ),
    Mutant(
        "envelope: of a delete, the key tells what it does not",
        "if key is not None and name in keys and keys[name].type == kind:",
        "if False:",
        f"{ENVELOPES}::test_the_columns_are_those_of_the_row",
    ),
    Mutant(
        "envelope: a value that did not come is not stored",
        "return F.when(~away, found)",
        "return found",
        f"{ENVELOPES}::test_values_that_did_not_come_are_named_and_never_stored",
    ),
    Mutant(
        "envelope: a map that is a placeholder is no value",
        "return F.map_entries(value) == F.array(pair)",
        "return F.lit(False)",
        f"{ENVELOPES}::test_values_that_did_not_come_are_named_and_never_stored",
    ),
    Mutant(
        "envelope: a placeholder may be bytes",
        "raw = bytes.fromhex(configured.removeprefix(_HEX))",
        "pass",
        "tests/unit/test_placeholders.py::test_each_type_has_its_forms",
    ),
    Mutant(
        "envelope: a byte has a sign",
        "byte - 256 if byte > 127 else byte",
        "byte",
        "tests/unit/test_placeholders.py::test_each_type_has_its_forms",
    ),
    Mutant(
        "envelope: an update without its row is bad",
        '~op.isin(*CHANGES) | ~has_row, F.lit("type_mismatch")',
        '~op.isin(*CHANGES), F.lit("type_mismatch")',
        f"{ENVELOPES}::test_what_changes_no_row_is_set_aside_and_called_so",
    ),
    Mutant(
        "envelope: a message changes no row",
        "has_no_op | (op == MESSAGE)",
        "has_no_op",
        f"{ENVELOPES}::test_what_changes_no_row_is_set_aside_and_called_so",
    ),
    Mutant(
        "envelope: a schema that is none does not fit",
        'if "op" not in names or "source" not in names:',
        "if False:",
        f"{ENVELOPES}::test_which_schemas_are_of_debezium",
    ),
    Mutant(
        "envelope: nobody has asked for a new field of the row",
        "(not asked and leads_to(path, chain))",
        "False",
        f"{ENVELOPES}::test_a_new_field_of_the_row_is_a_new_column_that_nobody_has_asked_for",
    ),
    Mutant(
        "envelope: a delete has the day of Kafka's time",
        'is_gone |= F.coalesce(F.col("op").isin("d", "t"), F.lit(False))',
        "pass",
        f"{ENVELOPES}::test_a_delete_has_the_day_of_kafkas_time_where_it_does_not_tell_its_own",
    ),
)
