"""The current table: one row a key, folded from the typed table, proven bucket by bucket.

steps      fold_changes and verify_current, as a run does them
rules      what is to be folded, when, and whether what came of it holds. Pure
tables     the current table as the ledger knows it
execution  one plan: the fold, the checks, the commit
engine     the fold as runs have it
checking   the table held against the ledger, by its log or by all of its rows
explaining what became of a key
sweeping   rows that a later snapshot has not read again
views      SQL for other engines: the rows of now, and their history
barriers   changes that say that all rows are gone. Pure
arrow      the fold itself, in this process
"""
