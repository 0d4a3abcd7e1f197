"""Arrow and Parquet as delta-rs needs them; the ledger and the table share it."""
