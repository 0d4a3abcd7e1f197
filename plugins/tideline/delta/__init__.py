"""Delta's log and files, as ledger and table share them: a request for each question (ADR 61)."""
