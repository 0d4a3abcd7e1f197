"""From raw rows to typed rows, inside Spark: what `spark_jobs/decode_rows.py` puts together."""
