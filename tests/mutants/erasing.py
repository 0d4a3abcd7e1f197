"""What may be erased: what is proven, where no row rises, in every table; and who knows of it."""

from tests.mutants.mutant import Mutant

STEPS = "tests/steps/test_erasing.py"
UNIT = "tests/unit/test_erasing.py"
OTHERS = "tests/spark/test_erasing_others.py"
HASHES = "tests/spark/test_erased_coordinates.py"
SERIES = "tests/simulation/test_duels.py"
MUTANTS = (
    Mutant("bytes prove nothing", "    if asked.by_bytes:\n", "    if True:\n", STEPS),
    Mutant(
        "a raw key proves nothing of a record with a value, where columns are made of others",
        "        claimed = {place for place in bare if others[place] not in living}\n",
        "",
        STEPS,
    ),
    Mutant(
        "a tombstone stays with what waits in quarantine",
        "for place in bare if others[place] not in living}",
        "for place in bare}",
        STEPS,
    ),
    Mutant(
        "a tombstone that has bytes is one",
        "    for role, column, bare in _SAY_BARE if at else ():\n",
        "    for role, column, bare in ():\n",
        STEPS,
    ),
    Mutant(
        "what is in no typed table is undecided",
        "    left = {**bad, **_dropped(tables, state, {*bad})} if asked.keys else {}\n",
        "    left = {**bad} if asked.keys else {}\n",
        STEPS,
    ),
    Mutant(
        "nothing is erased while a table is away",
        "        elif table.uri in needed:",
        "        elif False:",
        STEPS,
    ),
    Mutant(
        "an erasure cuts nothing of another stream's table (R13)",
        "            upkeep.refuse_other(ledger_id)\n",
        "",
        "tests/steps/test_swapped_tables.py",
    ),
    Mutant(
        "a type that rounds is no key's",
        "            if types[name] in _ROUNDING:",
        "            if False:",
        UNIT,
    ),
    Mutant(
        "no row rises",
        "    if older.keyless or (older.moved and not keys.whole_keys):",
        "    if False:",
        OTHERS,
    ),
    Mutant(
        "a row stays where its own last change does",
        "            and place_of(last[values]) in whole\n",
        "",
        OTHERS,
    ),
    Mutant(
        "a table at a former address is erased from",
        "return (*found, *former)",
        "return (*found,)",
        STEPS,
    ),
    Mutant(
        "an audit looks at tables of before",
        "        if rows := sum(part.rows for part in held.values()):\n            found",
        "        if rows := 0:\n            found",
        STEPS,
    ),
    Mutant(
        "a ledger that was put back knows hashes again",
        "            after = after._told_by(sealed.erasure)\n",
        "            pass\n",
        UNIT,
    ),
    Mutant(
        "and the erasure",
        "begun=newer.number, open=(*self.open, again))",
        "begun=newer.number)",
        UNIT,
    ),
    Mutant(
        "typed tables tell it where the raw one does not",
        "        run.ledger.update(lambda latest: latest.with_erasures_told(newer))\n",
        "        pass\n",
        STEPS,
    ),
    Mutant(
        "hashes of another secret are not known",
        "if sealed is not None and sealed.seal == self.seal:",
        "if sealed is not None:",
        UNIT,
    ),
    Mutant(
        "the audit is not clean before it is asked again",
        "    found = [untold_text(name) for name in state.erasing.untold]\n",
        "    found = []\n",
        STEPS,
    ),
    Mutant(
        "every copy of a ledger has its secret",
        "        latest = latest.with_secret(secret)  # each",
        "        # each",
        STEPS,
    ),
    Mutant(
        "who is overtaken sees that it is done",
        '        if done is None or done.status != "done":\n            raise',
        "        if True:\n            raise",
        STEPS,
    ),
    Mutant(
        "a key has records that are its own",
        "had |= {number for number, key in asked.items() if key in there}",
        "had |= {*numbers}",
        STEPS,
    ),
    Mutant(
        "a key without records was not erased before",
        "({*e.keys} - {*e.without_records}) & of_before",
        "{*e.keys} & of_before",
        STEPS,
    ),
    Mutant(
        "a value is no key",
        '        return F.col("key")',
        '        return F.coalesce("key", "value")',
        HASHES,
    ),
    Mutant(
        "a raw key that others have tells nothing",
        "    own = {*keys.values()} - shared - {None}\n",
        "    own = {*keys.values()} - {None}\n",
        STEPS,
    ),
    Mutant(
        "a record is told by all of it where its raw key does not tell it",
        'for r in whole if r["key"] not in own}',
        "for r in ()}",
        STEPS,
    ),
    Mutant(
        "raw keys are those of former raw tables as well",
        'each = (rows_at(table, ranges, columns) for table in tables["raw"] if ranges)',
        'each = (rows_at(table, ranges, columns) for table in tables["raw"][:1] if ranges)',
        STEPS,
    ),
    Mutant(
        "others' records in former raw tables share a key",
        '(*COORDINATES, "key")) for table in tables["raw"] if wanted)',
        '(*COORDINATES, "key")) for table in tables["raw"][:1] if wanted)',
        STEPS,
    ),
    Mutant(
        "what no typed table has is looked for in former raw tables",
        '    for table in tables["raw"]:\n        here |=',
        '    for table in tables["raw"][:1]:\n        here |=',
        STEPS,
    ),
    Mutant(
        "a share is one of all raw tables",
        'for role, table in there if role == "raw" for file',
        'for role, table in there[:1] if role == "raw" for file',
        STEPS,
    ),
    Mutant(
        "a record that no raw table has is named",
        "    if found.nowhere:",
        "    if False:",
        STEPS,
    ),
    Mutant(
        "a plan is refused where one typed table has another address",
        "        refuse_other_tables(run)  # as",
        "        pass  # as",
        STEPS,
    ),
    Mutant(
        "the whole history is read once for former addresses",
        "    if run.former is None:",
        "    if True:",
        STEPS,
    ),
    Mutant(
        "later records of one without a key are told by none",
        "    keyless = sum(keys.get(place) is None for",
        "    keyless = sum(place not in keys for",
        STEPS,
    ),
    Mutant(
        "an erasure by another key than the table's own may leave older changes",
        "        return not {name for names in by for name in names} <= {*key}",
        "        return False",
        f"{STEPS} {UNIT}",
    ),
    Mutant(
        "the key of the current table that an erasure has looked at is noted",
        "        whole=() if run.current is None else current_key(run, state),\n",
        "",
        STEPS,
    ),
    Mutant(
        "a table that is made of what is left of histories is unproven",
        "unproven_since(folding, head, at, older_kept(run, state, layout))",
        "unproven_since(folding, head, at)",
        STEPS,
    ),
    Mutant(
        "no row rises by what only its raw key tells",
        "        older = histories(run, state, found, names)",
        "        older = histories(run, state, found - {*claimed}, names)",
        STEPS,
    ),
    Mutant(
        "whole keys are looked for until nothing is added",
        "        if not asked.whole_keys or older.others <= found:",
        "        if True:",
        STEPS,
    ),
    Mutant(
        "an erasure is settled by an explicit word",
        "{*self.untold} - {*names}",
        "()",
        f"{STEPS} {UNIT}",
    ),
    Mutant(
        "nothing is settled that asks for nothing",
        "        if name not in state.erasing.untold:",
        "        if False:",
        STEPS,
    ),
    Mutant("status names what is not settled", "untold=erasing.untold,\n    )", "    )", STEPS),
    Mutant("a doctor names it", "    if state.erasing.untold:", "    if False:", STEPS),
    Mutant(
        "erase: a log that is cut has no commits that nobody knows",
        "if table.uri == known:",
        "if False:",
        "tests/steps/test_restored_tables.py"
        "::test_a_log_that_was_cut_behind_other_commits_of_ours_stays_in_order",
    ),
    Mutant(
        "erase: a log is cut at a commit of ours",
        "upkeep.fence(last_sealed_fold(run))",
        "last_sealed_fold(run)",
        "tests/steps/test_restored_tables.py::test_a_log_is_cut_behind_what_has_deleted_files",
    ),
    Mutant(
        "erase: where a log is cut, the last fold's seal stays",
        "upkeep.fence(last_sealed_fold(run))",
        "upkeep.fence()",
        "tests/steps/test_restored_tables.py"
        "::test_where_a_log_is_cut_an_older_ledger_learns_what_a_fold_has_sealed",
    ),
)
