"""Arrow tables and Parquet files for delta-rs; the ledger and the table both use it."""
