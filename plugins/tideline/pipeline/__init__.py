"""One batch, step by step; Airflow's tasks and the command line call the same six functions.

Read in this order: plan_offset_ranges, detect_earliest_reset, resolve_reset, ingest_ranges,
verify_ranges, advance_offsets. `run_batch` puts them in a row.

A step begins with one snapshot of the ledger, observes, decides by `tideline.rules`, commits each
change in one compare-and-swap, acts, raises. No step imports a step. `run_batch` stands on
eight floors, each of which imports only those below it; `make lint` holds that:

    run_batch    the six steps in a row
    steps        plan, detect, resolve (and ask), ingest, verify, advance
    recovery     what an earlier run left open
    phases       proposing; freezing; decisions; unreadable records
    commit       table_commit: the one way in which rows get into the table and out of it
    copies       only_copies: rows of records that the log has lost since
    parts        observing, windows, landed, attempts, incidents, closing, table_audit, lane
    ground       context: what a run is given; stability: observations that agree
"""
