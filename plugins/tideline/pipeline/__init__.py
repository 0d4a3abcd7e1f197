"""One batch, step by step; Airflow's tasks and the command line call the same functions.

One run in six files, top to bottom:

    run_batch       the steps in a row, as `tideline run` does them
    steps           plan, detect, verify, advance: the steps that need no file of their own
    proposing       from head and observation to a proposal
    ingest_ranges   the step that reads: an attempt, Spark, its files
    table_commit    (in `tideline.landing`) the one way in which rows get into the table and out
    closing         (in `tideline.landing`) how the run ends: the position moves

Two side doors: `resolve_reset` (with `decisions`), when detection found something that goes on by a
decision, and `recovery`, when an earlier run left something open. `freezing` is between detection
and reading: a proposal becomes a plan.

A step begins with one snapshot of the ledger, observes, decides by `tideline.rules`, commits each
change in one compare-and-swap, acts, raises. No step calls a step.
"""
