"""The embedded stack: a real broker and a real Airflow on one machine, without Docker."""
