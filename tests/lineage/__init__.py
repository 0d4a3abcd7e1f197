"""What OpenLineage's provider for Airflow makes of a run; `make test-lineage` installs it."""
