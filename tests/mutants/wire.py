"""What producers write: roots, nulls, deletes, ids that are trouble."""

from tests.mutants.mutant import Mutant

WIRE = "tests/spark/test_wire.py::test_a_case_has_the_rows_that_a_careful_user_expects"
ROOTS = "tests/unit/test_avro_schemas.py"
MUTANTS = (
    Mutant(
        "wire: the decoder's root is that of the columns",
        "    record = _root(tree)\n    if record is None:\n        field",
        "    record = tree if 'fields' in tree else None\n    if record is None:\n        field",
        f"{ROOTS}::test_the_root_is_the_same_for_columns_and_for_the_decoder",
    ),
    Mutant(
        "wire: a null that its schema allows is a tombstone",
        "made[IS_TOMBSTONE] = F.col(IS_TOMBSTONE) | (is_null & is_told)",
        "made[IS_TOMBSTONE] = F.col(IS_TOMBSTONE)",
        f"{WIRE}[N2d-nullable-root-that-is-null]",
    ),
    Mutant(
        "wire: a null that its schema does not allow is set aside",
        'name = F.when(is_null & ~is_told, "type_mismatch")',
        'name = F.when(F.lit(False), "type_mismatch")',
        f"{WIRE}[02e-key-null-payload]",
    ),
    Mutant(
        "wire: an event without an operation counts, where its schema has one",
        'has_no_op = schema_id.isin(*writers_without(part, "op"))',
        "has_no_op = op.isNull()",
        f"{WIRE}[02h-null-op]",
    ),
    Mutant(
        "wire: a delete that tells its key alone has no other values",
        "return ~reduce(and_, unset, F.lit(True))",
        "return F.lit(True)",
        f"{WIRE}[05g-flattened-delete]",
    ),
    Mutant(
        "wire: a column's default is no value that was told",
        "known = (*fixed, *(one for default in defaults for one in _literals(str(kind), default)))",
        "known = (*fixed,)",
        f"{WIRE}[05b-delete-defaults-of-columns]",
    ),
    Mutant(
        "wire: what an event says of itself is read as a text",
        "                shape = self._read(shape)\n",
        "",
        f"{WIRE}[06b-snapshot-text-becomes-boolean]",
    ),
    Mutant(
        "wire: an id beside a header is not asked for",
        "is_framed & (number <= _LARGEST_ID) & _header_of_others(part).isNull()",
        "is_framed & (number <= _LARGEST_ID)",
        f"{WIRE}[11-19-24-other-framings]",
    ),
    Mutant(
        "wire: a schema that cannot be read is trouble of its records",
        "            return one_line(str(error), _LONGEST_REASON)",
        "            raise",
        f"{WIRE}[13a-reference-gone]",
    ),
    Mutant(
        "wire: an id of a context is asked for there",
        """return (f"subject={quote(subject, safe='')}",) if context_of(subject) else ()""",
        "return ()",
        f"{WIRE}[10d-contexts-same-id-in-the-default]",
    ),
    Mutant(
        "wire: a record without a time has none",
        'F.when(F.unix_millis("timestamp") != _NO_TIMESTAMP, F.col("timestamp"))',
        'F.col("timestamp")',
        f"{WIRE}[18-createtime-minus-one]",
    ),
    Mutant(
        "wire: a reference is of its schema's base",
        'return base + ref if ref.startswith("#") else urljoin(base, ref)',
        "return ref",
        f"{WIRE}[21c-relative-inner-id]",
    ),
    Mutant(
        "wire: a file has the table's types",
        "if kind is not None and not _is_alike(kind, field.type):",
        "if False:",
        "tests/unit/test_written_types.py",
    ),
)
