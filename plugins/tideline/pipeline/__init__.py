"""One batch, step by step; Airflow's tasks and the command line call the same six functions.

Read in this order: plan_offset_ranges, detect_earliest_reset, resolve_reset, ingest_ranges,
verify_ranges, advance_offsets. `run_batch` puts them in a row.
"""
